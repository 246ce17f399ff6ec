"""Backends: names of devices, threads of a backend, and several threads on one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import ggml
from ggml import Type


def test_unknown_device_lists_what_there_is() -> None:
    with pytest.raises(KeyError, match=r"no device 'TPU'; there are: .*CPU"):
        ggml.Backend("TPU")


@pytest.mark.parametrize("name", ["cpu", "CPU", "Cpu"])
def test_device_names_in_any_case(name: str) -> None:
    assert ggml.Backend(name).is_cpu


def test_devices() -> None:
    cpu = next(d for d in ggml.devices() if d.name == "CPU")
    assert cpu.type is ggml.DeviceType.CPU
    assert cpu.description
    assert cpu.memory_total >= cpu.memory_free > 0


def test_number_of_threads() -> None:
    assert ggml.Backend("cpu", -3).n_threads == 1
    backend = ggml.Backend("cpu", 2)
    backend.set_n_threads(0)
    assert backend.n_threads == 1
    with pytest.raises(ggml.GgmlError, match="at most 512 threads"):
        backend.set_n_threads(100_000)
    with pytest.raises(ggml.GgmlError, match="at most 512 threads"):
        ggml.Backend("cpu", 100_000)


def test_a_shared_thread_pool_and_threads_of_its_own_again() -> None:
    backend, pool = ggml.Backend(n_threads=1), ggml.Threadpool(2)
    backend.set_threadpool(pool)
    assert backend.n_threads == 2
    del pool
    backend.set_threadpool(None)
    assert backend.n_threads == 2
    ctx = ggml.Context(1 << 16)
    y = ggml.relu(ctx, ctx.new_tensor(Type.F32, [64]))
    graph = ggml.Graph(ctx, 8)
    graph.expand(y)
    ggml.alloc_ctx_tensors(ctx, backend).clear()
    backend.compute(graph)
    assert not y.get().any()


def test_what_objects_are_printed_as() -> None:
    backend, ctx = ggml.Backend(), ggml.Context(4096)
    x = ctx.new_tensor(Type.F32, [4, 2])
    graph = ggml.Graph(ctx, 1)
    graph.expand(ggml.relu(ctx, x))
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    assert repr(backend) == "<ggml.Backend CPU>"
    assert repr(ggml.device("CPU")) == "<ggml.Device CPU>"
    assert repr(ggml.registry("CPU")) == "<ggml.Registry CPU>"
    assert repr(buffer) == "<ggml.Buffer CPU, 64 bytes>"
    assert repr(buffer.buffer_type) == "<ggml.BufferType CPU>"
    assert repr(x) == "<ggml.Tensor 'leaf_0' [4, 2] f32>"
    assert repr(graph) == "<ggml.Graph 1 node>"
    assert repr(ctx) == f"<ggml.Context {ctx.used_bytes} of 4096 bytes used>"
    assert repr(ggml.Sched([backend])) == "<ggml.Sched 1 backend>"
    assert repr(ggml.Threadpool(1)) == "<ggml.Threadpool 1 thread>"
    assert repr(backend.plan(graph)) == "<ggml.GraphPlan 1 node>"
    assert repr(ggml.Gallocr(backend)) == "<ggml.Gallocr 0 bytes>"
    ctx.close()
    assert repr(ctx) == "<ggml.Context (closed)>"
    assert str(ggml.device("CPU").type) == "DeviceType.CPU"
    assert f"{Type.Q8_0}, {ggml.BufferUsage.WEIGHTS}" == "Type.Q8_0, BufferUsage.WEIGHTS"


def test_threads_take_turns_on_one_backend() -> None:
    backend = ggml.Backend("cpu", 2)
    failures: list[object] = []

    def work(seed: int) -> None:
        ctx = ggml.Context(1 << 20)
        a, b = (ctx.new_tensor(Type.F32, [64, n]) for n in (32, 16))
        y = ggml.mul_mat(ctx, a, b)
        graph = ggml.Graph(ctx, 64)
        graph.expand(y)
        ggml.alloc_ctx_tensors(ctx, backend)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            left = rng.standard_normal((32, 64)).astype(np.float32)
            right = rng.standard_normal((16, 64)).astype(np.float32)
            a.set(left)
            b.set(right)
            backend.compute(graph)
            if not np.allclose(y.get(), right @ left.T, atol=1e-4):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures
