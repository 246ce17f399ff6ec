"""The persistent backend: what it is, inputs, captures, and calls where they do not belong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import asr
import ggml
from asr.backend import Backend, Capture, add_graph_input, capture_graph_output, graph_input_tensor
from ggml import Type

Array = npt.NDArray[np.float32]

ROWS = np.random.default_rng(3).standard_normal((7, 16)).astype(np.float32)
MATRIX = np.random.default_rng(4).standard_normal((5, 16)).astype(np.float32)


def product(backend: Backend, rows: Array = ROWS) -> Array:
    def build(ctx: ggml.Context) -> ggml.Tensor:
        w = graph_input_tensor(ctx, Type.F32, MATRIX.shape[::-1], MATRIX)
        x = graph_input_tensor(ctx, Type.F32, rows.shape[::-1], rows)
        return ggml.mul_mat(ctx, w, x)

    return backend.compute(build)


def works(backend: Backend) -> bool:
    return np.allclose(product(backend), ROWS @ MATRIX.T, atol=1e-5)


# What it is


def test_threads_and_names() -> None:
    assert Backend(0).n_threads == 1
    assert Backend(-5).n_threads == 1
    backend = Backend(2)
    assert backend.n_threads == 2
    backend.set_n_threads(3)
    assert backend.n_threads == backend.handle.n_threads == 3
    assert works(backend)
    backend.set_n_threads(0)
    assert backend.n_threads == 1
    assert works(backend)
    assert backend.device_name == "cpu"
    assert isinstance(backend.handle, ggml.Backend)
    assert backend.handle.is_cpu


def test_unknown_device() -> None:
    with pytest.raises(asr.DeviceError, match="no device 'TPU'"):
        Backend(1, "TPU")


def test_counts_and_buffer() -> None:
    backend = Backend(1)
    assert (backend.graphs_run, backend.compute_buffer_size, backend.compute_buffer_address) == (0, 0, 0)
    product(backend)
    assert backend.graphs_run == 1
    size, address = backend.compute_buffer_size, backend.compute_buffer_address
    assert size > 0
    assert address > 0
    product(backend, ROWS[:2])
    assert backend.graphs_run == 2
    assert (backend.compute_buffer_size, backend.compute_buffer_address) == (size, address)
    product(backend, np.tile(ROWS, (500, 1)))
    assert backend.compute_buffer_size > size


# Inputs


def test_inputs_are_copied_after_allocation() -> None:
    backend = Backend(1)
    seen: list[bool] = []

    def build(ctx: ggml.Context) -> ggml.Tensor:
        x = ctx.new_tensor(Type.F32, [16, 7])
        add_graph_input(x, ROWS)
        seen.append(x.is_allocated)
        with pytest.raises(ggml.GgmlError, match="no memory"):
            x.set(ROWS)
        return ggml.scale(ctx, x, 3.0)

    assert np.allclose(backend.compute(build), 3 * ROWS)
    assert seen == [False]


def test_inputs_are_kept_alive_and_converted() -> None:
    def build(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (4, 3), np.arange(12.0).reshape(4, 3).T[:, ::-1])
        half = graph_input_tensor(ctx, Type.F16, (4, 3), np.full((3, 4), 0.5))
        rows = graph_input_tensor(ctx, Type.I32, (2,), [2, 0])
        return ggml.get_rows(ctx, ggml.add(ctx, x, ggml.cast(ctx, half, Type.F32)), rows)

    expected = (np.arange(12.0).reshape(4, 3).T[:, ::-1] + 0.5)[[2, 0]]
    assert np.array_equal(Backend(1).compute(build), expected)


def test_an_input_can_be_the_result() -> None:
    assert np.array_equal(
        Backend(1).compute(lambda ctx: graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)), ROWS
    )


def test_wrong_inputs() -> None:
    backend = Backend(1)
    with pytest.raises(ValueError, match="shape"):
        backend.compute(lambda ctx: graph_input_tensor(ctx, Type.F32, (16, 8), ROWS))
    with pytest.raises(TypeError, match="q8_0"):
        backend.compute(lambda ctx: graph_input_tensor(ctx, Type.Q8_0, (32, 1), np.zeros(32)))
    assert works(backend)


# Captures


@pytest.mark.parametrize("n_captures", [0, 1, 5, 40])
def test_any_number_of_captures(n_captures: int) -> None:
    captures: list[Capture] = []

    def build(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        for _ in range(50):
            x = ggml.scale(ctx, x, 1.1)
            if len(captures) < n_captures:
                captures.append(capture_graph_output(x))
        return x

    result = Backend(1).compute(build)
    assert np.allclose(result, ROWS * 1.1**50, rtol=1e-4)
    for power, capture in enumerate(captures, 1):
        assert capture.array.dtype == np.float32
        assert np.allclose(capture.array, ROWS * 1.1**power, rtol=1e-4)


def test_captures_switched_on_and_off() -> None:
    """ggml's allocator takes over the plan of a graph of the same nodes, whatever its outputs are."""
    backend = Backend(1)

    def run(captured: tuple[int, ...]) -> dict[int, Array]:
        captures: dict[int, Capture] = {}

        def build(ctx: ggml.Context) -> ggml.Tensor:
            x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
            for step in range(6):
                x = ggml.relu(ctx, ggml.scale(ctx, x, 1.5))
                if step in captured:
                    captures[step] = capture_graph_output(x)
            return x

        last = backend.compute(build)
        return {step: capture.array for step, capture in captures.items()} | {5: last}

    for captured in ((), (0, 1, 2), (), (3,), (1,), (0, 1, 2, 3, 4), ()):
        for step, array in run(captured).items():
            assert np.allclose(array, np.maximum(ROWS, 0) * 1.5 ** (step + 1), rtol=1e-5), (captured, step)


