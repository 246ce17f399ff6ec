"""The convolutions against plain loops in double precision."""

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


def normal(*shape: int) -> FloatArray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_channels", [1, 7, 16, 40])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 2), (3, 1), (17, 8), (30, 13)], ids=str)
def test_strided(size: tuple[int, int], n_channels: int, causal: bool, check: Check) -> None:
    kernel, bias = normal(3, 3, n_channels), normal(n_channels)
    first = {"x": normal(*size), "kernel": kernel, "bias": bias}
    check(lambda ctx, t: _core.first_convolution(ctx, t["x"], t["kernel"], t["bias"], causal=causal), first)
    later = {"x": normal(*size, n_channels), "kernel": kernel}
    check(lambda ctx, t: _core.strided_depthwise(ctx, t["x"], t["kernel"], None, causal=causal), later)


@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("context", [(4, 4), (8, 0), (0, 2), (15, 15)], ids=str)
@pytest.mark.parametrize("size", [(1, 16), (2, 5), (3, 40), (17, 64), (37, 33)], ids=str)
def test_depthwise(size: tuple[int, int], context: tuple[int, int], silu: bool, check: Check) -> None:
    n_frames, width = size
    left, right = context
    inputs = {
        "x": normal(n_frames, width),
        "kernel": normal(left + right + 1, width),
        "bias": normal(width),
    }
    check(
        lambda ctx, t: _core.depthwise(
            ctx, t["x"], t["kernel"], t["bias"], left=left, right=right, silu=silu
        ),
        inputs,
        4e-6,
    )


def test_wrong_shapes_are_refused() -> None:
    ctx = ggml.Context(1 << 16)
    x, kernel, bias = (ctx.new_tensor(Type.F32, ne) for ne in ([8, 6], [8, 3], [8]))
    square = ctx.new_tensor(Type.F32, [8, 3, 3])
    with pytest.raises(ggml.GgmlError, match="does not fit"):
        _core.depthwise(ctx, x, kernel, bias, left=2, right=2)
    with pytest.raises(ggml.GgmlError, match="the bias"):
        _core.depthwise(ctx, x, kernel, x, left=1, right=1)
    with pytest.raises(ggml.GgmlError, match="the kernel"):
        _core.first_convolution(ctx, x, kernel, None)
    with pytest.raises(ggml.GgmlError, match="does not fit"):
        _core.strided_depthwise(ctx, ctx.new_tensor(Type.F32, [4, 6, 5]), square, None)
