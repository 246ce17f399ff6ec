"""Relative attention against plain loops in double precision, and against ggml's operators with a mask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import asr._core as _core
import ggml
from ggml import Type

FloatArray = npt.NDArray[np.float32]
Check = Callable[..., None]

# left, right, chunked
CONTEXTS = [(-1, -1, False), (10, 3, False), (0, 0, False), (70, 13, True), (-1, 6, True), (5, -1, True)]


def normal(*shape: int) -> FloatArray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
@pytest.mark.parametrize("n_frames", [1, 2, 7, 13, 33, 101])
@pytest.mark.parametrize(("n_heads", "d_head"), [(2, 16), (3, 5), (1, 64), (2, 128)])
def test_sizes(
    n_frames: int, n_heads: int, d_head: int, context: tuple[int, int, bool], check: Check
) -> None:
    d = n_heads * d_head
    left, right, chunked = context
    inputs = {
        **{name: normal(n_frames, d + i)[:, i:].copy() for i, name in enumerate("qkv")},
        "positions": normal(2 * n_frames - 1, d),
        "u": normal(n_heads, d_head),
        "w": normal(n_heads, d_head + 1)[:, 1:].copy(),
    }

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        operands = [t[name] for name in ("q", "k", "v", "positions", "u", "w")]
        return _core.relative_attention(ctx, *operands, left=left, right=right, chunked=chunked)

    check(build, inputs, 4e-6)


@pytest.mark.parametrize("context", CONTEXTS, ids=str)
@pytest.mark.parametrize(("first", "n"), [(0, 1), (0, 30), (7, 13), (59, 12), (70, 31), (100, 1)])
def test_some_of_the_queries(first: int, n: int, context: tuple[int, int, bool], check: Check) -> None:
    """Of 101 frames, with positions for the distances that are met and no more."""
    left, right, chunked = context
    total, d = 101, 24
    frames = np.arange(first, first + n)
    chunk = right + 1
    begin, end = np.zeros(n, int), np.full(n, total)
    if chunked and right >= 0:
        end = frames // chunk * chunk + chunk
        begin = (frames // chunk - left // chunk) * chunk if left >= 0 else begin
    else:
        begin = frames - left if left >= 0 else begin
        end = frames + right + 1 if right >= 0 else end
    zero = int((frames - np.maximum(begin, 0)).max())
    inputs = {
        "q": normal(n, d),
        "k": normal(total, d),
        "v": normal(total, d + 1)[:, 1:].copy(),
        "positions": normal(zero + int((np.minimum(end, total) - 1 - frames).max()) + 1, d),
        "u": normal(3, 8),
        "w": normal(3, 9)[:, 1:].copy(),
    }

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        operands = [t[name] for name in ("q", "k", "v", "positions", "u", "w")]
        return _core.relative_attention(
            ctx, *operands, first=first, zero=zero, left=left, right=right, chunked=chunked
        )

    check(build, inputs, 4e-6)


def test_wrong_shapes_are_refused() -> None:
    ctx = ggml.Context(1 << 16)
    x, positions, bias = (ctx.new_tensor(Type.F32, ne) for ne in ([8, 3], [8, 5], [4, 2]))
    four, narrow = ctx.new_tensor(Type.F32, [8, 4]), ctx.new_tensor(Type.F32, [6, 3])
    for arguments, message in (
        ((x, narrow, x, positions, bias, bias), "keys .* rows of 8"),
        ((x, x, four, positions, bias, bias), "values .* 3 of them"),
        ((x, x, x, four, bias, bias), r"distances 2 to -1, frame 0 meets keys at 0 to -2"),
        ((x, x, x, positions, x, bias), "bias_u"),
        ((x, x, x, positions, bias, x), "bias_v"),
    ):
        with pytest.raises(ggml.GgmlError, match=message):
            _core.relative_attention(ctx, *arguments)
    whole = (x, x, x, positions, bias, bias)
    with pytest.raises(ggml.GgmlError, match="-1 for none"):
        _core.relative_attention(ctx, *whole, left=-2)
    with pytest.raises(ggml.GgmlError, match="frame 5 sees no key"):
        _core.relative_attention(ctx, *whole, first=5, left=1)
    with pytest.raises(ggml.GgmlError, match="frame 0 or later"):
        _core.relative_attention(ctx, *whole, first=-1)
