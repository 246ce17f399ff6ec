"""Setting parts, copies, shapes, padding, rolling, rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import ggml
from ggml import Type

Array = npt.NDArray[Any]
Check = Callable[..., None]
X = np.random.default_rng(7).normal(size=(2, 3, 5)).astype(np.float32)


def values(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_set_and_acc(check: Check) -> None:
    a, b = values((4, 8)), values((2, 3), 1)
    expected = a.copy()
    expected[1:3, 2:5] = b
    check(expected, lambda c, x, y: ggml.set_2d(c, x, y, 32, 32 + 8), a, b)
    check(expected, lambda c, x, y: ggml.set(c, x, y, 32, 128, 128, 32 + 8), a, b)
    expected = a.copy()
    expected[1:3, 2:5] += b
    check(expected, lambda c, x, y: ggml.acc(c, x, y, 32, 128, 128, 32 + 8), a, b)
    expected = a.copy()
    expected.ravel()[5:8] = b[0]
    check(expected, lambda c, x, y: ggml.set_1d(c, x, y, 20), a, b[0])


def test_copies_and_shapes(check: Check) -> None:
    check(X.transpose(0, 2, 1), lambda c, a: ggml.cont(c, ggml.transpose(c, a)), X)
    check(X.transpose(1, 0, 2), lambda c, a: ggml.cont(c, ggml.permute(c, a, 0, 2, 1, 3)), X)
    check(X.reshape(5, 6), lambda c, a: ggml.reshape_2d(c, a, 6, 5), X)
    check(X.transpose(0, 2, 1).reshape(5, 6), lambda c, a: ggml.cont_2d(c, ggml.transpose(c, a), 6, 5), X)
    check(
        X[:, 1:, 2:4],
        lambda c, a: ggml.cont(c, ggml.view_3d(c, a, 2, 2, 2, a.nb[1], a.nb[2], a.nb[1] + 8)),
        X,
    )
    check(X.astype(np.float16), lambda c, a: ggml.cast(c, a, Type.F16), X)
    check(X, lambda c, a, b: ggml.cpy(c, a, b), X, np.zeros(X.shape, np.float16), atol=2e-3)
    y = values((2, 2, 5), 1)
    check(np.concatenate([X, y], 1), lambda c, a, b: ggml.concat(c, a, b, 1), X, y)
    check(np.tile(X, (2, 1, 3)), lambda c, a: ggml.repeat_4d(c, a, 15, 3, 4, 1), X)


def test_padding_and_rolling(check: Check) -> None:
    check(np.pad(X, ((0, 0), (2, 1), (1, 3))), lambda c, a: ggml.pad_ext(c, a, 1, 3, 2, 1, 0, 0, 0, 0), X)
    check(np.pad(X, ((0, 1), (0, 0), (0, 2))), lambda c, a: ggml.pad(c, a, 2, 0, 1, 0), X)
    wrapped = np.pad(X, ((0, 0), (2, 1), (1, 3)), mode="wrap")
    check(wrapped, lambda c, a: ggml.pad_ext_circular(c, a, 1, 3, 2, 1, 0, 0, 0, 0), X)
    check(
        np.pad(X, ((0, 0), (0, 0), (2, 4)), mode="reflect"), lambda c, a: ggml.pad_reflect_1d(c, a, 2, 4), X
    )
    check(np.roll(X, (1, -2, 3), (0, 1, 2)), lambda c, a: ggml.roll(c, a, 3, -2, 1, 0), X)


def test_rows(check: Check) -> None:
    a, ids = values((6, 5)), np.array([4, 0, 4, 5], np.int32)
    check(a[ids], ggml.get_rows, a, ids)
    rows = values((2, 5), 1)
    expected = a.copy()
    expected[[3, 1]] = rows
    for dtype in (np.int32, np.int64):
        check(expected, ggml.set_rows, a, rows, np.array([3, 1], dtype))
    b = values((4, 5), 2)
    which = np.array([[2, 0, 1]], np.int32)
    check(X[:1] + b[which[0]], ggml.add_id, X[:1], b, which)
