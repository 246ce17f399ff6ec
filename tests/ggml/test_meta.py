"""A meta device computes what one device computes: a two-layer perceptron, split as Megatron splits it.

The first weight is split over its rows, the second over its columns, and ggml adds up the partial sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Split, SplitAxis, SplitInfo, Type

WIDTH, HIDDEN, FRAMES = 64, 128, 5
Array = npt.NDArray[np.float32]
SplitFunction = Callable[[SplitInfo, int], "Split | SplitAxis"]


def weights(gated: bool) -> dict[str, Array]:
    rng = np.random.default_rng(3)

    def uniform(*shape: int) -> Array:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    hidden = 2 * HIDDEN if gated else HIDDEN
    return {
        "w1": uniform(hidden, WIDTH),
        "b1": uniform(hidden),
        "w2": uniform(WIDTH, HIDDEN),
        "b2": uniform(WIDTH),
        "x": uniform(FRAMES, WIDTH),
    }


def perceptron(
    device: ggml.Device, type: Type = Type.F32, gated: bool = False, n_threads: int = 1
) -> tuple[Array, list[ggml.Tensor]]:
    """w2 silu(w1 x + b1) + b2; or, gated, w2 swiglu(w1 x + b1) + b2 with both halves in one weight."""
    backend = ggml.Backend(device, n_threads)
    values = weights(gated)
    store, ctx = ggml.Context(1 << 20), ggml.Context(1 << 20)
    tensors: dict[str, ggml.Tensor] = {}
    for name, value in values.items():
        kind = type if name in ("w1", "w2") else Type.F32
        tensors[name] = store.new_tensor(kind, list(reversed(value.shape)))
        tensors[name].name = name
    ggml.alloc_ctx_tensors(store, backend)
    for name, value in values.items():
        if tensors[name].type == Type.F32:
            tensors[name].set(value)
        else:
            tensors[name].set(np.frombuffer(ggml.quantize(value, type), np.uint8))
    hidden = ggml.add(ctx, ggml.mul_mat(ctx, tensors["w1"], tensors["x"]), tensors["b1"])
    active = ggml.ops.swiglu(ctx, hidden) if gated else ggml.silu(ctx, hidden)
    y = ggml.add(ctx, ggml.mul_mat(ctx, tensors["w2"], active), tensors["b2"])
    graph = ggml.Graph(ctx, 32)
    graph.expand(y)
    y.set_output()
    ggml.Gallocr(backend).alloc_graph(graph)
    backend.compute(graph)
    backend.compute(graph)  # a second time: what is split is not used up
    return y.get(), list(tensors.values())


def megatron(sizes: Sequence[int]) -> SplitFunction:
    def split(info: SplitInfo, n_devices: int) -> Split | SplitAxis:
        assert n_devices == len(sizes)
        if info.name == "w1":
            return Split(SplitAxis.AXIS_1, sizes)
        if info.name in ("w2", "b1"):
            return Split(SplitAxis.AXIS_0, sizes)
        return SplitAxis.MIRRORED

    return split


def largest_difference(
    split: SplitFunction, n_devices: int, type: Type = Type.F32, gated: bool = False
) -> float:
    cpu = ggml.device("CPU")
    alone, _ = perceptron(cpu, type, gated)
    split_up, _ = perceptron(ggml.meta_device([cpu] * n_devices, split), type, gated)
    assert split_up.shape == alone.shape == (FRAMES, WIDTH)
    assert np.abs(alone).max() > 1
    return float(np.abs(split_up - alone).max())


@pytest.mark.parametrize(
    "sizes",
    [(64, 64), (96, 32), (128, 0), (0, 128), (48, 48, 32), (128,), (32, 0, 96), (32, 32, 32, 32)],
    ids=lambda sizes: "-".join(map(str, sizes)),
)
def test_split(sizes: tuple[int, ...]) -> None:
    assert largest_difference(megatron(sizes), len(sizes)) < 1e-4


@pytest.mark.parametrize("n_devices", [1, 2, 3])
def test_mirrored(n_devices: int) -> None:
    assert largest_difference(lambda info, n: SplitAxis.MIRRORED, n_devices) == 0


@pytest.mark.parametrize("type", [Type.Q8_0, Type.Q4_0])
@pytest.mark.parametrize("sizes", [(64, 64), (96, 32)], ids=["even", "uneven"])
def test_quantised_weights(type: Type, sizes: tuple[int, int]) -> None:
    # Activations are quantised in blocks of 32: slices that keep blocks whole give the same blocks.
    assert largest_difference(megatron(sizes), 2, type) < 1e-4


@pytest.mark.parametrize("sizes", [(64, 64), (96, 32)], ids=["even", "uneven"])
def test_segments(sizes: tuple[int, int]) -> None:
    """Both halves of a gated layer lie in one weight: each is split on its own."""
    split_plain = megatron(sizes)

    def split(info: SplitInfo, n_devices: int) -> Split | SplitAxis:
        if info.name in ("w1", "b1"):
            axis = SplitAxis.AXIS_1 if info.name == "w1" else SplitAxis.AXIS_0
            return Split(axis, [*sizes, *sizes])
        return split_plain(info, n_devices)

    assert largest_difference(split, 2, gated=True) < 1e-4


@pytest.mark.parametrize("sizes", [(64, 64), (96, 32)], ids=["even", "uneven"])
def test_repeated_segments(sizes: tuple[int, int]) -> None:
    """The same as one segment that occurs twice."""
    split_plain = megatron(sizes)

    def split(info: SplitInfo, n_devices: int) -> Split | SplitAxis:
        if info.name in ("w1", "b1"):
            axis = SplitAxis.AXIS_1 if info.name == "w1" else SplitAxis.AXIS_0
            return Split(axis, sizes, [2])
        return split_plain(info, n_devices)

    assert largest_difference(split, 2, gated=True) < 1e-4


def test_weights_come_back_whole() -> None:
    cpu = ggml.device("CPU")
    _, tensors = perceptron(ggml.meta_device([cpu, cpu], megatron((96, 32))))
    values = weights(False)
    for tensor in tensors:
        assert np.array_equal(tensor.get(), values[tensor.name])


def test_threads_of_the_parts() -> None:
    cpu = ggml.device("CPU")
    alone, _ = perceptron(cpu)
    split_up, _ = perceptron(ggml.meta_device([cpu, cpu], megatron((64, 64))), n_threads=2)
    assert np.abs(split_up - alone).max() < 1e-4


def test_split_function_sees_the_tensors() -> None:
    seen: dict[str, SplitInfo] = {}

    def split(info: SplitInfo, n_devices: int) -> SplitAxis:
        seen[info.name] = info
        assert n_devices == 2
        return SplitAxis.MIRRORED

    cpu = ggml.device("CPU")
    perceptron(ggml.meta_device([cpu, cpu], split), Type.Q8_0)
    assert {"w1", "b1", "w2", "b2", "x"} <= set(seen)
    w1 = seen["w1"]
    assert (w1.type, w1.ne, w1.shape, w1.op) == (Type.Q8_0, (WIDTH, HIDDEN, 1, 1), (HIDDEN, WIDTH), "NONE")
