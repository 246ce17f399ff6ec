"""Convolutions, pooling, state-space models, operators on images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Type

Array = npt.NDArray[Any]
Check = Callable[..., None]


def values(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convolve(x: Array, w: Array, stride: int, pad: int, dilation: int = 1) -> Array:
    """x [in, n], w [out, in, k] -> [out, on]."""
    x = np.pad(x, ((0, 0), (pad, pad)))
    k = w.shape[2]
    on = (x.shape[1] - dilation * (k - 1) - 1) // stride + 1
    columns = np.stack(
        [x[:, i * dilation : i * dilation + stride * (on - 1) + 1 : stride] for i in range(k)], -1
    )
    return np.einsum("ink,oik->on", columns, w)


def test_convolution_in_one_dimension(check: Check) -> None:
    x, w = values((4, 9)), values((5, 4, 3), 1)
    half = w.astype(np.float16)
    for stride, pad, dilation in ((1, 1, 1), (2, 0, 1), (2, 2, 3)):
        expected = convolve(x, half.astype(np.float32), stride, pad, dilation)
        check(
            expected,
            lambda c, a, b, s=stride, p=pad, d=dilation: ggml.conv_1d(c, a, b, s, p, d),
            half,
            x,
            atol=2e-2,
        )
    depthwise = np.stack(
        [convolve(x[i : i + 1], half[:1, i : i + 1].astype(np.float32), 1, 1)[0] for i in range(4)]
    )
    check(
        depthwise,
        lambda c, a, b: ggml.conv_1d_dw_ph(c, a, b, 1, 1),
        half[:1].transpose(1, 0, 2),
        x,
        atol=2e-2,
    )
    spread = np.zeros((4, 2 * 8 + 1), np.float32)
    spread[:, ::2] = x
    expected = convolve(spread, w.transpose(0, 1, 2)[:, :, ::-1], 1, 2)
    check(expected, lambda c, a, b: ggml.conv_transpose_1d(c, a, b, 2), w.transpose(1, 0, 2), x)


def test_convolution_in_two_dimensions(check: Check) -> None:
    x, w = values((4, 6, 7)), values((5, 4, 2, 3), 1)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (1, 2))[:, ::2, ::1]
    expected = np.einsum("ihwyx,oiyx->ohw", windows, w)
    half = w.astype(np.float16)
    check(expected, lambda c, a, b: ggml.conv_2d(c, a, b, 1, 2, 1, 1, 1, 1), half, x, atol=3e-2)
    check(expected, lambda c, a, b: ggml.conv_2d_direct(c, a, b, 1, 2, 1, 1, 1, 1), w, x, atol=1e-4)
    depthwise = np.einsum("ihwyx,iyx->ihw", windows, w[0])
    kernel = w[0][:, None]
    check(depthwise, lambda c, a, b: ggml.conv_2d_dw_direct(c, a, b, 1, 2, 1, 1, 1, 1), kernel, x, atol=1e-4)
    half = kernel.astype(np.float16)
    check(depthwise, lambda c, a, b: ggml.conv_2d_dw(c, a, b, 1, 2, 1, 1, 1, 1), half, x, atol=2e-2)


def test_depthwise_convolution_of_channels_first(check: Check) -> None:
    x, w = values((5, 3, 4)), values((3, 1, 4), 1)  # [height, width, channels]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((1, 1), (0, 0), (0, 0))), 3, 0)
    expected = np.einsum("hwck,kc->hwc", windows, w[:, 0])

    def build(c: ggml.Context, a: ggml.Tensor, b: ggml.Tensor) -> ggml.Tensor:
        image = ggml.permute(c, b, 2, 0, 1, 3)
        kernel = ggml.permute(c, ggml.reshape_4d(c, a, 4, 1, 1, 3), 3, 2, 0, 1)
        return ggml.cont(
            c, ggml.permute(c, ggml.conv_2d_dw_direct(c, kernel, image, 1, 1, 0, 1, 1, 1), 1, 2, 0, 3)
        )

    check(expected, build, w[:, 0], x)
    ctx = ggml.Context(1 << 16)
    pixel = ctx.new_tensor(Type.F32, [4, 1, 1])
    one = ggml.permute(ctx, ggml.view_3d(ctx, pixel, 4, 1, 1, 2 * pixel.nb[0], pixel.nb[2], 0), 2, 0, 1, 3)
    kernel = ggml.permute(ctx, ctx.new_tensor(Type.F32, [4, 1, 1, 3]), 3, 2, 0, 1)
    with pytest.raises(ggml.GgmlError, match="contiguous"):
        ggml.conv_2d_dw_direct(ctx, kernel, one, 1, 1, 0, 1, 1, 1)


def test_pooling(check: Check) -> None:
    x = values((3, 9))
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2]
    check(windows.max(-1), lambda c, a: ggml.pool_1d(c, a, ggml.Pool.MAX, 3, 2, 0), x)
    check(windows.mean(-1), lambda c, a: ggml.pool_1d(c, a, ggml.Pool.AVG, 3, 2, 0), x)
    x = values((2, 6, 8))
    blocks = x.reshape(2, 3, 2, 2, 4)
    check(blocks.mean((2, 4)), lambda c, a: ggml.pool_2d(c, a, ggml.Pool.AVG, 4, 2, 4, 2, 0, 0), x)


def test_sequence_models(check: Check) -> None:
    sx, w = values((2, 6, 8)), values((6, 4), 1)
    windows = np.lib.stride_tricks.sliding_window_view(sx, 4, -1)
    check(np.einsum("sdtk,dk->std", windows, w), ggml.ssm_conv, sx, w)
    state, x, dt = values((2, 2, 4, 16)), values((1, 3, 2, 4), 1), values((1, 3, 2), 2)
    a, b, c_ = -np.abs(values((2, 1), 3)), values((1, 3, 1, 16), 4), values((1, 3, 1, 16), 5)
    h, ys = state[1].copy(), []
    for t in range(3):
        step = np.log1p(np.exp(dt[0, t]))
        h = h * np.exp(step * a[:, 0])[:, None, None] + (step[:, None] * x[0, t])[..., None] * b[0, t, 0]
        ys.append(h @ c_[0, t, 0])
    expected = np.concatenate([np.ravel(ys), h.ravel()])
    ids = np.array([1], np.int32)
    check(expected, ggml.ssm_scan, state, x, dt, a, b, c_, ids, atol=1e-4)


def test_images(check: Check) -> None:
    x = values((2, 3, 4))
    check(x.repeat(2, 1).repeat(2, 2), lambda c, a: ggml.upscale(c, a, 2, ggml.ScaleMode.NEAREST), x)
    x = values((5, 7, 4))
    check(x, lambda c, a: ggml.win_unpart(c, ggml.win_part(c, a, 3), 7, 5, 3), x)
    table = np.arange(10, dtype=np.float16).reshape(5, 2)
    expected = table[np.arange(3)[:, None] - np.arange(3)[None, :] + 2]
    check(expected, lambda c, a: ggml.get_rel_pos(c, a, 3, 3), table)
    angle = np.array([1.0, 5.0], np.float32)[:, None] * np.exp(-math.log(100) * np.arange(3) / 3)
    expected = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    check(expected, lambda c, t: ggml.timestep_embedding(c, t, 6, 100), np.array([1.0, 5.0], np.float32))
