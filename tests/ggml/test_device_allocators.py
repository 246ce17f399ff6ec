"""Memory for graphs on a device: the graph allocator, the scheduler with the CPU, a device made of two.

``conftest.py`` says which devices these tests run on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import BufferUsage, DeviceType, Type

FloatArray = npt.NDArray[np.float32]
Measure = Callable[[FloatArray, FloatArray], float]


def has_own_memory(device: ggml.Device) -> bool:
    return not device.buffer_type.is_host


def normal(*shape: int) -> FloatArray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def graph_of(ctx: ggml.Context, *results: ggml.Tensor) -> ggml.Graph:
    graph = ggml.Graph(ctx, 64)
    for result in results:
        graph.expand(result)
    return graph


# Allocators


def test_gallocr(backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]) -> None:
    for place in (backend, backend.buffer_type):
        ctx = ggml.Context(1 << 20)
        w, x = ctx.new_tensor(Type.F32, [64, 48]), ctx.new_tensor(Type.F32, [64, 40])
        for tensor in (w, x):
            tensor.set_input()
        y = ggml.relu(ctx, ggml.mul_mat(ctx, w, x))
        y.set_output()
        graph = graph_of(ctx, y)
        with ggml.Gallocr(place) as allocator:
            allocator.reserve(graph)
            size = allocator.buffer_size
            assert size >= w.nbytes + x.nbytes + y.nbytes
            allocator.alloc_graph(graph)
            assert allocator.buffer_size == size
            w.set(normal(48, 64))
            x.set(normal(40, 64))
            backend.compute(graph)
            assert close(y.get(), np.maximum(normal(40, 64) @ normal(48, 64).T, 0))


def test_sched_splits_a_graph_between_the_device_and_the_cpu(
    device: ggml.Device, backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]
) -> None:
    with ggml.Backend("CPU") as cpu, ggml.Sched([backend, cpu]) as sched:
        ctx = ggml.Context(1 << 20)
        x = ctx.new_tensor(Type.F32, [64, 40])
        x.set_input()
        first = ggml.scale(ctx, x, 2.0)
        second = ggml.relu(ctx, first)
        third = ggml.scale(ctx, second, 3.0)
        third.set_output()
        graph = graph_of(ctx, third)
        for tensor, place in ((first, backend), (second, cpu), (third, backend)):
            sched.set_tensor_backend(tensor, place)
        sched.alloc_graph(graph)
        # ggml moves work between two backends of the same memory to the first of them.
        assert sched.n_splits == (3 if has_own_memory(device) else 1)
        assert sched.n_copies == 1
        if has_own_memory(device):
            placed = sched.tensor_backend(second)
            assert placed is not None
            assert placed.device == cpu.device
            assert sched.buffer_size(cpu) > 0
        assert sched.buffer_size(backend) > 0
        x.set(normal(40, 64))
        sched.compute(graph)
        sched.synchronize()
        assert close(third.get(), 3 * np.maximum(2 * normal(40, 64), 0))
        sched.reset()
        with pytest.raises(ggml.GgmlError):
            third.get()


def test_sched_follows_the_weights(
    device: ggml.Device, backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]
) -> None:
    weights, ctx = ggml.Context(1 << 16), ggml.Context(1 << 20)
    w = weights.new_tensor(Type.F32, [64, 48])
    ggml.alloc_ctx_tensors(weights, backend).usage = BufferUsage.WEIGHTS
    w.set(normal(48, 64))
    with ggml.Backend("CPU") as cpu, ggml.Sched([backend, cpu]) as sched:

        def build(ctx: ggml.Context) -> tuple[ggml.Graph, ggml.Tensor, ggml.Tensor]:
            x = ctx.new_tensor(Type.F32, [64, 40])
            x.set_input()
            y = ggml.mul_mat(ctx, w, x)
            y.set_output()
            return graph_of(ctx, y), x, y

        sched.reserve(build(ggml.Context(1 << 20))[0])
        graph, x, y = build(ctx)
        sched.alloc_graph(graph)
        x.set(normal(40, 64))
        sched.compute(graph)
        assert close(y.get(), normal(40, 64) @ normal(48, 64).T)
        placed = sched.tensor_backend(y)
        assert placed is not None
        assert placed.device == device


# A device made of two


def split_mlp(sizes: Sequence[int]) -> Callable[[ggml.SplitInfo, int], ggml.Split | ggml.SplitAxis]:
    """Megatron's split: the first layer's outputs and the second layer's inputs, by ``sizes``."""

    def split(info: ggml.SplitInfo, n_devices: int) -> ggml.Split | ggml.SplitAxis:
        assert n_devices == len(sizes)
        if info.name == "w1":
            return ggml.Split(ggml.SplitAxis.AXIS_1, sizes=sizes)
        if info.name == "w2":
            return ggml.Split(ggml.SplitAxis.AXIS_0, sizes=sizes)
        return ggml.SplitAxis.MIRRORED

    return split


@pytest.mark.parametrize("sizes", [(64, 64), (96, 32)])
@pytest.mark.parametrize("second", ["same", "CPU"])
def test_meta_device_of_two(
    device: ggml.Device, second: str, sizes: tuple[int, int], relative_error: Measure
) -> None:
    parts = [device, device if second == "same" else ggml.device("CPU")]
    meta = ggml.meta_device(parts, split_mlp(sizes))
    assert meta.type == DeviceType.META
    assert list(meta.parts) == parts
    with ggml.Backend(meta) as backend:
        weights, ctx = ggml.Context(1 << 16), ggml.Context(1 << 20)
        w1, w2 = weights.new_tensor(Type.F32, [64, 128]), weights.new_tensor(Type.F32, [128, 32])
        w1.name, w2.name = "w1", "w2"
        ggml.alloc_ctx_tensors(weights, backend)
        w1.set(normal(128, 64))
        w2.set(normal(32, 128))
        x = ctx.new_tensor(Type.F32, [64, 16])
        x.set_input()
        hidden = ggml.relu(ctx, ggml.mul_mat(ctx, w1, x))
        # The second product is a sum over the devices: it is added up for the operator that comes after.
        y = ggml.scale(ctx, ggml.mul_mat(ctx, w2, hidden), 1.0)
        y.set_output()
        graph = graph_of(ctx, y)
        with ggml.Gallocr(backend) as allocator:
            allocator.alloc_graph(graph)
            x.set(normal(16, 64))
            backend.compute(graph)
            expected = np.maximum(normal(16, 64) @ normal(128, 64).T, 0) @ normal(32, 128).T
            tolerance = 1e-5 if device.type == DeviceType.CPU else 1e-2
            assert relative_error(y.get(), expected) < tolerance
        with pytest.raises(ggml.GgmlError, match="host"):
            w1.numpy()
