"""The scheduler."""

from __future__ import annotations

import contextlib
import threading

from harness import case, context, doubling, f32, graph_of

import ggml


@case(ValueError, match="1 to 16")
def sched_of_no_backends() -> None:
    ggml.Sched([])


@case(ValueError, match="twice")
def sched_of_one_backend_twice() -> None:
    backend = ggml.Backend()
    ggml.Sched([backend, backend])


@case(ValueError, match="1 to 16")
def sched_of_17_backends() -> None:
    ggml.Sched([ggml.Backend() for _ in range(17)])


@case(ValueError, match="not one of the scheduler's")
def sched_given_a_strange_backend() -> None:
    ggml.Sched([ggml.Backend()]).set_tensor_backend(doubling().x, ggml.Backend())


@case(match="nodes")
def sched_of_too_small_a_graph_size() -> None:
    backend = ggml.Backend()
    ctx = context()
    y = f32(ctx, 4)
    for _ in range(30):
        y = ggml.relu(ctx, y)
    ggml.Sched([backend], graph_size=4).alloc_graph(graph_of(ctx, y))


@case(match="nodes and leaves")
def sched_of_too_small_a_graph_size_for_the_leaves() -> None:
    ctx = context()
    y = ggml.add(ctx, f32(ctx, 4), f32(ctx, 4))
    ggml.Sched([ggml.Backend()], graph_size=2).alloc_graph(graph_of(ctx, y))


@case(match="1 to 16777216 nodes")
def sched_of_too_large_a_graph_size() -> None:
    ggml.Sched([ggml.Backend()], graph_size=1 << 40)


@case(match="more tensors are told about")
def sched_told_about_too_many_tensors() -> None:
    backend = ggml.Backend()
    sched = ggml.Sched([backend], graph_size=2)
    ctx = context()
    for _ in range(3):
        sched.set_tensor_backend(f32(ctx, 4), backend)


@case(match="was closed")
def sched_closed_after_the_context_of_its_graph() -> None:
    ctx = context()
    graph = graph_of(ctx, ggml.relu(ctx, f32(ctx, 4)))
    sched = ggml.Sched([ggml.Backend()])
    sched.compute(graph)
    ctx.close()
    sched.close()
    assert sched.closed
    sched.synchronize()


@case(match="was reset or closed")
def sched_dropped_after_the_context_of_its_graph_was_reset() -> None:
    ctx = context()
    y = ggml.relu(ctx, f32(ctx, 4))
    sched = ggml.Sched([ggml.Backend()])
    sched.compute(graph_of(ctx, y))
    ctx.reset()
    del sched
    y.get()


@case(match="scheduler was closed")
def sched_closed_while_another_thread_waits_on_it() -> None:
    backend = ggml.Backend()
    scheds = [ggml.Sched([backend])]
    done = threading.Event()

    def wait() -> None:
        while not done.is_set():
            with contextlib.suppress(ggml.GgmlError):
                scheds[0].synchronize()

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(500):
        scheds[0].close()
        scheds[0] = ggml.Sched([backend], graph_size=4)
    done.set()
    for thread in threads:
        thread.join()
    scheds[0].close()
    scheds[0].synchronize()


@case(match="split by a scheduler")
def sched_graph_used_again() -> None:
    backend = ggml.Backend()
    ctx = context()
    graph = graph_of(ctx, ggml.relu(ctx, f32(ctx, 4)))
    sched = ggml.Sched([backend])
    sched.compute(graph)
    sched.reset()
    sched.compute(graph)


@case(match="no memory|another graph")
def sched_result_after_reset() -> None:
    backend = ggml.Backend()
    ctx = context()
    y = ggml.relu(ctx, f32(ctx, 4))
    sched = ggml.Sched([backend])
    sched.compute(graph_of(ctx, y))
    sched.reset()
    y.get()


@case(match="another context has no memory")
def sched_over_a_strange_tensor() -> None:
    ctx, other = context(), context()
    ggml.Sched([ggml.Backend()]).alloc_graph(graph_of(ctx, ggml.relu(ctx, f32(other, 4))))


@case(match="was closed")
def sched_over_a_closed_backend() -> None:
    backend = ggml.Backend()
    sched = ggml.Sched([backend])
    backend.close()
    ctx = context()
    sched.compute(graph_of(ctx, ggml.relu(ctx, f32(ctx, 4))))
