"""The backend API on a device: the CPU always, and the one that ``GGML_TEST_DEVICE`` names.

A device of a loadable module also needs the module's path in ``GGML_TEST_CPU_MODULE``,
``GGML_TEST_VULKAN_MODULE`` or ``GGML_TEST_CUDA_MODULE``; ``docs/devices.md`` says how to get one. GPUs
multiply float32 matrices in half precision, so results are compared to 1 % there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import BufferUsage, DeviceType, Type

FloatArray = npt.NDArray[np.float32]

OTHER = os.environ.get("GGML_TEST_DEVICE", "")
NAMES = tuple(dict.fromkeys(name for name in ("CPU", OTHER) if name))
OTHER_NAMES = tuple(name for name in NAMES if name != "CPU")
MODULES = ("GGML_TEST_VULKAN_MODULE", "GGML_TEST_CUDA_MODULE", "GGML_TEST_CPU_MODULE")
SPEECH = Path(__file__).resolve().parents[1] / "data" / "wer"


def find_device(name: str) -> ggml.Device:
    """The device of that name, after loading what the environment names when it is not there yet."""
    for variable in MODULES:
        try:
            return ggml.device(name)
        except KeyError:
            if path := os.environ.get(variable):
                ggml.load_backend(path)
    return ggml.device(name)


@pytest.fixture(params=NAMES)
def device(request: pytest.FixtureRequest) -> ggml.Device:
    return find_device(request.param)


@pytest.fixture
def backend(device: ggml.Device) -> Iterator[ggml.Backend]:
    with ggml.Backend(device) as made:
        yield made


@pytest.fixture
def close(device: ggml.Device) -> Callable[[FloatArray, FloatArray], bool]:
    """Whether a result is what it should be, to the precision of the device."""
    return lambda got, expected: (
        relative_error(got, expected) < (1e-5 if device.type == DeviceType.CPU else 1e-2)
    )


def relative_error(got: FloatArray, expected: FloatArray) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())


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


# Facts


def test_facts(device: ggml.Device) -> None:
    props = device.props
    assert (props.name, props.description, props.type) == (device.name, device.description, device.type)
    assert ggml.device(device.name.lower()) == device == ggml.device(device.name)
    assert hash(device) == hash(ggml.device(device.name))
    assert device in ggml.devices()
    assert 0 < device.memory_free <= device.memory_total
    assert device.registry is not None
    assert device in device.registry.devices
    caps = props.caps
    for cap in (caps.async_, caps.host_buffer, caps.buffer_from_host_ptr, caps.events, caps.mmap_support):
        assert isinstance(cap, bool)
    assert (device.host_buffer_type is None) or device.host_buffer_type.is_host
    assert device.type == (DeviceType.CPU if device.name == "CPU" else device.type)


def test_buffer_type(device: ggml.Device) -> None:
    kind = device.buffer_type
    assert device.supports_buffer_type(kind)
    assert kind.device == device
    assert kind.alignment >= 1
    assert kind.max_size > 0
    ctx = ggml.Context(1 << 16)
    assert kind.alloc_size(ctx.new_tensor(Type.F32, [100])) >= 400


def test_the_best_backend_is_on_a_device_of_the_list(device: ggml.Device) -> None:
    with ggml.best_backend() as best:
        assert best.device in ggml.devices()


# Events


def test_events_order_the_work_of_two_backends(device: ggml.Device, backend: ggml.Backend) -> None:
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


# Copies


@pytest.mark.parametrize("type", [Type.F32, Type.F16, Type.I32])
def test_set_and_get_async(backend: ggml.Backend, type: Type) -> None:
    dtype = {Type.F32: np.float32, Type.F16: np.float16, Type.I32: np.int32}[type]
    ctx = ggml.Context(1 << 16)
    tensor = ctx.new_tensor(type, [8, 4])
    ggml.alloc_ctx_tensors(ctx, backend)
    values = np.arange(32).astype(dtype).reshape(4, 8)
    backend.set_async(tensor, values)
    backend.synchronize()
    got = backend.get_async(tensor)
    backend.synchronize()
    assert got.dtype == dtype
    assert (got == values).all()
    assert (tensor.get() == values).all()


def test_set_and_get_async_of_a_part(backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    tensor = ctx.new_tensor(Type.F32, [16])
    with ggml.alloc_ctx_tensors(ctx, backend) as buffer:
        buffer.clear(0)
        backend.set_async(tensor, np.arange(1, 5, dtype=np.float32), offset=16)
        backend.synchronize()
        part = backend.get_async(tensor, offset=12, size=16)
        backend.synchronize()
        assert list(np.ravel(part)) == [0, 1, 2, 3]
        for offset, size in ((64, 4), (0, 68), (-4, 4), ((1 << 64) - 4, 8), (1 << 70, 4)):
            with pytest.raises((ggml.GgmlError, ValueError, IndexError, TypeError, OverflowError)):
                backend.get_async(tensor, offset=offset, size=size)
        with pytest.raises((ggml.GgmlError, ValueError, IndexError)):
            backend.set_async(tensor, np.zeros(4, np.float32), offset=52)


def test_the_array_of_set_async_may_be_dropped(backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    tensors = [ctx.new_tensor(Type.F32, [1 << 16]) for _ in range(8)]
    ggml.alloc_ctx_tensors(ctx, backend)
    for number, tensor in enumerate(tensors):
        backend.set_async(tensor, np.full(1 << 16, number, np.float32))
    backend.synchronize()
    assert all((tensor.get() == number).all() for number, tensor in enumerate(tensors))


@pytest.mark.parametrize("to_device", [True, False])
def test_copy_async_between_the_device_and_the_cpu(backend: ggml.Backend, to_device: bool) -> None:
    with ggml.Backend("CPU") as cpu:
        pair = (cpu, backend) if to_device else (backend, cpu)
        contexts = [ggml.Context(1 << 16) for _ in pair]
        source, target = (ctx.new_tensor(Type.F32, [16, 8]) for ctx in contexts)
        for ctx, place in zip(contexts, pair, strict=True):
            ggml.alloc_ctx_tensors(ctx, place)
        source.set(normal(8, 16))
        ggml.copy_async(*pair, source, target)
        for place in pair:
            place.synchronize()
        assert (target.get() == normal(8, 16)).all()
        ggml.tensor_copy(target, source)  # and back, at once
        assert (source.get() == normal(8, 16)).all()


def test_copies_of_another_shape_are_refused(backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    source, target = ctx.new_tensor(Type.F32, [16]), ctx.new_tensor(Type.F32, [4, 4])
    ggml.alloc_ctx_tensors(ctx, backend)
    for copy in (
        lambda: ggml.copy_async(backend, backend, source, target),
        lambda: ggml.tensor_copy(source, target),
    ):
        with pytest.raises((ggml.GgmlError, ValueError)):
            copy()


# Buffers


def test_host_access(device: ggml.Device, backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    tensor = ctx.new_tensor(Type.F32, [16])
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    tensor.set(normal(16))
    assert buffer.is_host == device.buffer_type.is_host
    if has_own_memory(device):
        assert buffer.base is None
        with pytest.raises(ggml.GgmlError, match="host"):
            tensor.numpy()
    else:
        assert isinstance(buffer.base, int)
        view = tensor.numpy()
        view[3] = 7
        assert tensor.get()[3] == 7
    assert (tensor.get()[4:] == normal(16)[4:]).all()


def test_clear_usage_reset(backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    tensor = ctx.new_tensor(Type.I32, [16])
    with ggml.alloc_ctx_tensors(ctx, backend) as buffer:
        assert buffer.size >= 64
        assert buffer.buffer_type.device == backend.device
        assert not buffer.is_multi
        for value, expected in ((0, 0), (255, -1), (1, 0x01010101)):
            buffer.clear(value)
            assert (tensor.get() == expected).all()
        for value in (-1, 256):
            with pytest.raises((ValueError, TypeError, OverflowError)):
                buffer.clear(value)
        for usage in (BufferUsage.WEIGHTS, BufferUsage.COMPUTE, BufferUsage.ANY):
            buffer.usage = usage
            assert buffer.usage == usage
        buffer.reset()
        assert buffer.size >= 64
    assert buffer.closed
    with pytest.raises(ggml.GgmlError):
        buffer.clear(0)


def test_a_tensor_placed_by_hand(backend: ggml.Backend) -> None:
    with backend.alloc_buffer(4096) as buffer:
        ctx = ggml.Context(1 << 16)
        tensor = ctx.new_tensor(Type.F32, [16])
        buffer.place(tensor, backend.buffer_type.alignment)
        tensor.set(normal(16))
        assert (tensor.get() == normal(16)).all()
        for offset in (4096, 4096 - 60, -1, 1 << 63):
            with pytest.raises((ggml.GgmlError, ValueError, IndexError, TypeError, OverflowError)):
                buffer.place(ctx.new_tensor(Type.F32, [16]), offset)


def test_multi_buffer(backend: ggml.Backend) -> None:
    ctx = ggml.Context(1 << 16)
    tensor = ctx.new_tensor(Type.I32, [16])
    parts = [ggml.alloc_ctx_tensors(ctx, backend), backend.alloc_buffer(128)]
    size = sum(part.size for part in parts)
    with ggml.MultiBuffer(parts) as multi:
        assert multi.size == size
        multi.usage = BufferUsage.WEIGHTS
        assert multi.usage == BufferUsage.WEIGHTS
        multi.clear(255)
        assert (tensor.get() == -1).all()


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


def test_plan(device: ggml.Device, backend: ggml.Backend) -> None:
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
def test_meta_device_of_two(device: ggml.Device, second: str, sizes: tuple[int, int]) -> None:
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


# Speech


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_the_speech_model(name: str, report_line: Callable[[str], None]) -> None:
    import asr

    device = find_device(name)
    rows = [json.loads(line) for line in (SPEECH / "manifest.jsonl").read_text("utf-8").splitlines()]
    clips = [SPEECH / row["audio"] for row in rows[:: len(rows) // 10][:10]]
    on_cpu = asr.load_model("tiny-commands-en")
    on_device = asr.load_model("tiny-commands-en", device=device.name)
    worst = 0.0
    for clip in clips:
        error = relative_error(on_device.encode(clip), on_cpu.encode(clip))
        worst = max(worst, error)
    report_line(f"{device.name} ({device.description}): encoder of 10 clips within {worst:.1e} of the CPU's")
    assert worst < 2e-2
    for decoder in on_cpu.decoders:
        for clip in clips:
            expected = on_cpu.transcribe(clip, decoder=decoder).text
            assert on_device.transcribe(clip, decoder=decoder).text == expected
