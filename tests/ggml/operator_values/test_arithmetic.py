"""Arithmetic and functions of one element, gated linear units; over rows sums, orders, norms, softmax."""

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
Evaluate = Callable[..., Array]
X = np.random.default_rng(7).normal(size=(2, 3, 5)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)


def values(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    result: Array = e / e.sum(-1, keepdims=True)
    return result


UNARY: dict[str, Callable[[Array], Array]] = {
    "sqr": np.square,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "sgn": np.sign,
    "neg": np.negative,
    "step": lambda x: (x > 0).astype(np.float32),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "gelu": gelu,
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_quick": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "hardswish": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "hardsigmoid": lambda x: np.clip((x + 3) / 6, 0, 1),
    "exp": np.exp,
    "expm1": np.expm1,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
}


@pytest.mark.parametrize(
    ("name", "suffix"),
    [(name, suffix) for name in sorted(UNARY) for suffix in ("", "_inplace") if hasattr(ggml, name + suffix)],
)
def test_functions_of_one_element(check: Check, name: str, suffix: str) -> None:
    atol = 2e-3 if name.startswith("gelu") else 1e-5  # ggml looks gelu up in a float16 table
    check(UNARY[name](X), getattr(ggml, name + suffix), X, atol=atol)


def test_unary_takes_the_functions_by_number(check: Check, evaluate: Evaluate) -> None:
    for op in ggml.UnaryOp:
        if op != ggml.UnaryOp.XIELU:
            name = op.name.lower()
            check(evaluate(getattr(ggml, name), X), lambda c, a, op=op: ggml.unary(c, a, op), X)


def test_sqrt_and_log(check: Check) -> None:
    check(np.sqrt(POSITIVE), ggml.sqrt, POSITIVE)
    check(np.log(POSITIVE), ggml.log, POSITIVE)


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 5), (5,), (2, 1, 5), (3, 1), (1,)])
@pytest.mark.parametrize(
    ("name", "f"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_arithmetic_broadcasts_the_second(
    check: Check, name: str, f: Callable[..., Array], shape: tuple[int, ...]
) -> None:
    y = np.abs(values(shape, 3)) + np.float32(0.5)
    check(f(X, y), getattr(ggml, name), X, y)
    check(f(X, y), getattr(ggml, f"{name}_inplace"), X, y)


def test_arithmetic_of_float16(check: Check) -> None:
    x, y = X.astype(np.float16), POSITIVE.astype(np.float16)
    check(x.astype(np.float32) * y, ggml.mul, x, y, atol=2e-3)
    check(
        x.astype(np.float32) + POSITIVE,
        lambda c, a, b: ggml.add_cast(c, a, b, Type.F32),
        x,
        POSITIVE,
        atol=2e-3,
    )


def test_add_of_a_quantised_tensor(evaluate: Evaluate) -> None:
    x, y = values((3, 64), 1), values((3, 64), 2)
    sum_ = evaluate(lambda c, a, b: ggml.cast(c, ggml.add(c, ggml.cast(c, a, Type.Q8_0), b), Type.F32), x, y)
    np.testing.assert_allclose(sum_.reshape(3, 64), x + y, atol=0.05)


def test_scale_clamp_fill_leaky_relu(check: Check) -> None:
    check(X * 3, lambda c, a: ggml.scale(c, a, 3.0), X)
    check(X * 3 - 1, lambda c, a: ggml.scale_bias(c, a, 3.0, -1.0), X)
    check(np.clip(X, -0.5, 0.25), lambda c, a: ggml.clamp(c, a, -0.5, 0.25), X)
    check(np.full_like(X, 2.5), lambda c, a: ggml.fill(c, a, 2.5), X)
    check(np.where(X > 0, X, 0.1 * X), lambda c, a: ggml.leaky_relu(c, a, 0.1), X)


GLU = {"reglu": lambda x: np.maximum(x, 0), "geglu": gelu, "swiglu": lambda x: x * sigmoid(x)}


@pytest.mark.parametrize("name", sorted(GLU))
def test_gated_linear_units(check: Check, name: str) -> None:
    x = values((3, 10))
    a, b = x[:, :5], x[:, 5:]
    atol = 5e-3
    check(GLU[name](a) * b, getattr(ggml, name), x, atol=atol)
    check(GLU[name](b) * a, getattr(ggml, f"{name}_swapped"), x, atol=atol)
    check(GLU[name](a) * b, getattr(ggml, f"{name}_split"), a, b, atol=atol)
    op = ggml.GluOp[name.upper()]
    check(GLU[name](b) * a, lambda c, t: ggml.glu(c, t, op, True), x, atol=atol)


def test_sums_and_orders(check: Check, evaluate: Evaluate) -> None:
    check(X.sum(), ggml.sum, X)
    check(X.sum(-1), ggml.sum_rows, X)
    check(X.mean(-1), ggml.mean, X)
    check(X.cumsum(-1), ggml.cumsum, X)
    check(X[0].argmax(-1), ggml.argmax, X[0])
    check(np.argsort(X, -1), lambda c, a: ggml.argsort(c, a, ggml.SortOrder.ASC), X)
    check(np.argsort(-X, -1)[..., :2], lambda c, a: ggml.cont(c, ggml.argsort_top_k(c, a, 2)), X)
    top = np.sort(evaluate(lambda c, a: ggml.top_k(c, a, 3), X).reshape(2, 3, 3), -1)
    assert (top == np.sort(np.argsort(-X, -1)[..., :3], -1)).all()
    check(np.arange(1, 3, 0.25), lambda c: ggml.arange(c, 1.0, 3.0, 0.25))
    i, j = np.array([[1, 2, 3]], np.int32), np.array([[1, 0, 3]], np.int32)
    assert evaluate(ggml.count_equal, i, j).item() == 2


def test_norms(check: Check) -> None:
    centred = X - X.mean(-1, keepdims=True)
    check(
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5), lambda c, a: ggml.norm(c, a, 1e-5), X
    )
    check(X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5), lambda c, a: ggml.rms_norm(c, a, 1e-5), X)
    check(X / np.sqrt((X**2).sum(-1, keepdims=True)), lambda c, a: ggml.l2_norm(c, a, 1e-5), X)
    x = values((4, 3, 5))
    groups = x.reshape(2, -1)
    normal = (groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + 1e-5)
    check(normal.reshape(x.shape), lambda c, a: ggml.group_norm(c, a, 2, 1e-5), x)


def test_softmax(check: Check) -> None:
    check(softmax(X), ggml.soft_max, X)
    mask = np.where(values((3, 5), 1) > 0.5, -np.inf, 0).astype(np.float32)
    mask[:, 0] = 0
    for dtype in (np.float32, np.float16):
        check(softmax(X * 0.5 + mask), lambda c, a, m: ggml.soft_max_ext(c, a, m, 0.5), X, mask.astype(dtype))

    def with_sinks(c: ggml.Context, a: ggml.Tensor, sinks: ggml.Tensor) -> ggml.Tensor:
        result = ggml.soft_max(c, a)
        ggml.soft_max_add_sinks(result, sinks)
        return result

    sinks = values((2,), 3)
    wide = np.concatenate([X, np.broadcast_to(sinks[:, None, None], (2, 3, 1))], -1)
    check(softmax(wide)[..., :-1], with_sinks, X, sinks)
    loss = -(softmax(X) * np.log(softmax(POSITIVE))).sum(-1).mean()
    check(loss, lambda c, a, b: ggml.cross_entropy_loss(c, a, ggml.soft_max(c, b)), POSITIVE, X)
