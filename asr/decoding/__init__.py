"""Greedy decoding heads, and what NeMo derives from their tokens."""
