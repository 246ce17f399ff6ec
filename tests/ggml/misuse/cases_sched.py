"""The scheduler."""

from __future__ import annotations

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
