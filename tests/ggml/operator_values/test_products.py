"""Matrix products, also with weights of other types and by expert; rotary positions and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Type

Array = npt.NDArray[Any]
Check = Callable[..., None]
Evaluate = Callable[..., Array]
X = np.random.default_rng(7).normal(size=(2, 3, 5)).astype(np.float32)


def values(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    result: Array = e / e.sum(-1, keepdims=True)
    return result


@pytest.mark.parametrize("shapes", [((3, 7), (5, 7)), ((2, 3, 7), (4, 5, 7)), ((2, 1, 3, 7), (2, 3, 5, 7))])
def test_products(check: Check, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = values(shapes[0]), values(shapes[1], 1)
    wide = a
    for axis in range(a.ndim - 2):
        wide = np.repeat(wide, b.shape[axis] // a.shape[axis], axis)
    check(b @ np.swapaxes(wide, -1, -2), ggml.mul_mat, a, b)


@pytest.mark.parametrize("type", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1, Type.MXFP4])
def test_products_with_weights_of_other_types(evaluate: Evaluate, type: Type) -> None:
    a, b = values((3, 64)), values((5, 64), 1)
    exact = b @ a.T
    got = evaluate(lambda c, x, y: ggml.mul_mat(c, ggml.cast(c, x, type), y), a, b).reshape(5, 3)
    assert np.abs(got - exact).max() < (0.3 if type in (Type.F16, Type.BF16, Type.Q8_0) else 4)


def test_more_products(check: Check) -> None:
    a, b = values((7, 3)), values((7, 5), 1)
    check(b.T @ a, ggml.out_prod, a, b)
    weights, x = values((4, 3, 8)), values((5, 2, 8), 1)
    ids = np.array([[0, 3], [1, 1], [2, 0], [3, 2], [0, 1]], np.int32)
    expected = np.einsum("tunk,tuk->tun", weights[ids], x)
    check(expected, ggml.mul_mat_id, weights, x, ids)
    lower = np.tril(values((4, 4))) + 3 * np.eye(4, dtype=np.float32)
    check(
        np.linalg.solve(lower, values((4, 3), 1)),
        lambda c, p, q: ggml.solve_tri(c, p, q),
        lower,
        values((4, 3), 1),
    )
    check(np.diag(X[0, 0]), ggml.diag, X[0, 0])
    square = values((4, 4))
    check(np.tril(square, -1), lambda c, t: ggml.tri(c, t, ggml.TriType.LOWER), square)
    check(np.tril(square), lambda c, t: ggml.diag_mask_zero(c, t, 0), square)


@pytest.mark.parametrize("mode", [ggml.RopeMode.NORMAL, ggml.RopeMode.NEOX])
def test_rope(check: Check, evaluate: Evaluate, mode: ggml.RopeMode) -> None:
    x, positions = values((3, 2, 10)), np.array([0, 7, 2], np.int32)
    n = 8
    angle = positions[:, None, None] * 10000.0 ** (-np.arange(0, n, 2) / n)
    first, second = (
        (np.s_[..., 0:n:2], np.s_[..., 1:n:2])
        if mode == 0
        else (np.s_[..., : n // 2], np.s_[..., n // 2 : n])
    )
    expected = x.copy()
    expected[first] = x[first] * np.cos(angle) - x[second] * np.sin(angle)
    expected[second] = x[first] * np.sin(angle) + x[second] * np.cos(angle)
    check(expected, lambda c, a, b: ggml.rope(c, a, b, n, mode), x, positions)
    factors = np.full(5, 2.0, np.float32)
    halved = evaluate(lambda c, a, b, f: ggml.rope_ext(c, a, b, f, n, mode), x, 2 * positions, factors)
    np.testing.assert_allclose(halved.reshape(x.shape), expected, atol=1e-5)


@pytest.mark.parametrize("kv", [np.float32, np.float16])
def test_flash_attention(check: Check, kv: type) -> None:
    q, k, v = values((4, 3, 16)), values((2, 5, 16), 1), values((2, 5, 8), 2)
    mask = np.where(values((3, 5), 3) > 0.5, -np.inf, 0).astype(np.float16)
    mask[:, 0] = 0
    weights = softmax(np.einsum("hqd,hkd->hqk", q, np.repeat(k, 2, 0)) * 0.25 + mask)
    expected = np.einsum("hqk,hkd->qhd", weights, np.repeat(v, 2, 0))
    check(
        expected,
        lambda c, *t: ggml.flash_attn_ext(c, *t, 0.25),
        q,
        k.astype(kv),
        v.astype(kv),
        mask,
        atol=5e-3,
    )
