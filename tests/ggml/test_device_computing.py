"""Computing on a device: events, graphs and plans, at once and asynchronously, and what a device refuses.

``conftest.py`` says which devices these tests run on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import DeviceType, Type

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


class Product:
    """relu(w x) with everything allocated on ``place``."""

    def __init__(self, place: ggml.Backend | ggml.BufferType) -> None:
        ctx = ggml.Context(1 << 20)
        self.w = ctx.new_tensor(Type.F32, [64, 48])
        self.x = ctx.new_tensor(Type.F32, [64, 40])
        self.y = ggml.relu(ctx, ggml.mul_mat(ctx, self.w, self.x))
        self.graph = graph_of(ctx, self.y)
        self.buffer = ggml.alloc_ctx_tensors(ctx, place)
        self.w.set(normal(48, 64))
        self.x.set(normal(40, 64))
        self.expected: FloatArray = np.maximum(normal(40, 64) @ normal(48, 64).T, 0)


# Events


def test_events_order_the_work_of_two_backends(
    device: ggml.Device, backend: ggml.Backend, relative_error: Measure
) -> None:
    if not device.props.caps.events:
        with pytest.raises(ggml.UnsupportedError, match="events"):
            device.event()
        return
    product = Product(backend)
    with device.event() as event, ggml.Backend(device) as second:
        backend.compute_async(product.graph)
        event.record(backend)
        event.wait(second)
        result = second.get_async(product.y)
        second.synchronize()
        event.synchronize()
        backend.synchronize()
        assert relative_error(result, product.expected) < 1e-2
    event.close()
    for use in (lambda: event.record(backend), lambda: event.wait(backend), event.synchronize):
        with pytest.raises(ggml.GgmlError):
            use()


def test_an_event_of_another_device(device: ggml.Device) -> None:
    if not device.props.caps.events:
        pytest.skip("the device has no events")
    with device.event() as event, ggml.Backend("CPU") as cpu:
        with pytest.raises(ggml.UnsupportedError):
            event.record(cpu)
        with pytest.raises(ggml.UnsupportedError):
            event.wait(cpu)


# Computing


def test_compute(backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]) -> None:
    product = Product(backend)
    backend.compute(product.graph)
    assert close(product.y.get(), product.expected)


def test_compute_async(backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]) -> None:
    product = Product(backend)
    backend.compute_async(product.graph)
    backend.synchronize()
    assert close(product.y.get(), product.expected)


def test_a_dropped_graph_is_computed_to_its_end(
    backend: ggml.Backend, close: Callable[[FloatArray, FloatArray], bool]
) -> None:
    products = [Product(backend) for _ in range(4)]
    for product in products:
        backend.compute_async(product.graph)
        del product.graph
    backend.synchronize()
    assert all(close(product.y.get(), product.expected) for product in products)


def test_plan(device: ggml.Device, backend: ggml.Backend, relative_error: Measure) -> None:
    product = Product(backend)
    if device.type != DeviceType.CPU:
        with pytest.raises(ggml.UnsupportedError, match="plans"):
            backend.plan(product.graph)
        return
    with backend.plan(product.graph) as plan:
        plan.compute()
        assert relative_error(product.y.get(), product.expected) < 1e-5


def test_supports_op(device: ggml.Device, backend: ggml.Backend) -> None:
    product = Product(backend)
    assert device.supports_op(product.y)
    assert backend.supports_op(product.y)
    assert device.offload_op(product.y) in (True, False)


def test_an_operator_that_the_device_lacks(device: ggml.Device, backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    x = ctx.new_tensor(Type.BF16, [8, 8])
    y = ggml.relu(ctx, x)
    if device.supports_op(y):
        pytest.skip("the device computes relu of bf16")
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    for compute in (backend.compute, backend.compute_async):
        with pytest.raises(ggml.GgmlError, match=r"UNARY|RELU|relu"):
            compute(graph)


def test_memory_of_another_device(device: ggml.Device) -> None:
    if not has_own_memory(device):
        pytest.skip("the CPU reads this device's memory")
    with ggml.Backend(device) as backend, ggml.Backend("CPU") as cpu:
        product = Product(backend)
        with pytest.raises(ggml.GgmlError):
            cpu.compute(product.graph)
        if not device.supports_buffer_type(cpu.buffer_type):
            with pytest.raises(ggml.GgmlError):
                backend.compute(Product(cpu).graph)
