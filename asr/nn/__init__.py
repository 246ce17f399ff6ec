"""The layers of a FastConformer: each is one function that adds its nodes to the graph under construction.

``name`` is the layer's prefix in NeMo's state dict. Shapes in the comments are ggml's (``ne``): features
first, then time.
"""
