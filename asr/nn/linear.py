"""Linear layers, layer norm and the feed-forward module."""

from __future__ import annotations

import ggml
from asr.backend import clone_weight, clone_weight_opt
from asr.loader import ModelLoader

LAYER_NORM_EPS = 1e-5  # torch.nn.LayerNorm's default, which NeMo keeps


def linear(ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor) -> ggml.Tensor:
    """``torch.nn.Linear``, or a convolution of kernel 1: x [n_in, ...] -> [n_out, ...]."""
    y = ggml.mul_mat(ctx, matrix(ctx, clone_weight(ctx, loader, f"{name}.weight")), x)
    bias = clone_weight_opt(ctx, loader, f"{name}.bias")
    return y if bias is None else ggml.add(ctx, y, bias)


def matrix(ctx: ggml.Context, weight: ggml.Tensor) -> ggml.Tensor:
    """A kernel of size 1, stored as [1, n_in, n_out] or [1, 1, n_in, n_out], as the matrix [n_in, n_out]."""
    ne = weight.ne
    if ne[0] != 1:
        return weight
    sizes = ne[2:] if ne[1] == 1 and ne[3] > 1 else ne[1:3]
    return ggml.reshape_2d(ctx, weight, *sizes)


def layer_norm(ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor) -> ggml.Tensor:
    """``torch.nn.LayerNorm`` over the features: x [d, T] -> [d, T]."""
    y = ggml.mul(ctx, ggml.norm(ctx, x, LAYER_NORM_EPS), clone_weight(ctx, loader, f"{name}.weight"))
    return ggml.add(ctx, y, clone_weight(ctx, loader, f"{name}.bias"))


def feed_forward(ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor) -> ggml.Tensor:
    """NeMo's ``ConformerFeedForward``: Linear -> Swish -> Linear; x [d, T] -> [d, T]."""
    return linear(ctx, loader, f"{name}.linear2", ggml.silu(ctx, linear(ctx, loader, f"{name}.linear1", x)))
