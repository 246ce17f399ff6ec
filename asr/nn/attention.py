"""Multi-head self-attention with relative positions (Transformer-XL), and its masks.

Dai et al. 2019, as in NeMo's ``RelPositionMultiHeadAttention`` and ``RelPositionalEncoding``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import ggml
from asr.backend import clone_weight
from asr.loader import ModelLoader
from asr.nn.linear import linear


def relative_attention(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    positions: ggml.Tensor,
    mask: ggml.Tensor | None,
    n_heads: int,
) -> ggml.Tensor:
    """x [d, T], positions [d, 2T-1], mask [T, T] (keys first, 0 or -inf) or None -> [d, T]."""
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
    p = heads(linear(ctx, loader, f"{name}.linear_pos", positions), n_positions)

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
    weights = ggml.soft_max_ext(ctx, scores, mask, 1.0 / math.sqrt(d_head), 0.0)

    by_key = ggml.permute(ctx, ggml.reshape_3d(ctx, v, d_head, n_heads, n_frames), 1, 2, 0, 3)
    mixed = ggml.mul_mat(ctx, ggml.cont(ctx, by_key), weights)  # [d_head, T, H]
    merged = ggml.cont(ctx, ggml.permute(ctx, mixed, 0, 2, 1, 3))  # [d_head, H, T]
    return linear(ctx, loader, f"{name}.linear_out", ggml.reshape_2d(ctx, merged, d, n_frames))


def relative_positions(n_frames: int, d_model: int) -> npt.NDArray[np.float32]:
    """Sinusoids of the distances T-1 ... -(T-1): [2T-1, d_model], sine and cosine in turn.

    In float32 from the product on, as NeMo computes them.
    """
    distance = np.arange(n_frames - 1, -n_frames, -1, dtype=np.float32)[:, None]
    rate = np.exp(np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-(math.log(10000.0) / d_model)))
    table = np.empty((2 * n_frames - 1, d_model), np.float32)
    table[:, 0::2] = np.sin(distance * rate)
    table[:, 1::2] = np.cos(distance * rate)
    return table


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
