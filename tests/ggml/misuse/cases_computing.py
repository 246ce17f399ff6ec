"""Computing: without memory, on what is closed, while something else computes, cancelled."""

from __future__ import annotations

from harness import case, context, doubling, f32, graph_of, meanwhile, slow_graph

import ggml
from ggml import Type


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
