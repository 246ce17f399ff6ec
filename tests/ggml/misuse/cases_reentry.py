"""Things that are used again while ggml is at work on them: by a split function, or by another thread."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import case, context, doubling, f32, graph_of, meanwhile, slow_graph

import ggml
from ggml import GgmlError, SplitAxis, SplitInfo, Type

CPU = ggml.device("CPU")


class OnMeta:
    """A product on a meta device of two CPUs, whose split function does something once it is armed."""

    def __init__(self) -> None:
        self.action: Callable[[], object] | None = None

        def split(info: SplitInfo, n: int) -> SplitAxis:
            if self.action is not None:
                self.action()
            return SplitAxis.MIRRORED

        self.backend = ggml.Backend(ggml.meta_device([CPU, CPU], split))
        self.weights, self.ctx = context(), context()
        self.w = f32(self.weights, 8, 8)
        self.buffer = ggml.alloc_ctx_tensors(self.weights, self.backend)
        self.x = f32(self.ctx, 8, 4)
        self.graph = graph_of(self.ctx, ggml.mul_mat(self.ctx, self.w, self.x))
        self.allocator = ggml.Gallocr(self.backend)
        self.allocator.reserve(self.graph)

    def write(self) -> None:
        self.w.set(np.ones((8, 8), np.float32))


def reentering(action: Callable[[OnMeta], object], begin: Callable[[OnMeta], object]) -> None:
    made = OnMeta()
    made.action = lambda: action(made)
    try:
        begin(made)
    finally:  # everything is as it was
        made.action = None
        made.allocator.alloc_graph(made.graph)
        made.write()
        made.x.set(np.ones((4, 8), np.float32))
        made.backend.compute(made.graph)
        made.backend.synchronize()


def close_context(made: OnMeta) -> None:
    made.weights.close()


WHILE_WRITING: dict[str, Callable[[OnMeta], object]] = {
    "close_buffer": lambda made: made.buffer.close(),
    "close_context": close_context,
    "reset_context": lambda made: made.weights.reset(),
    "clear": lambda made: made.buffer.reset(),
    "write_again": OnMeta.write,
    "read": lambda made: made.w.get(),
    "multi_buffer": lambda made: ggml.MultiBuffer([made.buffer]),
}
for key, action in WHILE_WRITING.items():
    case(GgmlError, ValueError, name=f"split_function_while_writing_{key}")(
        lambda action=action: reentering(action, OnMeta.write)
    )

WHILE_ALLOCATING: dict[str, Callable[[OnMeta], object]] = {
    "close_allocator": lambda made: made.allocator.close(),
    "close_context": lambda made: made.ctx.close(),
    "close_weights": lambda made: made.buffer.close(),
    "new_tensor": lambda made: f32(made.ctx, 4),
    "new_operator": lambda made: ggml.relu(made.ctx, made.x),
    "new_graph": lambda made: graph_of(made.ctx, made.x),
    "expand": lambda made: made.graph.expand(made.x),
    "allocate": lambda made: made.allocator.alloc_graph(made.graph),
    "reserve": lambda made: made.allocator.reserve(made.graph),
    "allocate_context": lambda made: ggml.alloc_ctx_tensors(made.ctx, made.backend),
}
for key, action in WHILE_ALLOCATING.items():
    case(GgmlError, name=f"split_function_while_allocating_{key}")(
        lambda action=action: reentering(action, lambda made: made.allocator.alloc_graph(made.graph))
    )


@case(match="being given memory")
def split_function_that_allocates_what_it_is_asked_about() -> None:
    ctx = context()
    f32(ctx, 8)
    armed: list[ggml.Backend] = []

    def split(info: SplitInfo, n: int) -> SplitAxis:
        ggml.alloc_ctx_tensors(ctx, armed[0])
        return SplitAxis.MIRRORED

    armed.append(ggml.Backend(ggml.meta_device([CPU, CPU], split)))
    ggml.alloc_ctx_tensors(ctx, armed[0])


@case(match="cannot itself work on tensors of a meta device")
def split_function_that_reads_what_it_is_asked_about() -> None:
    made = OnMeta()
    made.action = made.w.get
    made.w.get()


def while_computing(action: Callable[[ggml.Context, ggml.Tensor, ggml.Buffer], object]) -> None:
    """A graph that looks up indices, and something that is done from within its computation."""
    backend = ggml.Backend("CPU", 2)
    ctx = context()
    table, ids, a = f32(ctx, 8, 16), ctx.new_tensor(Type.I32, [4]), f32(ctx, 256, 256)
    y = a
    for _ in range(40):
        y = ggml.mul_mat(ctx, a, y)
    graph = graph_of(ctx, y, ggml.get_rows(ctx, table, ids))
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    buffer.clear()

    class Cancel:
        def is_set(self) -> bool:
            action(ctx, ids, buffer)
            return False

    backend.compute(graph, Cancel())


BAD = np.array([0, 1 << 30, -5, 99], np.int32)


@case(match="being computed")
def indices_changed_while_they_are_looked_up() -> None:
    while_computing(lambda ctx, ids, buffer: ids.set(BAD))


@case(match="being computed")
def indices_changed_through_a_view_of_another_context() -> None:
    def change(ctx: ggml.Context, ids: ggml.Tensor, buffer: ggml.Buffer) -> None:
        views.append(ggml.view_1d(other, ids, 4, 0))
        ggml.Gallocr(ggml.Backend()).alloc_graph(graph_of(other, views[-1]))
        views[-1].set(BAD)

    other = context()
    views: list[ggml.Tensor] = []
    while_computing(change)


@case(match="being computed")
def indices_cleared_while_they_are_looked_up() -> None:
    while_computing(lambda ctx, ids, buffer: buffer.clear(255))


@case(match="being computed")
def indices_copied_over_while_they_are_looked_up() -> None:
    other = context()
    bad = other.new_tensor(Type.I32, [4])
    ggml.alloc_ctx_tensors(other, ggml.Backend())
    bad.set(BAD)
    while_computing(lambda ctx, ids, buffer: ggml.tensor_copy(bad, ids))


@case(match="being computed")
def buffer_taken_over_while_it_is_computed_in() -> None:
    while_computing(lambda ctx, ids, buffer: ggml.MultiBuffer([buffer]))


@case(match="the context is full")
def operators_made_in_a_context_that_is_computed() -> None:
    # Allowed, until the context is full: what is computed does not change.
    other = context()
    x = f32(other, 4)
    ggml.alloc_ctx_tensors(other, ggml.Backend())

    def make(ctx: ggml.Context, ids: ggml.Tensor, buffer: ggml.Buffer) -> None:
        while True:
            ggml.relu(ctx, x)

    while_computing(make)


def waiting(action: Callable[[ggml.Backend, ggml.Tensor], object]) -> None:
    """An asynchronous copy that waits for a busy backend while the buffer of its tensor is closed."""
    backend = ggml.Backend()
    ctx, other = context(), context()
    a = f32(ctx, 512, 512)
    y = a
    for _ in range(60):
        y = ggml.mul_mat(ctx, a, y)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend).clear()
    x = f32(other, 1 << 20)
    buffer = ggml.alloc_ctx_tensors(other, backend)
    errors: list[GgmlError] = []
    started = threading.Event()

    class Cancel:
        def is_set(self) -> bool:
            started.set()
            return False

    def copy() -> None:
        try:
            action(backend, x)
        except GgmlError as error:
            errors.append(error)

    computing = threading.Thread(target=backend.compute, args=(graph, Cancel()))
    computing.start()
    started.wait(20)
    copying = threading.Thread(target=copy)
    copying.start()
    copying.join(0.1)
    buffer.close()
    computing.join()
    copying.join()
    raise errors[0] if errors else AssertionError("the copy was over before the buffer was closed")


@case(match="no memory")
def buffer_closed_while_set_async_waits() -> None:
    waiting(lambda backend, x: backend.set_async(x, np.ones(1 << 20, np.float32)))


@case(match="no memory")
def buffer_closed_while_get_async_waits() -> None:
    waiting(lambda backend, x: backend.get_async(x))


@case(match="no memory")
def buffer_closed_while_copy_async_waits() -> None:
    waiting(lambda backend, x: ggml.copy_async(backend, backend, x, x))


@case(match="being computed|another graph")
def operators_made_while_another_thread_computes() -> None:
    ctx, weights = ggml.Context(1 << 24), context()
    backend = ggml.Backend()
    w = f32(weights, 64)
    ggml.alloc_ctx_tensors(weights, backend)
    y = ggml.relu(ctx, w)
    for _ in range(50):
        y = ggml.relu(ctx, y)
    graph = graph_of(ctx, y)
    allocator = ggml.Gallocr(backend)
    allocator.alloc_graph(graph)
    done = threading.Event()

    def compute() -> None:
        while not done.is_set():
            backend.compute(graph)

    thread = threading.Thread(target=compute)
    thread.start()
    kept = []
    for _ in range(3000):
        other = ggml.Context(4096)
        v = f32(other, 64)
        kept.append((other, ggml.add(ctx, w, v)))
    done.set()
    thread.join()
    small = context()
    allocator.alloc_graph(graph_of(small, ggml.relu(small, w)))
    with contextlib.suppress(ZeroDivisionError):
        backend.compute(graph)


@case(match="computing on this thread")
def shared_threads_used_from_within_a_computation() -> None:
    backend, _, graph, _ = slow_graph()
    pool = ggml.Threadpool(2)
    other = doubling()
    for user in (backend, other.backend):
        user.set_threadpool(pool)

    class Cancel:
        def is_set(self) -> bool:
            other.backend.compute(other.graph)
            return False

    backend.compute(graph, Cancel())


@case(match="it cannot wait for the other")
def two_computations_that_wait_for_each_other() -> None:
    both = threading.Barrier(2)
    errors: list[BaseException] = []
    works = [slow_graph(), slow_graph()]

    def compute(index: int) -> None:
        backend, other = works[index][0], works[1 - index][0]

        class Cancel:
            asked = 0

            def is_set(self) -> bool:
                self.asked += 1
                if self.asked == 1:
                    both.wait(20)
                    other.synchronize()
                return True

        try:
            backend.compute(works[index][2], Cancel())
        except (ggml.Cancelled, GgmlError) as error:
            errors.append(error)

    threads = [threading.Thread(target=compute, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raise next(error for error in errors if not isinstance(error, ggml.Cancelled))


@case(ggml.Cancelled)
def cancelled_while_it_waits() -> None:
    backend, _, graph, _ = slow_graph()
    other = doubling()
    other_graph = other.graph
    stop = threading.Event()
    stop.set()
    meanwhile(backend, graph, lambda: backend.compute(other_graph, stop))


@case(match="being computed")
def sinks_added_while_it_is_computed() -> None:
    backend = ggml.Backend()
    ctx, sinks = context(), context()
    scores = ggml.soft_max_ext(ctx, f32(ctx, 64, 64, 4), None, 1.0, 0.0)
    values = f32(sinks, 4)
    y = scores
    for _ in range(50):
        y = ggml.soft_max(ctx, y)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    ggml.alloc_ctx_tensors(sinks, backend)

    class Cancel:
        def is_set(self) -> bool:
            ggml.soft_max_add_sinks(scores, values)
            return False

    backend.compute(graph, Cancel())


@case(match="no memory|reset or closed")
def context_closed_while_numpy_converts_what_is_set() -> None:
    ctx = context()
    x = f32(ctx, 2048, 1024)
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    values = np.ones((2048, 1024), np.float32).T  # to be copied, which NumPy does without the GIL
    thread = threading.Timer(0.002, ctx.close)
    thread.start()
    for _ in range(200):
        x.set(values)


@case(match="in use")
def buffer_closed_while_a_writer_reads_it() -> None:
    ctx = context()
    x = f32(ctx, 1 << 24)
    buffer = ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    writer = ggml.GgufWriter()
    writer.add_tensor(x, "x")
    done = threading.Event()
    refused: list[GgmlError] = []

    def close() -> None:
        while not done.is_set() and not refused:
            if writing.is_set():
                try:
                    buffer.close()
                    return
                except GgmlError as error:
                    refused.append(error)

    writing = threading.Event()
    thread = threading.Thread(target=close)
    thread.start()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(20):
            writing.set()
            try:
                writer.write(Path(folder) / "x.gguf")
            except GgmlError as error:  # closed between two parts
                refused.append(GgmlError(f"in use, or {error}"))
                break
    done.set()
    thread.join()
    raise refused[0]


@case(match="backend was closed")
def member_of_a_scheduler_closed_while_it_waits() -> None:
    first, second = ggml.Backend(), ggml.Backend()
    busy, _, graph, _ = slow_graph()
    d = doubling()
    other = context()
    sched = ggml.Sched([busy, second, first])
    doubled = graph_of(other, ggml.relu(other, f32(other, 4)))
    sched.alloc_graph(doubled)
    errors: list[GgmlError] = []

    def compute() -> None:
        try:
            sched.compute(doubled)
        except GgmlError as error:
            errors.append(error)

    def close_one() -> None:
        waiting = threading.Thread(target=compute)
        waiting.start()
        waiting.join(0.05)
        second.close()
        threads.append(waiting)

    threads: list[threading.Thread] = []
    meanwhile(busy, graph, close_one)
    threads[0].join()
    # What it left behind would stop this, or worse.
    d.backend.compute(d.graph)
    small = context()
    again = graph_of(small, ggml.relu(small, f32(small, 4)))
    ggml.alloc_ctx_tensors(small, busy)
    busy.compute(again)
    busy.compute_async(again)
    # Which of the two had the backend first is not certain.
    raise errors[0] if errors else GgmlError("backend was closed after the computation")
