"""Devices: what they say of themselves, copies to, from and between them, and their buffers.

``conftest.py`` says which devices these tests run on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import BufferUsage, DeviceType, Type

FloatArray = npt.NDArray[np.float32]


def has_own_memory(device: ggml.Device) -> bool:
    return not device.buffer_type.is_host


def normal(*shape: int) -> FloatArray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


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
