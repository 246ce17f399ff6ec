"""What operators compute, against NumPy, on small odd sizes."""

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
Build = Callable[..., ggml.Tensor]
TYPES = {"float32": Type.F32, "float16": Type.F16, "int32": Type.I32, "int64": Type.I64}
X = np.random.default_rng(7).normal(size=(2, 3, 5)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)


def values(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def evaluate(build: Build, *inputs: Array, threads: int = 2) -> Array:
    """build(ctx, tensors of the inputs), computed; arrays have NumPy's order of sizes."""
    ctx = ggml.Context(1 << 20)
    backend = ggml.Backend(n_threads=threads)
    leaves = [ctx.new_tensor(TYPES[x.dtype.name], list(reversed(x.shape))) for x in inputs]
    result = build(ctx, *leaves)
    graph = ggml.Graph(ctx, 256)
    graph.expand(result)
    ggml.alloc_ctx_tensors(ctx, backend)
    for leaf, x in zip(leaves, inputs, strict=True):
        leaf.set(np.ascontiguousarray(x).reshape(leaf.get().shape))
    backend.compute(graph)
    return result.get().reshape(tuple(reversed(result.ne)))


def check(expected: Array, build: Build, *inputs: Array, atol: float = 1e-5) -> None:
    got = evaluate(build, *inputs)
    np.testing.assert_allclose(np.squeeze(got), np.squeeze(expected), atol=atol, rtol=atol)


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
def test_functions_of_one_element(name: str, suffix: str) -> None:
    atol = 2e-3 if name.startswith("gelu") else 1e-5  # ggml looks gelu up in a float16 table
    check(UNARY[name](X), getattr(ggml, name + suffix), X, atol=atol)


def test_unary_takes_the_functions_by_number() -> None:
    for op in ggml.UnaryOp:
        if op != ggml.UnaryOp.XIELU:
            name = op.name.lower()
            check(evaluate(getattr(ggml, name), X), lambda c, a, op=op: ggml.unary(c, a, op), X)


def test_sqrt_and_log() -> None:
    check(np.sqrt(POSITIVE), ggml.sqrt, POSITIVE)
    check(np.log(POSITIVE), ggml.log, POSITIVE)


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 5), (5,), (2, 1, 5), (3, 1), (1,)])
@pytest.mark.parametrize(
    ("name", "f"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_arithmetic_broadcasts_the_second(name: str, f: Callable[..., Array], shape: tuple[int, ...]) -> None:
    y = np.abs(values(shape, 3)) + np.float32(0.5)
    check(f(X, y), getattr(ggml, name), X, y)
    check(f(X, y), getattr(ggml, f"{name}_inplace"), X, y)


def test_arithmetic_of_float16() -> None:
    x, y = X.astype(np.float16), POSITIVE.astype(np.float16)
    check(x.astype(np.float32) * y, ggml.mul, x, y, atol=2e-3)
    check(
        x.astype(np.float32) + POSITIVE,
        lambda c, a, b: ggml.add_cast(c, a, b, Type.F32),
        x,
        POSITIVE,
        atol=2e-3,
    )


def test_add_of_a_quantised_tensor() -> None:
    x, y = values((3, 64), 1), values((3, 64), 2)
    sum_ = evaluate(lambda c, a, b: ggml.cast(c, ggml.add(c, ggml.cast(c, a, Type.Q8_0), b), Type.F32), x, y)
    np.testing.assert_allclose(sum_.reshape(3, 64), x + y, atol=0.05)


def test_scale_clamp_fill_leaky_relu() -> None:
    check(X * 3, lambda c, a: ggml.scale(c, a, 3.0), X)
    check(X * 3 - 1, lambda c, a: ggml.scale_bias(c, a, 3.0, -1.0), X)
    check(np.clip(X, -0.5, 0.25), lambda c, a: ggml.clamp(c, a, -0.5, 0.25), X)
    check(np.full_like(X, 2.5), lambda c, a: ggml.fill(c, a, 2.5), X)
    check(np.where(X > 0, X, 0.1 * X), lambda c, a: ggml.leaky_relu(c, a, 0.1), X)


GLU = {"reglu": lambda x: np.maximum(x, 0), "geglu": gelu, "swiglu": lambda x: x * sigmoid(x)}


@pytest.mark.parametrize("name", sorted(GLU))
def test_gated_linear_units(name: str) -> None:
    x = values((3, 10))
    a, b = x[:, :5], x[:, 5:]
    atol = 5e-3
    check(GLU[name](a) * b, getattr(ggml, name), x, atol=atol)
    check(GLU[name](b) * a, getattr(ggml, f"{name}_swapped"), x, atol=atol)
    check(GLU[name](a) * b, getattr(ggml, f"{name}_split"), a, b, atol=atol)
    op = ggml.GluOp[name.upper()]
    check(GLU[name](b) * a, lambda c, t: ggml.glu(c, t, op, True), x, atol=atol)


def test_set_and_acc() -> None:
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


def test_copies_and_shapes() -> None:
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


def test_padding_and_rolling() -> None:
    check(np.pad(X, ((0, 0), (2, 1), (1, 3))), lambda c, a: ggml.pad_ext(c, a, 1, 3, 2, 1, 0, 0, 0, 0), X)
    check(np.pad(X, ((0, 1), (0, 0), (0, 2))), lambda c, a: ggml.pad(c, a, 2, 0, 1, 0), X)
    wrapped = np.pad(X, ((0, 0), (2, 1), (1, 3)), mode="wrap")
    check(wrapped, lambda c, a: ggml.pad_ext_circular(c, a, 1, 3, 2, 1, 0, 0, 0, 0), X)
    check(
        np.pad(X, ((0, 0), (0, 0), (2, 4)), mode="reflect"), lambda c, a: ggml.pad_reflect_1d(c, a, 2, 4), X
    )
    check(np.roll(X, (1, -2, 3), (0, 1, 2)), lambda c, a: ggml.roll(c, a, 3, -2, 1, 0), X)


def test_rows() -> None:
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


@pytest.mark.parametrize("shapes", [((3, 7), (5, 7)), ((2, 3, 7), (4, 5, 7)), ((2, 1, 3, 7), (2, 3, 5, 7))])
def test_products(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = values(shapes[0]), values(shapes[1], 1)
    wide = a
    for axis in range(a.ndim - 2):
        wide = np.repeat(wide, b.shape[axis] // a.shape[axis], axis)
    check(b @ np.swapaxes(wide, -1, -2), ggml.mul_mat, a, b)


@pytest.mark.parametrize("type", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q5_1, Type.MXFP4])
def test_products_with_weights_of_other_types(type: Type) -> None:
    a, b = values((3, 64)), values((5, 64), 1)
    exact = b @ a.T
    got = evaluate(lambda c, x, y: ggml.mul_mat(c, ggml.cast(c, x, type), y), a, b).reshape(5, 3)
    assert np.abs(got - exact).max() < (0.3 if type in (Type.F16, Type.BF16, Type.Q8_0) else 4)


def test_more_products() -> None:
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


def test_sums_and_orders() -> None:
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


def test_norms() -> None:
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


def test_softmax() -> None:
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


@pytest.mark.parametrize("mode", [ggml.RopeMode.NORMAL, ggml.RopeMode.NEOX])
def test_rope(mode: ggml.RopeMode) -> None:
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
def test_flash_attention(kv: type) -> None:
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


def convolve(x: Array, w: Array, stride: int, pad: int, dilation: int = 1) -> Array:
    """x [in, n], w [out, in, k] -> [out, on]."""
    x = np.pad(x, ((0, 0), (pad, pad)))
    k = w.shape[2]
    on = (x.shape[1] - dilation * (k - 1) - 1) // stride + 1
    columns = np.stack(
        [x[:, i * dilation : i * dilation + stride * (on - 1) + 1 : stride] for i in range(k)], -1
    )
    return np.einsum("ink,oik->on", columns, w)


def test_convolution_in_one_dimension() -> None:
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


def test_convolution_in_two_dimensions() -> None:
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


def test_depthwise_convolution_of_channels_first() -> None:
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


def test_pooling() -> None:
    x = values((3, 9))
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2]
    check(windows.max(-1), lambda c, a: ggml.pool_1d(c, a, ggml.Pool.MAX, 3, 2, 0), x)
    check(windows.mean(-1), lambda c, a: ggml.pool_1d(c, a, ggml.Pool.AVG, 3, 2, 0), x)
    x = values((2, 6, 8))
    blocks = x.reshape(2, 3, 2, 2, 4)
    check(blocks.mean((2, 4)), lambda c, a: ggml.pool_2d(c, a, ggml.Pool.AVG, 4, 2, 4, 2, 0, 0), x)


def test_sequence_models() -> None:
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


def test_images() -> None:
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
