"""Handles whose object is closed: contexts, allocators, and every other class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import case, context, doubling, f32, graph_of

import ggml


@case(match="was reset or closed")
def tensor_of_a_closed_context() -> None:
    ctx = context()
    x = f32(ctx, 4)
    ctx.close()
    ctx.close()
    x.get()


@case(match="was closed")
def tensor_in_a_closed_context() -> None:
    ctx = context()
    ctx.close()
    f32(ctx, 4)


@case(match="was closed")
def graph_in_a_closed_context() -> None:
    ctx = context()
    ctx.close()
    ggml.Graph(ctx)


@case(match="closed")
def graph_of_a_closed_context() -> None:
    d = doubling()
    d.ctx.close()
    d.graph.expand(d.y)


@case(match="was closed")
def closed_allocator() -> None:
    d = doubling()
    allocator = ggml.Gallocr(d.backend)
    allocator.close()
    allocator.close()
    allocator.alloc_graph(d.graph)


@case(match="since allocated|no memory")
def tensor_of_a_closed_allocator() -> None:
    backend = ggml.Backend()
    ctx = context()
    y = ggml.relu(ctx, f32(ctx, 4))
    allocator = ggml.Gallocr(backend)
    allocator.alloc_graph(graph_of(ctx, y))
    allocator.close()
    y.get()


CLOSED: dict[str, Callable[[], object]] = {
    "backend": lambda: closed(ggml.Backend()).synchronize(),
    "backend_name": lambda: closed(ggml.Backend()).name,
    "backend_alloc": lambda: closed(ggml.Backend()).alloc_buffer(1),
    "backend_threads": lambda: closed(ggml.Backend()).set_n_threads(2),
    "backend_set_async": lambda: closed(ggml.Backend()).set_async(doubling().x, np.zeros(4, np.float32)),
    "backend_gallocr": lambda: ggml.Gallocr(closed(ggml.Backend())),
    "backend_sched": lambda: ggml.Sched([closed(ggml.Backend())]),
    "buffer_clear": lambda: closed(ggml.Backend().alloc_buffer(8)).clear(),
    "buffer_base": lambda: closed(ggml.Backend().alloc_buffer(8)).base,
    "buffer_usage": lambda: closed(ggml.Backend().alloc_buffer(8)).usage,
    "buffer_reset": lambda: closed(ggml.Backend().alloc_buffer(8)).reset(),
    "buffer_type": lambda: closed(ggml.Backend().alloc_buffer(8)).buffer_type,
    "context_tensors": lambda: closed(context()).tensors(),
    "context_reset": lambda: closed(context()).reset(),
    "context_bytes": lambda: closed(context()).free_bytes,
    "gallocr_size": lambda: closed(ggml.Gallocr(ggml.Backend())).buffer_size,
    "gallocr_reserve": lambda: closed(ggml.Gallocr(ggml.Backend())).reserve(doubling().graph),
    "multi_buffer": lambda: closed(ggml.MultiBuffer([ggml.Backend().alloc_buffer(8)])).clear(),
    "plan": lambda: closed(plan()).compute(),
    "sched_alloc": lambda: closed(ggml.Sched([ggml.Backend()])).alloc_graph(doubling().graph),
    "sched_compute": lambda: closed(ggml.Sched([ggml.Backend()])).compute(doubling().graph),
    "sched_reset": lambda: closed(ggml.Sched([ggml.Backend()])).reset(),
    "sched_splits": lambda: closed(ggml.Sched([ggml.Backend()])).n_splits,
    "sched_synchronize": lambda: closed(ggml.Sched([ggml.Backend()])).synchronize(),
}


def closed(handle):  # type: ignore[no-untyped-def]
    with handle as entered:
        assert entered is handle
    handle.close()
    assert handle.closed
    return handle


def plan() -> ggml.GraphPlan:
    d = doubling()
    return d.backend.plan(d.graph)


for key, action in CLOSED.items():
    case(match="closed", name=f"closed_{key}")(action)
