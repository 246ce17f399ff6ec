"""Products of bytes: what is rounded and how, sums that must not overflow, and what is not a number."""

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
Run = Callable[..., FloatArray]

INTEGER_SETS = [n for n in _core.kernel_sets() if _core.reference_kernels(n) == "reference_integer"]
ACTIVATIONS = ["none", "relu", "silu", "gated"]


def product(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
    return _core.linear(ctx, t["x"], [t["w"]])


def integers(seed: int, *shape: int) -> FloatArray:
    """Integers of -127 to 127, with 127 in each 32, so that neither frames nor weights are rounded."""
    values = np.random.default_rng(seed).integers(-127, 128, shape)
    values[..., ::32] = 127
    return values.astype(np.float32)


@pytest.mark.parametrize("name", INTEGER_SETS)
@pytest.mark.parametrize("size", [(1, 32, 3), (2, 64, 33), (7, 96, 40), (19, 256, 65)], ids=str)
def test_integers_are_exact(name: str, size: tuple[int, int, int], run: Run) -> None:
    n_frames, n_in, n_out = size
    x, w = integers(1, n_frames, n_in), integers(2, n_out, n_in)
    got = run(name, product, {"x": x, "w": (Type.Q8_0, w)})
    np.testing.assert_array_equal(got.reshape(n_frames, n_out), x @ w.T)


@pytest.mark.parametrize("name", INTEGER_SETS)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_the_largest_sums(name: str, signs: tuple[int, int], run: Run) -> None:
    x, w = np.full((7, 64), 127, np.float32) * signs[0], np.full((35, 64), 127, np.float32) * signs[1]
    np.testing.assert_array_equal(run(name, product, {"x": x, "w": (Type.Q8_0, w)}), x @ w.T)


@pytest.mark.parametrize("n_frames", [1, 6, 13])
def test_ties_are_rounded_to_even(n_frames: int, check: Check) -> None:
    x = np.arange(n_frames * 64).reshape(n_frames, 64).astype(np.float32) % 63 + 0.5
    x[:, ::32] = 127
    check(product, {"x": x, "w": (Type.Q8_0, integers(3, 35, 64))}, 1e-7)


@pytest.mark.parametrize("n_frames", [1, 5, 20])
def test_blocks_of_any_size(n_frames: int, check: Check) -> None:
    """A scale for each block: of nothing, of next to nothing, and of large numbers."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((n_frames, 7 * 32)).astype(np.float32).reshape(n_frames, 7, 32)
    x *= np.array([0, 1e-42, 1e-35, 1e-10, 1, 1e10, 0], np.float32)[:, None]
    w = rng.standard_normal((37, 7 * 32)).astype(np.float32).reshape(37, 7, 32)
    w[:, 6] = 0
    for used in ([0, 1, 2], [3], [4, 6], [5], list(range(7))):
        only = np.zeros_like(x)
        only[:, used] = x[:, used]
        inputs = {"x": only.reshape(n_frames, -1), "w": (Type.Q8_0, w.reshape(37, -1))}
        check(product, inputs)


@pytest.mark.parametrize("name", _core.kernel_sets())
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", [Type.F32, Type.Q8_0])
@pytest.mark.parametrize("n_frames", [2, 7, 14])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(
    name: str, activation: str, kind: Type, n_frames: int, value: float, run: Run
) -> None:
    """In one frame, all of which it spoils; the others are as without it."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n_frames, 64)).astype(np.float32)
    w = np.abs(rng.standard_normal((36, 64))).astype(np.float32)  # relu of a negative infinity is 0
    inputs: dict[str, Any] = {"x": x, "w": (kind, w)}

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        return _core.linear(ctx, t["x"], [t["w"]], activation=activation)

    before = run(name, build, inputs)
    x[1, 40] = value
    got = run(name, build, inputs)
    assert not np.isfinite(got[1]).any()
    np.testing.assert_array_equal(np.delete(got, 1, 0), np.delete(before, 1, 0))


@pytest.mark.parametrize("name", _core.kernel_sets())
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("row", [1, 19])
def test_a_damaged_weight_is_seen(
    name: str, activation: str, row: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scale that is not a number, of a result (row 1) or of its gate (row 19)."""
    quantize = ggml.quantize

    def damaged(array: FloatArray, kind: Type) -> bytes:
        stored = np.frombuffer(quantize(array, kind), np.uint16).reshape(len(array), -1).copy()
        stored[row, 0] = np.array(np.nan, np.float16).view(np.uint16)
        return stored.tobytes()

    def build(ctx: ggml.Context, t: dict[str, ggml.Tensor]) -> ggml.Tensor:
        return _core.linear(ctx, t["x"], [t["w"]], activation=activation)

    monkeypatch.setattr(ggml, "quantize", damaged)
    got = run(
        name, build, {"x": np.ones((7, 64), np.float32), "w": (Type.Q8_0, np.ones((36, 64), np.float32))}
    )
    spoilt = 1 if activation == "gated" else row
    assert not np.isfinite(got[:, spoilt]).any()
    assert np.isfinite(np.delete(got, spoilt, 1)).all()
