"""More memory than there is, and the same allocator afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import case, context, f32, graph_of

import ggml
from ggml import GgmlError, SplitAxis

CPU = ggml.device("CPU")
SIZES = (500, 1 << 40, 1000, 1 << 40, 2000)  # of float32, the second is 4 TB


def doubled(n: int) -> tuple[ggml.Tensor, ggml.Tensor, ggml.Graph]:
    ctx = context(1 << 18)
    x = f32(ctx, n)
    x.set_input()
    y = ggml.add(ctx, x, x)
    y.set_output()
    return x, y, graph_of(ctx, y)


def each_size(backend: ggml.Backend, allocate: Callable[[ggml.Graph], object]) -> None:
    """Doubles what there is memory for, and raises what was raised for the rest."""
    refused: list[GgmlError] = []
    for n in SIZES:
        x, y, graph = doubled(n)
        try:
            allocate(graph)
        except GgmlError as error:
            refused.append(error)
            continue
        x.set(np.ones(n, np.float32))
        backend.compute(graph)
        assert (y.get() == 2).all()
    assert len(refused) == SIZES.count(1 << 40)
    raise refused[0]


@case(match="out of memory")
def graph_allocator_without_memory() -> None:
    backend = ggml.Backend()
    each_size(backend, ggml.Gallocr(backend).alloc_graph)


@case(match="out of memory")
def graph_allocator_without_memory_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], lambda info, n: SplitAxis.MIRRORED))
    each_size(backend, ggml.Gallocr(backend).alloc_graph)


@case(match="out of memory")
def graph_allocator_that_cannot_reserve() -> None:
    backend = ggml.Backend()
    allocator = ggml.Gallocr(backend)

    def allocate(graph: ggml.Graph) -> None:
        allocator.reserve(graph)
        allocator.alloc_graph(graph)

    each_size(backend, allocate)


@case(match="out of memory")
def scheduler_without_memory() -> None:
    backend = ggml.Backend()
    each_size(backend, ggml.Sched([backend]).alloc_graph)


@case(match="out of memory")
def scheduler_that_cannot_reserve() -> None:
    backend = ggml.Backend()
    sched = ggml.Sched([backend])

    def allocate(graph: ggml.Graph) -> None:
        n = graph.nodes[0].ne[0]
        sched.reserve(doubled(n)[2])
        sched.alloc_graph(graph)

    each_size(backend, allocate)


@case(match="out of memory")
def weights_without_memory_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], lambda info, n: SplitAxis.MIRRORED))
    ctx = context()
    x = f32(ctx, 1 << 40)
    try:
        ggml.alloc_ctx_tensors(ctx, backend)
    finally:
        assert not x.is_allocated


@case(ValueError, match="not be more than the tokens")
def more_states_than_tokens() -> None:
    ctx = context()
    one = f32(ctx, 4, 1, 1, 1)
    gate, state = f32(ctx, 1, 1, 1, 1), f32(ctx, 4, 4, 1, 1)
    ggml.gated_delta_net(ctx, one, one, one, gate, gate, state, 3)
