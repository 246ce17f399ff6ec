"""Linear layers, layer norm and the feed-forward module.

Layers have two lowerings: on the CPU one operator of ours (``native/asr/kernels``), elsewhere ggml's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import asr._core as _core
import ggml
from asr.backend import clone_weight, clone_weight_opt
from asr.loader import ModelLoader

Activation = Literal["none", "relu", "silu", "gated"]

LAYER_NORM_EPS = 1e-5  # torch.nn.LayerNorm's default, which NeMo keeps


def linear(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    *,
    norm: str | None = None,
    activation: Activation = "none",
    residual: ggml.Tensor | None = None,
    half: bool = False,
) -> ggml.Tensor:
    """``torch.nn.Linear``, or a convolution of kernel 1, with what is around it: [n_in, ...] -> [n_out, ...].

    residual + (0.5 if ``half``) * activation(W norm(x) + b), where ``norm`` names a layer norm. ``gated`` is
    ``torch.nn.functional.glu``: the first half of the features times the sigmoid of the second.
    """
    weight = clone_weight(ctx, loader, f"{name}.weight")
    if fused(loader, x) or (loader.fused and weight.type == ggml.Type.Q8_0 and _multiplies_integers()):
        return fused_linear(
            ctx, loader, [name], x, norm=norm, activation=activation, residual=residual, half=half
        )
    if norm is not None:
        x = layer_norm(ctx, loader, norm, x)
    y = ggml.mul_mat(ctx, matrix(ctx, weight), x)
    bias = clone_weight_opt(ctx, loader, f"{name}.bias")
    if bias is not None:
        y = ggml.add(ctx, y, bias)
    if activation == "relu":
        y = ggml.relu(ctx, y)
    elif activation == "silu":
        y = ggml.silu(ctx, y)
    elif activation == "gated":
        y = _gated_linear_unit(ctx, y)
    if half:
        y = ggml.scale(ctx, y, 0.5)
    return y if residual is None else ggml.add(ctx, residual, y)


def fused(loader: ModelLoader, x: ggml.Tensor) -> bool:
    """Whether our own kernels take ``x``: for a single frame ggml's are as fast, but with q8_0 weights."""
    return loader.fused and x.ne[1] > 1


def _multiplies_integers() -> bool:
    return _core.reference_kernels(_core.kernels()) == "reference_integer"


def fused_linear(
    ctx: ggml.Context,
    loader: ModelLoader,
    names: Sequence[str],
    x: ggml.Tensor,
    *,
    norm: str | None = None,
    activation: Activation = "none",
    residual: ggml.Tensor | None = None,
    half: bool = False,
) -> ggml.Tensor:
    """:func:`linear` as one operator; the results of several layers of one size lie side by side."""
    biases = [clone_weight(ctx, loader, f"{n}.bias") for n in names if f"{n}.bias" in loader]
    return _core.linear(
        ctx,
        x,
        [matrix(ctx, clone_weight(ctx, loader, f"{n}.weight")) for n in names],
        biases=biases,
        norm=[] if norm is None else [clone_weight(ctx, loader, f"{norm}.{p}") for p in ("weight", "bias")],
        activation=activation,
        residual=residual,
        half=half,
    )


def _gated_linear_unit(ctx: ggml.Context, x: ggml.Tensor) -> ggml.Tensor:
    d2, n_frames = x.ne[:2]
    d = d2 // 2
    value = ggml.view_2d(ctx, x, d, n_frames, x.nb[1], 0)
    gate = ggml.view_2d(ctx, x, d, n_frames, x.nb[1], d * x.nb[0])
    return ggml.mul(ctx, ggml.sigmoid(ctx, ggml.cont(ctx, gate)), value)


def matrix(ctx: ggml.Context, weight: ggml.Tensor) -> ggml.Tensor:
    """A kernel of size 1, stored as [1, n_in, n_out] or [1, 1, n_in, n_out], as the matrix [n_in, n_out]."""
    ne = weight.ne
    if ne[0] != 1:
        return weight
    sizes = ne[2:] if ne[1] == 1 and ne[3] > 1 else ne[1:3]
    return ggml.reshape_2d(ctx, weight, *sizes)


def layer_norm(ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor) -> ggml.Tensor:
    """``torch.nn.LayerNorm`` over the features: x [d, T] -> [d, T]."""
    weight, bias = (clone_weight(ctx, loader, f"{name}.{part}") for part in ("weight", "bias"))
    if fused(loader, x):
        return _core.layer_norm(ctx, x, weight, bias)
    return ggml.add(ctx, ggml.mul(ctx, ggml.norm(ctx, x, LAYER_NORM_EPS), weight), bias)


def feed_forward(
    ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor, *, norm: str
) -> ggml.Tensor:
    """NeMo's ``ConformerFeedForward`` as a half step: x + 0.5 * linear2(silu(linear1(norm(x)))); [d, T]."""
    hidden = linear(ctx, loader, f"{name}.linear1", x, norm=norm, activation="silu")
    return linear(ctx, loader, f"{name}.linear2", hidden, residual=x, half=True)
