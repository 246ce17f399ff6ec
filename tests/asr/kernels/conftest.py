"""Runs an operator of our own with each set of kernels that this processor has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

import asr._core as _core
import ggml

FloatArray = npt.NDArray[np.float32]
Build = Callable[[ggml.Context, dict[str, ggml.Tensor]], ggml.Tensor]
Run = Callable[..., FloatArray]

SETS = [name for name in _core.kernel_sets() if _core.reference_kernels(name) != name]


@pytest.fixture
def kernels() -> Iterator[Callable[[str], None]]:
    """A function that chooses a set; the one in use before is chosen again afterwards."""
    before = _core.kernels()
    yield _core.use_kernels
    _core.use_kernels(before)


@pytest.fixture
def run(kernels: Callable[[str], None]) -> Run:
    """A function (set, build, inputs, n_threads) -> the result of a graph, in NumPy's order of dimensions.

    Inputs are arrays of float32, or (type, array) for weights that are stored in another type.
    """

    def compute(
        name: str,
        build: Build,
        inputs: dict[str, FloatArray | tuple[ggml.Type, FloatArray]],
        n_threads: int = 1,
    ) -> FloatArray:
        kernels(name)
        backend = ggml.Backend(n_threads=n_threads)
        leaves, ctx = ggml.Context(1 << 16), ggml.Context(1 << 18)
        tensors = {}
        for key, value in inputs.items():
            kind, array = value if isinstance(value, tuple) else (ggml.Type.F32, value)
            tensors[key] = leaves.new_tensor(kind, list(reversed(array.shape)))
        ggml.alloc_ctx_tensors(leaves, backend)
        for key, value in inputs.items():
            kind, array = value if isinstance(value, tuple) else (ggml.Type.F32, value)
            stored = array if kind == ggml.Type.F32 else np.frombuffer(ggml.quantize(array, kind), np.uint8)
            tensors[key].set(
                stored.view(np.float16).reshape(array.shape) if kind == ggml.Type.F16 else stored
            )
        result = build(ctx, tensors)
        graph = ggml.Graph(ctx, 64)
        graph.expand(result)
        allocator = ggml.Gallocr(backend)
        allocator.alloc_graph(graph)
        backend.compute(graph)
        return result.get()

    return compute


@pytest.fixture
def check(run: Run) -> Callable[..., None]:
    """Compares every set with its reference, and 2 and 3 threads with one, bit by bit.

    ``rounded`` is the tolerance where frames are rounded to 8 bits after a layer norm: a norm that differs in
    its last bit can round to the other neighbour.
    """

    def compare(
        build: Build, inputs: dict[str, FloatArray], tolerance: float = 2e-6, rounded: float | None = None
    ) -> None:
        expected: dict[str, FloatArray] = {}
        for name in SETS:
            reference = _core.reference_kernels(name)
            if reference not in expected:
                expected[reference] = run(reference, build, inputs)
            size = max(float(np.abs(expected[reference]).max()), 1e-30)
            got = run(name, build, inputs)
            allowed = rounded if rounded is not None and reference != "reference" else tolerance
            assert np.abs(got - expected[reference]).max() / size < allowed, name
            for n_threads in (2, 3):
                assert np.array_equal(run(name, build, inputs, n_threads), got), (
                    f"{name}, {n_threads} threads"
                )

    return compare
