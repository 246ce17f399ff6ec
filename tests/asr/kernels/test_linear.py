"""Linear layers with what is fused to them, against plain loops in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import asr._core as _core
import ggml
from ggml import Type

FloatArray = npt.NDArray[np.float32]
Check = Callable[..., None]

# Frames, inputs, outputs: one frame, primes, tails of every tile, several blocks of features, and more frames
# than are packed at a time.
SIZES = [
    (1, 64, 37),
    (5, 96, 50),
    (6, 32, 1),
    (7, 32, 5),
    (13, 544, 101),
    (37, 1056, 96),
    (301, 512, 48),
    (307, 2080, 40),
]


def normal(*shape: int) -> FloatArray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def weight(n_out: int, n_in: int) -> FloatArray:
    return normal(n_out, n_in) / np.float32(np.sqrt(n_in))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0, Type.BF16])
def test_types(size: tuple[int, int, int], kind: Type, check: Check) -> None:
    n_frames, n_in, n_out = size
    inputs = {"x": normal(n_frames, n_in), "w": (kind, weight(n_out, n_in)), "b": normal(n_out)}
    check(lambda ctx, t: _core.linear(ctx, t["x"], [t["w"]], biases=[t["b"]]), inputs)


@pytest.mark.parametrize("n_in", [1, 3, 17, 513, 1027])
def test_odd_inputs(n_in: int, check: Check) -> None:
    for n_frames in (1, 9, 33):
        inputs = {"x": normal(n_frames, n_in), "w": weight(29, n_in)}
        check(lambda ctx, t: _core.linear(ctx, t["x"], [t["w"]]), inputs)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("activation", ["none", "relu", "silu", "gated"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_what_is_around_it(
    size: tuple[int, int, int], activation: str, half: bool, normed: bool, check: Check
) -> None:
    n_frames, n_in, n_out = size
    rows = 2 * n_out if activation == "gated" else n_out
    inputs: dict[str, Any] = {
        "x": normal(n_frames, n_in) * 3 + 1,
        "w": (Type.Q8_0 if n_in % 32 == 0 else Type.F32, weight(rows, n_in)),
        "b": normal(rows),
        "norm": normal(n_in),
        "shift": normal(n_in + 1)[:-1],
        "residual": normal(n_frames, n_out),
    }

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        return _core.linear(
            ctx,
            t["x"],
            [t["w"]],
            biases=[t["b"]],
            norm=[t["norm"], t["shift"]] if normed else [],
            activation=activation,
            residual=t["residual"],
            half=half,
        )

    check(build, inputs, 4e-6, rounded=1e-2 if normed else None)


@pytest.mark.parametrize("name", _core.kernel_sets())
def test_half_without_a_residual(name: str, run: Callable[..., FloatArray]) -> None:
    inputs = {"x": normal(9, 16), "w": weight(5, 16)}
    half = run(name, lambda ctx, t: _core.linear(ctx, t["x"], [t["w"]], half=True), inputs)
    np.testing.assert_allclose(half, 0.5 * inputs["x"] @ inputs["w"].T, atol=1e-5)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "kinds", [[Type.F32] * 3, [Type.Q8_0] * 3, [Type.Q8_0, Type.F16, Type.Q8_0]], ids=["f32", "q8_0", "mixed"]
)
def test_three_side_by_side(size: tuple[int, int, int], kinds: list[Type], check: Check) -> None:
    n_frames, n_in, n_out = size
    inputs: dict[str, Any] = {"x": normal(n_frames, n_in)}
    for i, kind in enumerate(kinds):
        inputs[f"w{i}"] = (kind, weight(n_out, n_in) * (i + 1))
    check(lambda ctx, t: _core.linear(ctx, t["x"], [t[f"w{i}"] for i in range(3)]), inputs)


@pytest.mark.parametrize("n_frames", [1, 2, 33])
@pytest.mark.parametrize("width", [1, 5, 16, 67, 512])
def test_layer_norm(n_frames: int, width: int, check: Check) -> None:
    inputs = {"x": normal(n_frames, width) * 5 + 2, "w": normal(width), "b": normal(width + 1)[:-1]}
    check(lambda ctx, t: _core.layer_norm(ctx, t["x"], t["w"], t["b"]), inputs, 4e-6)


def test_wrong_shapes_are_refused() -> None:
    ctx = ggml.Context(1 << 16)
    x, w, b = (ctx.new_tensor(Type.F32, ne) for ne in ([8, 3], [8, 5], [5]))
    for arguments, message in (
        ({"weights": []}, "one to three"),
        ({"weights": [x, w]}, "does not fit"),
        ({"weights": [w], "biases": [x]}, "the bias"),
        ({"weights": [w], "norm": [b]}, "a norm has"),
        ({"weights": [w], "activation": "gated"}, "even number"),
        ({"weights": [w], "residual": x}, "the result's shape"),
    ):
        with pytest.raises(ggml.GgmlError, match=message):
            _core.linear(ctx, x, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no activation"):
        _core.linear(ctx, x, [w], activation="tanh")
    with pytest.raises(ValueError, match="no kernels named"):
        _core.use_kernels("sse")
