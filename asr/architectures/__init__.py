"""Model architectures, each written as the paper reads."""
