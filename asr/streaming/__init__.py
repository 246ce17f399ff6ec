"""Live recognition: audio in as it comes, text out while it is spoken."""
