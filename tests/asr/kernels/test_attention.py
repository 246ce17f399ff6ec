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
        "qkv": normal(n_frames, 3 * d),
        "positions": normal(2 * n_frames - 1, d),
        "u": normal(n_heads, d_head),
        "v": normal(n_heads, d_head + 1)[:, 1:].copy(),
    }

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        return _core.relative_attention(
            ctx, t["qkv"], t["positions"], t["u"], t["v"], left=left, right=right, chunked=chunked
        )

    check(build, inputs, 4e-6)


def test_wrong_shapes_are_refused() -> None:
    ctx = ggml.Context(1 << 16)
    qkv, positions, bias = (ctx.new_tensor(Type.F32, ne) for ne in ([24, 3], [8, 5], [4, 2]))
    other = ctx.new_tensor(Type.F32, [8, 6])
    for arguments, message in (
        ((other, positions, bias, bias), "side by side"),
        ((qkv, other, bias, bias), "5 distances"),
        ((qkv, positions, other, bias), "bias_u"),
        ((qkv, positions, bias, other), "bias_v"),
    ):
        with pytest.raises(ggml.GgmlError, match=message):
            _core.relative_attention(ctx, *arguments)
    with pytest.raises(ggml.GgmlError, match="-1 for none"):
        _core.relative_attention(ctx, qkv, positions, bias, bias, left=-2)
