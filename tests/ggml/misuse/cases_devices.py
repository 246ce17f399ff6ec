"""Devices, registries, backends, events, plans and buffers."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import case, context, doubling, f32, graph_of

import ggml
from ggml import GgmlError, Type, UnsupportedError

# Indices and names


@case(IndexError)
def device_index_out_of_range() -> None:
    ggml.devices()[len(ggml.devices())]


@case(IndexError)
def registry_index_out_of_range() -> None:
    ggml.registries()[len(ggml.registries())]


@case(IndexError)
def device_of_registry_out_of_range() -> None:
    registry = ggml.registry("CPU")
    registry.devices[len(registry.devices)]


@case(KeyError, match="there are: CPU")
def device_of_unknown_name() -> None:
    ggml.device("no such device")


@case(KeyError)
def device_of_a_type_that_is_not_there() -> None:
    ggml.device(ggml.DeviceType.META)


@case(KeyError)
def registry_of_unknown_name() -> None:
    ggml.registry("no such registry")


# None where ggml takes a handle: NULL aborts or crashes

X = doubling()
NULLS: dict[str, Callable[[], object]] = {
    "register": lambda: ggml.register(None),  # type: ignore[arg-type]
    "register_device": lambda: ggml.register_device(None),  # type: ignore[arg-type]
    "meta_device": lambda: ggml.meta_device([None], lambda info, n: ggml.SplitAxis.MIRRORED),  # type: ignore[list-item]
    "supports_op": lambda: ggml.device("CPU").supports_op(None),  # type: ignore[arg-type]
    "offload_op": lambda: ggml.device("CPU").offload_op(None),  # type: ignore[arg-type]
    "supports_buffer_type": lambda: ggml.device("CPU").supports_buffer_type(None),  # type: ignore[arg-type]
    "alloc_size": lambda: ggml.device("CPU").buffer_type.alloc_size(None),  # type: ignore[arg-type]
    "compute": lambda: X.backend.compute(None),  # type: ignore[arg-type]
    "compute_async": lambda: X.backend.compute_async(None),  # type: ignore[arg-type]
    "plan": lambda: X.backend.plan(None),  # type: ignore[arg-type]
    "set_async": lambda: X.backend.set_async(None, np.zeros(4, np.float32)),  # type: ignore[arg-type]
    "get_async": lambda: X.backend.get_async(None),  # type: ignore[arg-type]
    "copy_async_backend": lambda: ggml.copy_async(None, X.backend, X.x, X.y),  # type: ignore[arg-type]
    "copy_async_tensor": lambda: ggml.copy_async(X.backend, X.backend, None, X.y),  # type: ignore[arg-type]
    "tensor_copy": lambda: ggml.tensor_copy(X.x, None),  # type: ignore[arg-type]
    "graph": lambda: ggml.Graph(None),  # type: ignore[arg-type]
    "expand": lambda: X.graph.expand(None),  # type: ignore[arg-type]
    "operator_context": lambda: ggml.add(None, X.x, X.y),  # type: ignore[arg-type]
    "operator_tensor": lambda: ggml.add(X.ctx, None, X.y),  # type: ignore[arg-type]
    "mul_mat_context": lambda: ggml.mul_mat(None, X.x, X.y),  # type: ignore[arg-type]
    "soft_max_ext_context": lambda: ggml.soft_max_ext(None, X.x, None, 1.0),  # type: ignore[arg-type]
    "view_context": lambda: ggml.view_1d(None, X.x, 1, 0),  # type: ignore[arg-type]
    "alloc_ctx_tensors_context": lambda: ggml.alloc_ctx_tensors(None, X.backend),  # type: ignore[arg-type]
    "alloc_ctx_tensors_where": lambda: ggml.alloc_ctx_tensors(context(), None),  # type: ignore[arg-type]
    "multi_buffer": lambda: ggml.MultiBuffer([None]),  # type: ignore[list-item]
    "place": lambda: X.buffer.place(None),  # type: ignore[arg-type]
    "gallocr": lambda: ggml.Gallocr(None),  # type: ignore[arg-type]
    "gallocr_alloc": lambda: ggml.Gallocr(X.backend).alloc_graph(None),  # type: ignore[arg-type]
    "gallocr_reserve": lambda: ggml.Gallocr(X.backend).reserve(None),  # type: ignore[arg-type]
    "sched": lambda: ggml.Sched([None]),  # type: ignore[list-item]
    "sched_alloc": lambda: ggml.Sched([X.backend]).alloc_graph(None),  # type: ignore[arg-type]
    "sched_compute": lambda: ggml.Sched([X.backend]).compute(None),  # type: ignore[arg-type]
    "sched_reserve": lambda: ggml.Sched([X.backend]).reserve(None),  # type: ignore[arg-type]
    "sched_tensor": lambda: ggml.Sched([X.backend]).set_tensor_backend(None, X.backend),  # type: ignore[arg-type]
    "sched_backend": lambda: ggml.Sched([X.backend]).set_tensor_backend(X.x, None),  # type: ignore[arg-type]
    "new_tensor": lambda: X.ctx.new_tensor(None, [4]),  # type: ignore[arg-type]
    "gguf": lambda: ggml.GgufFile(None),  # type: ignore[arg-type]
}
for key, action in NULLS.items():
    case(TypeError, name=f"null_{key}")(action)


# Events and plans


@case(UnsupportedError, match="no events")
def event_on_the_cpu() -> None:
    ggml.device("CPU").event()


@case(UnsupportedError, match="no events")
def event_on_a_meta_device() -> None:
    cpu = ggml.device("CPU")
    ggml.meta_device([cpu, cpu], lambda info, n: ggml.SplitAxis.MIRRORED).event()


@case(UnsupportedError, match="no graph plans")
def plan_on_a_meta_device() -> None:
    cpu = ggml.device("CPU")
    meta = ggml.Backend(ggml.meta_device([cpu, cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
    ctx = context()
    graph = graph_of(ctx, ggml.relu(ctx, f32(ctx, 4)))
    ggml.alloc_ctx_tensors(ctx, meta)
    meta.plan(graph)


@case(match="has no memory")
def plan_of_a_graph_without_memory() -> None:
    ctx = context()
    ggml.Backend().plan(graph_of(ctx, ggml.relu(ctx, f32(ctx, 4))))


@case(match="context was reset or closed")
def plan_whose_context_is_closed() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.ctx.close()
    plan.compute()


@case(match="was reset or closed")
def plan_whose_context_is_reset() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.ctx.reset()
    plan.compute()


@case(match="no memory")
def plan_whose_buffer_is_closed() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.buffer.close()
    plan.compute()


@case(match="was closed")
def plan_closed_twice() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    plan.close()
    plan.close()
    plan.compute()


@case(match="was closed")
def plan_of_a_closed_backend() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.backend.close()
    plan.compute()


@case(match="has grown")
def plan_of_a_graph_that_grew() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.graph.expand(d.ctx.new_tensor(Type.F32, [4]))
    z = ggml.relu(d.ctx, d.y)
    d.graph.expand(z)
    plan.compute()


@case(match="threads were changed")
def plan_with_other_threads() -> None:
    d = doubling()
    plan = d.backend.plan(d.graph)
    d.backend.set_n_threads(2)
    plan.compute()


@case(match="threads were changed")
def plan_with_another_thread_pool() -> None:
    d = doubling()
    d.backend.set_threadpool(ggml.Threadpool(2))
    plan = d.backend.plan(d.graph)
    d.backend.set_threadpool(ggml.Threadpool(2))  # the first is gone, and the plan would compute on it
    plan.compute()


# Computing


@case(match="has no memory")
def compute_without_memory() -> None:
    ctx = context()
    ggml.Backend().compute(graph_of(ctx, ggml.relu(ctx, f32(ctx, 4))))


@case(match="has no memory")
def compute_async_without_memory() -> None:
    ctx = context()
    ggml.Backend().compute_async(graph_of(ctx, ggml.relu(ctx, f32(ctx, 4))))


@case(match="has no memory")
def compute_over_a_closed_buffer() -> None:
    d = doubling()
    d.buffer.close()
    d.backend.compute(d.graph)


@case(match="was reset or closed")
def compute_over_a_closed_context() -> None:
    d = doubling()
    d.ctx.close()
    d.backend.compute(d.graph)


@case(match="was closed")
def compute_on_a_closed_backend() -> None:
    d = doubling()
    d.backend.close()
    d.backend.compute(d.graph)


@case(match="cannot compute|cannot multiply")
def operator_that_the_device_does_not_support() -> None:
    ctx = context()
    y = ggml.mul_mat(ctx, ctx.new_tensor(Type.Q4_0, [32, 4]), ctx.new_tensor(Type.F16, [32, 4]))
    backend = ggml.Backend()
    ggml.alloc_ctx_tensors(ctx, backend)
    backend.compute(graph_of(ctx, y))


def slow_graph() -> tuple[ggml.Backend, ggml.Context, ggml.Graph, ggml.Buffer]:
    """Something that computes for a few seconds unless it is cancelled."""
    backend = ggml.Backend("CPU", 2)
    ctx = context()
    y = a = f32(ctx, 512, 512)
    for _ in range(400):
        y = ggml.mul_mat(ctx, a, y)
    graph = ggml.Graph(ctx, 512)
    graph.expand(y)
    return backend, ctx, graph, ggml.alloc_ctx_tensors(ctx, backend)


def meanwhile(
    backend: ggml.Backend, graph: ggml.Graph, action: Callable[[], object], wait_after: bool = True
) -> None:
    """Does something while another thread computes, then stops that."""
    stop, started = threading.Event(), threading.Event()

    class Cancel:
        def is_set(self) -> bool:
            started.set()
            return stop.is_set()

    def compute() -> None:
        with contextlib.suppress(ggml.Cancelled):
            backend.compute(graph, Cancel())

    thread = threading.Thread(target=compute)
    thread.start()
    started.wait(20)
    timer = threading.Timer(0.3, stop.set)  # where the action waits for the computation
    timer.start()
    try:
        action()
    finally:
        stop.set()
        thread.join(60)
        timer.join()


@case(match="being computed")
def buffer_closed_while_it_is_computed_in() -> None:
    backend, _, graph, buffer = slow_graph()
    meanwhile(backend, graph, buffer.close)


@case(match="being computed")
def context_closed_while_it_is_computed() -> None:
    backend, ctx, graph, _ = slow_graph()
    meanwhile(backend, graph, ctx.close)


@case(match="being computed")
def context_reset_while_it_is_computed() -> None:
    backend, ctx, graph, _ = slow_graph()
    meanwhile(backend, graph, ctx.reset)


@case(match="being computed")
def graph_grown_while_it_is_computed() -> None:
    backend, ctx, graph, _ = slow_graph()
    other = f32(ctx, 4)
    meanwhile(backend, graph, lambda: graph.expand(other))


@case(match="being computed")
def allocator_used_while_its_graph_is_computed() -> None:
    backend, _, graph, buffer = slow_graph()
    buffer.close()
    allocator = ggml.Gallocr(backend)
    allocator.alloc_graph(graph)
    other = context()
    another = graph_of(other, ggml.relu(other, f32(other, 1 << 22)))
    meanwhile(backend, graph, lambda: allocator.alloc_graph(another))


@case(match="being computed")
def allocator_closed_while_its_graph_is_computed() -> None:
    backend, _, graph, buffer = slow_graph()
    buffer.close()
    allocator = ggml.Gallocr(backend)
    allocator.alloc_graph(graph)
    meanwhile(backend, graph, allocator.close)


@case(match="being computed")
def weights_closed_while_a_graph_reads_them() -> None:
    backend = ggml.Backend("CPU", 2)
    weights, ctx = context(), context()
    y = a = f32(weights, 512, 512)
    for _ in range(400):
        y = ggml.mul_mat(ctx, a, y)
    graph = ggml.Graph(ctx, 512)
    graph.expand(y)
    buffer = ggml.alloc_ctx_tensors(weights, backend)
    ggml.alloc_ctx_tensors(ctx, backend)
    meanwhile(backend, graph, buffer.close)


@case(match="was closed")
def backend_closed_while_it_computes() -> None:
    # close() waits for the computation that is under way.
    backend, _, graph, _ = slow_graph()
    meanwhile(backend, graph, backend.close)
    backend.synchronize()


@case(match="computing on this thread")
def compute_from_within_a_computation() -> None:
    backend, _, graph, _ = slow_graph()

    class Cancel:
        def is_set(self) -> bool:
            backend.compute(graph)
            return False

    backend.compute(graph, Cancel())


@case(match="computing on this thread")
def synchronize_from_within_a_computation() -> None:
    backend, _, graph, _ = slow_graph()

    class Cancel:
        def is_set(self) -> bool:
            backend.synchronize()
            return False

    backend.compute(graph, Cancel())


@case(match="computing on this thread")
def close_from_within_a_computation() -> None:
    backend, _, graph, _ = slow_graph()

    class Cancel:
        def is_set(self) -> bool:
            backend.close()
            return False

    backend.compute(graph, Cancel())


@case(ZeroDivisionError)
def cancel_that_raises() -> None:
    backend, _, graph, _ = slow_graph()

    class Cancel:
        def is_set(self) -> bool:
            raise ZeroDivisionError

    backend.compute(graph, Cancel())


# Thread pools


@case(match="512 threads")
def thread_pool_of_too_many_threads() -> None:
    ggml.Threadpool(100_000)


@case(TypeError)
def thread_pool_that_is_none_of_one() -> None:
    X.backend.set_threadpool(1)  # type: ignore[arg-type]


@case(UnsupportedError, match="thread pool")
def thread_pool_of_a_meta_backend() -> None:
    cpu = ggml.device("CPU")
    meta = ggml.Backend(ggml.meta_device([cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
    meta.set_threadpool(ggml.Threadpool(2))


# Buffers


@case(match="was closed")
def buffer_closed_twice() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    buffer.close()
    buffer.close()
    buffer.clear(0)


@case(ValueError, match="no such buffer usage: 7")
def buffer_usage_that_is_none() -> None:
    ggml.Backend().alloc_buffer(64).usage = 7


@case(ValueError, match="no such buffer usage")
def buffer_usage_below_zero() -> None:
    ggml.Backend().alloc_buffer(64).usage = -1


@case(ValueError, match="a byte")
def buffer_cleared_with_more_than_a_byte() -> None:
    ggml.Backend().alloc_buffer(64).clear(256)


@case(match="memory")
def buffer_larger_than_any_memory() -> None:
    ggml.Backend().alloc_buffer(1 << 62)


@case(match="memory")
def buffer_of_the_largest_size() -> None:
    ggml.Backend().alloc_buffer((1 << 64) - 1)


@case(TypeError)
def buffer_of_negative_size() -> None:
    ggml.Backend().alloc_buffer(-1)


@case(match="has memory already")
def tensor_placed_twice() -> None:
    d = doubling()
    d.backend.alloc_buffer(64).place(d.x)


@case(match="needs")
def tensor_placed_past_the_end() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(64).place(f32(ctx, 64))


@case(match="at offset")
def tensor_placed_at_an_offset_that_wraps() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(64).place(f32(ctx, 4), (1 << 64) - 32)


@case(match="multiple")
def tensor_placed_unaligned() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(4096).place(f32(ctx, 4), 3)


@case(match="is a view")
def view_placed() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(4096).place(ggml.view_1d(ctx, f32(ctx, 4), 2, 0))


@case(match="needs")
def tensor_placed_in_an_empty_buffer() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(0).place(f32(ctx, 4))


@case(match="no memory")
def tensor_of_a_closed_buffer() -> None:
    d = doubling()
    d.buffer.close()
    d.x.get()


@case(match="let go of them first")
def buffer_closed_under_an_array() -> None:
    d = doubling()
    view = d.x.numpy()
    try:
        d.buffer.close()
    finally:
        assert view[1] == 1


# Multi-buffers


@case(ValueError, match="at least one")
def multi_buffer_of_none() -> None:
    ggml.MultiBuffer([])


@case(ValueError, match="twice")
def multi_buffer_of_duplicates() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    ggml.MultiBuffer([buffer, buffer])


@case(ValueError, GgmlError, match="closed")
def multi_buffer_of_a_closed_one() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    buffer.close()
    ggml.MultiBuffer([buffer])


@case(ValueError, GgmlError, match="taken over")
def multi_buffer_of_one_that_is_taken() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    kept = ggml.MultiBuffer([buffer])
    try:
        ggml.MultiBuffer([buffer])
    finally:
        assert kept.size == 64


@case(ValueError, match="cannot be made of multi")
def multi_buffer_of_a_multi_buffer() -> None:
    ggml.MultiBuffer([ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)])])


@case(ValueError, match="meta buffers")
def multi_buffer_of_a_meta_buffer() -> None:
    cpu = ggml.device("CPU")
    meta = ggml.Backend(ggml.meta_device([cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
    ctx = context()
    f32(ctx, 4)
    ggml.MultiBuffer([ggml.alloc_ctx_tensors(ctx, meta)])


@case(match="taken over")
def child_of_a_multi_buffer_used() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    kept = ggml.MultiBuffer([buffer])
    try:
        buffer.clear(0)
    finally:
        kept.close()


@case(match="taken over")
def child_of_a_multi_buffer_closed() -> None:
    backend = ggml.Backend()
    children = [backend.alloc_buffer(64), backend.alloc_buffer(64)]
    multi = ggml.MultiBuffer(children)
    for child in children:
        child.close()
    multi.clear(1)
    multi.close()
    multi.close()
    for child in children:
        child.close()
    children[0].clear(0)


@case(UnsupportedError, match="several buffers")
def tensor_placed_in_a_multi_buffer() -> None:
    ctx = context()
    ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).place(f32(ctx, 4))


@case(match="no memory")
def tensor_of_a_closed_multi_buffer() -> None:
    d = doubling()
    ggml.MultiBuffer([d.buffer]).close()
    d.x.get()


@case(ValueError, match="no such buffer usage")
def multi_buffer_usage_that_is_none() -> None:
    ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).usage = 3


@case(match="no address")
def address_of_a_multi_buffer() -> None:
    base = ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).base
    raise GgmlError(f"no address: {base}") if base is None else AssertionError(base)


# Loading and unloading


@case(match="no such file")
def library_that_is_missing() -> None:
    ggml.load_backend("/no/such/libggml-nothing.so")


@case(match="cannot load a ggml backend")
def library_that_is_none() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "libggml-none.so")
        path.write_bytes(b"no library")
        ggml.load_backend(path)


@case(match="cannot load a ggml backend")
def library_that_cannot_be_loaded() -> None:
    import libggml

    found = next(Path(libggml.__path__[0]).rglob("libggml-cpu.so"))
    ggml.load_backend(found)


@case(match="no folder")
def folder_that_is_missing() -> None:
    ggml.load_all_backends("/no/such/folder")


@case(match="in use")
def registry_unloaded_while_a_backend_lives() -> None:
    backend = ggml.Backend()
    try:
        ggml.registry("CPU").unload()
    finally:
        backend.synchronize()


@case(match="in use")
def registry_unloaded_while_a_buffer_lives() -> None:
    buffer = ggml.device("CPU").buffer_type.alloc_buffer(64)
    try:
        ggml.registry("CPU").unload()
    finally:
        buffer.clear(0)


@case(match="not registered")
def registry_unloaded_twice() -> None:
    import subprocess
    import sys

    script = (
        "import ggml\n"
        "registry = ggml.registry('CPU')\n"
        "registry.unload()\n"
        "assert ggml.devices() == ()\n"
        "try:\n    registry.unload()\n"
        "except ggml.GgmlError as error:\n    print(error)\n"
        "try:\n    ggml.best_backend()\n"
        "except KeyError:\n    ggml.register(registry)\n"
        "ggml.best_backend()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    raise GgmlError(done.stdout)
