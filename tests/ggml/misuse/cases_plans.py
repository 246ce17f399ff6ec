"""Events, graph plans and thread pools."""

from __future__ import annotations

from harness import case, context, doubling, f32, graph_of

import ggml
from ggml import Type, UnsupportedError

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
    ggml.Gallocr(meta).alloc_graph(graph)
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


# Thread pools


@case(match="512 threads")
def thread_pool_of_too_many_threads() -> None:
    ggml.Threadpool(100_000)


@case(TypeError)
def thread_pool_that_is_none_of_one() -> None:
    doubling().backend.set_threadpool(1)  # type: ignore[arg-type]


@case(UnsupportedError, match="thread pool")
def thread_pool_of_a_meta_backend() -> None:
    cpu = ggml.device("CPU")
    meta = ggml.Backend(ggml.meta_device([cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
    meta.set_threadpool(ggml.Threadpool(2))
