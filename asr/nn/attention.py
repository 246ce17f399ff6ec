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

    The queries are the frames ``first`` and on of those whose keys and values there are. ``positions``: the
    layer's ``linear_pos`` of the relative positions, by the name of the attention, from the distance
    ``behind`` on down: for our operator those that :func:`reach` tells, for ggml's all between any query and
    any key. ``context`` and ``style`` say which keys a frame sees; ``mask`` [n queries, T keys] says the same
    (0 or -inf) to ggml's operators, None when it is everything.
    """

    positions: Callable[[str], ggml.Tensor]
    behind: int
    context: tuple[int, int]
    style: str
    mask: ggml.Tensor | None = None
    first: int = 0


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
    q, k, v = projections(ctx, loader, name, x, "qkv", norm=norm)
    return attend(ctx, loader, name, x, q, k, v, around, n_heads)


def projections(
    ctx: ggml.Context, loader: ModelLoader, name: str, x: ggml.Tensor, parts: str, *, norm: str
) -> list[ggml.Tensor]:
    """Queries, keys, values, those of ``"qkv"`` that ``parts`` names: x [d, n] -> [d, n] each."""
    names = [f"{name}.linear_{part}" for part in parts]
    if not fused(loader, x):
        normed = layer_norm(ctx, loader, norm, x)
        return [linear(ctx, loader, layer, normed) for layer in names]
    beside = fused_linear(ctx, loader, names, x, norm=norm)
    d, n = x.ne[:2]
    return [ggml.view_2d(ctx, beside, d, n, beside.nb[1], i * d * beside.nb[0]) for i in range(len(parts))]


def attend(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    x: ggml.Tensor,
    q: ggml.Tensor,
    k: ggml.Tensor,
    v: ggml.Tensor,
    around: Surroundings,
    n_heads: int,
) -> ggml.Tensor:
    """x [d, n], its queries [d, n], keys and values [d, T] -> x + linear_out(attention) [d, n]."""
    if loader.fused:
        left, right = around.context
        mixed = _core.relative_attention(
            ctx,
            q,
            k,
            v,
            around.positions(name),
            clone_weight(ctx, loader, f"{name}.pos_bias_u"),
            clone_weight(ctx, loader, f"{name}.pos_bias_v"),
            first=around.first,
            zero=around.behind,
            left=left,
            right=right,
            chunked=around.style == "chunked_limited",
        )
    else:
        mixed = _plain_attention(ctx, loader, name, q, k, v, around, n_heads)
    return linear(ctx, loader, f"{name}.linear_out", mixed, residual=x)


def _plain_attention(
    ctx: ggml.Context,
    loader: ModelLoader,
    name: str,
    q: ggml.Tensor,
    k: ggml.Tensor,
    v: ggml.Tensor,
    around: Surroundings,
    n_heads: int,
) -> ggml.Tensor:
    """The heads' results side by side, by ggml's operators: queries [d, n], keys, values [d, T] -> [d, n]."""
    d, n_queries = q.ne[:2]
    n_keys = k.ne[1]
    d_head = d // n_heads

    def heads(t: ggml.Tensor) -> ggml.Tensor:  # [d, length] -> [d_head, length, H], a view
        size, stride = t.nb[:2]
        return ggml.view_3d(ctx, t, d_head, t.ne[1], n_heads, stride, d_head * size, 0)

    def biased(bias: str) -> ggml.Tensor:
        vector = ggml.reshape_1d(ctx, clone_weight(ctx, loader, f"{name}.{bias}"), d)
        return heads(ggml.add(ctx, q, vector))

    by_content = ggml.mul_mat(ctx, heads(k), biased("pos_bias_u"))  # [T keys, n queries, H]
    by_position = ggml.mul_mat(ctx, heads(around.positions(name)), biased("pos_bias_v"))  # [distances, n, H]
    # Distances run down from `behind`: query i, which is frame first + i, meets key j at row
    # behind - first - i + j. Reading row i from behind - first - i on is a view whose rows are one element
    # shorter than the tensor's.
    size, stride, head_stride, _ = by_position.nb
    shifted = ggml.view_3d(
        ctx,
        by_position,
        n_keys,
        n_queries,
        n_heads,
        stride - size,
        head_stride,
        (around.behind - around.first) * size,
    )
    scores = ggml.add(ctx, by_content, shifted)
    weights = ggml.soft_max_ext(ctx, scores, around.mask, 1.0 / math.sqrt(d_head), 0.0)

    by_key = ggml.cont(ctx, ggml.permute(ctx, heads(v), 1, 0, 2, 3))  # [T, d_head, H]
    mixed = ggml.mul_mat(ctx, by_key, weights)  # [d_head, n, H]
    merged = ggml.cont(ctx, ggml.permute(ctx, mixed, 0, 2, 1, 3))  # [d_head, H, n]
    return ggml.reshape_2d(ctx, merged, d, n_queries)


def reach(n_frames: int, context: tuple[int, int], style: str) -> tuple[int, int]:
    """How far behind and ahead of a frame the furthest keys lie that any frame sees."""
    left, right = context
    furthest = n_frames - 1
    if style == "chunked_limited" and right >= 0 and left >= 0:
        left += right  # the last frame of a chunk
    return (furthest if left < 0 else min(left, furthest), furthest if right < 0 else min(right, furthest))


def visible_keys(
    first: int, end: int, n_frames: int, context: tuple[int, int], style: str
) -> tuple[int, int]:
    """The keys [first, end) that any of the frames ``first`` ... ``end`` - 1 of ``n_frames`` sees."""
    left, right = context
    begin = 0 if left < 0 else first - left
    after = n_frames if right < 0 else end + right
    if style == "chunked_limited" and right >= 0:
        chunk = right + 1
        begin = 0 if left < 0 else (first // chunk - left // chunk) * chunk
        after = (end - 1) // chunk * chunk + chunk
    return max(0, begin), min(n_frames, after)


def attention_mask(
    n_frames: int, context: tuple[int, int], style: str, first: int = 0, n_queries: int | None = None
) -> npt.NDArray[np.float32] | None:
    """What a frame may attend to: [n queries, T keys] of 0 and -inf, or None when it is everything.

    ``context`` is (left, right) in encoder frames, -1 without limit. Style ``regular``: a window around each
    frame. ``chunked_limited``: chunks of right+1 frames; a frame sees its whole chunk and left // (right+1)
    chunks before it. NeMo's ``ConformerEncoder._create_masks``. The queries are frames ``first`` and on, by
    default all.
    """
    left, right = context
    if left < 0 and right < 0:
        return None
    keys = np.arange(n_frames)
    queries = keys[first:] if n_queries is None else keys[first : first + n_queries]
    behind = queries[:, None] - keys[None, :]  # how far a key lies before the query
    visible = np.ones(behind.shape, dtype=bool)
    if style == "chunked_limited" and right >= 0:
        behind = queries[:, None] // (right + 1) - keys[None, :] // (right + 1)
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
