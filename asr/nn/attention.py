"""Multi-head self-attention with relative positions (Transformer-XL), and its masks.

Dai et al. 2019, as in NeMo's ``RelPositionMultiHeadAttention``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.backend import clone_weight
from asr.loader import ModelLoader
from asr.nn.linear import fused, fused_linear, layer_norm, linear


@dataclass(frozen=True)
class Surroundings:
    """What the attention of every layer shares.

    ``positions``: the layer's ``linear_pos`` of the relative positions, by the name of the attention, for the
    distances ``behind`` ... -``ahead`` of :func:`reach`; ggml's own operators take all 2T-1. ``context`` and
    ``style`` say which keys a frame sees; ``mask`` [T, T] says the same (keys first, 0 or -inf) to ggml's own
    operators, None when it is everything.
    """

    positions: Callable[[str], ggml.Tensor]
    behind: int
    context: tuple[int, int]
    style: str
    mask: ggml.Tensor | None


def relative_attention(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    around: Surroundings,
    n_heads: int,
    *,
    norm: str,
) -> ggml.Tensor:
    """x [d, T] -> x + attention(norm(x)) [d, T]."""
    if fused(loader, x):
        left, right = around.context
        qkv = fused_linear(ctx, loader, [f"{name}.linear_{part}" for part in "qkv"], x, norm=norm)  # [3d, T]
        d, n_frames = x.ne[:2]
        q, k, v = (ggml.view_2d(ctx, qkv, d, n_frames, qkv.nb[1], i * d * qkv.nb[0]) for i in range(3))
        mixed = _core.relative_attention(
            ctx,
            q,
            k,
            v,
            around.positions(name),
            clone_weight(ctx, loader, f"{name}.pos_bias_u"),
            clone_weight(ctx, loader, f"{name}.pos_bias_v"),
            zero=around.behind,
            left=left,
            right=right,
            chunked=around.style == "chunked_limited",
        )
    else:
        mixed = _plain_attention(ctx, loader, name, layer_norm(ctx, loader, norm, x), around, n_heads)
    return linear(ctx, loader, f"{name}.linear_out", mixed, residual=x)


def _plain_attention(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    around: Surroundings,
    n_heads: int,
) -> ggml.Tensor:
    """The heads' results side by side, by ggml's operators: x [d, T] -> [d, T]."""
    d, n_frames = x.ne[:2]
    d_head = d // n_heads
    n_positions = 2 * n_frames - 1

    def heads(t: ggml.Tensor, length: int) -> ggml.Tensor:  # [d, length] -> [d_head, length, H], a view
        return ggml.permute(ctx, ggml.reshape_3d(ctx, t, d_head, n_heads, length), 0, 2, 1, 3)

    def biased(bias: str) -> ggml.Tensor:
        vector = ggml.reshape_1d(ctx, clone_weight(ctx, loader, f"{name}.{bias}"), d)
        return heads(ggml.add(ctx, q, vector), n_frames)

    q = linear(ctx, loader, f"{name}.linear_q", x)
    k = heads(linear(ctx, loader, f"{name}.linear_k", x), n_frames)
    v = linear(ctx, loader, f"{name}.linear_v", x)
    p = heads(around.positions(name), n_positions)

    by_content = ggml.mul_mat(ctx, k, biased("pos_bias_u"))  # [T keys, T queries, H]
    by_position = ggml.mul_mat(ctx, p, biased("pos_bias_v"))  # [2T-1 distances, T queries, H]
    # Distances run from +(T-1) down to -(T-1): query i meets key j at row T-1-i+j. Reading row i from T-1-i
    # on is a view whose rows are one element shorter than the tensor's.
    size, _, _, _ = by_position.nb
    shifted = ggml.view_3d(
        ctx,
        by_position,
        n_frames,
        n_frames,
        n_heads,
        (n_positions - 1) * size,
        by_position.nb[2],
        (n_frames - 1) * size,
    )
    scores = ggml.add(ctx, by_content, shifted)
    weights = ggml.soft_max_ext(ctx, scores, around.mask, 1.0 / math.sqrt(d_head), 0.0)

    by_key = ggml.permute(ctx, ggml.reshape_3d(ctx, v, d_head, n_heads, n_frames), 1, 2, 0, 3)
    mixed = ggml.mul_mat(ctx, ggml.cont(ctx, by_key), weights)  # [d_head, T, H]
    merged = ggml.cont(ctx, ggml.permute(ctx, mixed, 0, 2, 1, 3))  # [d_head, H, T]
    return ggml.reshape_2d(ctx, merged, d, n_frames)


def reach(n_frames: int, context: tuple[int, int], style: str) -> tuple[int, int]:
    """How far behind and ahead of a frame the furthest keys lie that any frame sees."""
    left, right = context
    furthest = n_frames - 1
    if style == "chunked_limited" and right >= 0 and left >= 0:
        left += right  # the last frame of a chunk
    return (furthest if left < 0 else min(left, furthest), furthest if right < 0 else min(right, furthest))


def attention_mask(n_frames: int, context: tuple[int, int], style: str) -> npt.NDArray[np.float32] | None:
    """What a frame may attend to: [T queries, T keys] of 0 and -inf, or None when it is everything.

    ``context`` is (left, right) in encoder frames, -1 without limit. Style ``regular``: a window around each
    frame. ``chunked_limited``: chunks of right+1 frames; a frame sees its whole chunk and left // (right+1)
    chunks before it. NeMo's ``ConformerEncoder._create_masks``.
    """
    left, right = context
    if left < 0 and right < 0:
        return None
    index = np.arange(n_frames)
    behind = index[:, None] - index[None, :]  # how far a key lies before the query
    visible = np.ones((n_frames, n_frames), dtype=bool)
    if style == "chunked_limited" and right >= 0:
        chunk = index // (right + 1)
        behind = chunk[:, None] - chunk[None, :]
        visible &= behind >= 0
        if left >= 0:
            visible &= behind <= left // (right + 1)
    else:
        if left >= 0:
            visible &= behind <= left
        if right >= 0:
            visible &= -behind <= right
    if visible.all():
        return None
    mask: npt.NDArray[np.float32] = np.where(visible, np.float32(0), np.float32(-np.inf))
    return mask