def test_encoder_with_and_without_captures(
    tiny_model: Callable[[str, int], asr.Model], clips: dict[str, Array]
) -> None:
    model = tiny_model("tdt-ctc", 0)
    plain = model.encode(clips["medium"])
    for _ in range(2):
        states = model.encoder_states(clips["medium"])
        assert np.array_equal(states.output, plain)
        assert np.array_equal(model.encode(clips["medium"]), plain)
    assert len(states.layers) == model.config.encoder.n_layers


def test_capture_before_compute_has_no_value() -> None:
    def build(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        with pytest.raises(RuntimeError, match="not computed"):
            _ = capture_graph_output(x).array
        return x

    Backend(1).compute(build)


# Outside build, and nested


def test_calls_outside_build_raise() -> None:
    backend, other = Backend(1), Backend(1)
    ctx = ggml.Context(1 << 16)
    x = ctx.new_tensor(Type.F32, [16, 7])
    calls: list[Callable[[], object]] = [
        lambda: add_graph_input(x, ROWS),
        lambda: graph_input_tensor(ctx, Type.F32, (16, 7), ROWS),
        lambda: capture_graph_output(x),
        lambda: backend.register_input(x, ROWS),
        lambda: backend.register_capture(x),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="inside"):
            call()

    def build(ctx: ggml.Context) -> ggml.Tensor:
        y = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        with pytest.raises(RuntimeError, match="not building"):
            other.register_capture(y)
        return y

    backend.compute(build)


def test_nested_compute_raises() -> None:
    backend, other = Backend(1), Backend(1)
    for inner in (backend, other):
        with pytest.raises(RuntimeError, match="do not nest"):
            backend.compute(lambda ctx, inner=inner: product(inner))  # type: ignore[misc]
    assert works(backend)
    assert works(other)


def test_build_that_raises_leaves_the_backend_usable() -> None:
    backend = Backend(1)

    def build(ctx: ggml.Context) -> ggml.Tensor:
        graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        raise LookupError("no such layer")

    for _ in range(3):
        with pytest.raises(LookupError, match="no such layer"):
            backend.compute(build)
        assert works(backend)


def test_ggml_errors_leave_the_backend_usable() -> None:
    backend = Backend(1)

    def mismatch(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        return ggml.mul_mat(ctx, x, ggml.cont(ctx, ggml.transpose(ctx, x)))

    def too_large(ctx: ggml.Context) -> ggml.Tensor:
        return ggml.relu(ctx, ctx.new_tensor(Type.F32, [1 << 50]))

    def too_deep(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        for _ in range(6000):
            x = ggml.relu(ctx, x)
        return x

    def no_row(ctx: ggml.Context) -> ggml.Tensor:
        x = graph_input_tensor(ctx, Type.F32, (16, 7), ROWS)
        return ggml.get_rows(ctx, x, graph_input_tensor(ctx, Type.I32, (1,), [7]))

    def strided(ctx: ggml.Context) -> ggml.Tensor:
        return ggml.transpose(ctx, graph_input_tensor(ctx, Type.F32, (16, 7), ROWS))

    for build in (mismatch, too_large, too_deep, no_row, strided):
        with pytest.raises(ggml.GgmlError):
            backend.compute(build)
        assert works(backend)
