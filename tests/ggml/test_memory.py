"""The memory of tensors: without any, given by allocators, taken away, and kept while something uses it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import ggml
from ggml import Type


def context(bytes: int = 1 << 20) -> ggml.Context:
    return ggml.Context(bytes)


def new(ctx: ggml.Context, *ne: int) -> ggml.Tensor:
    return ctx.new_tensor(Type.F32, list(ne))


def graph_of(ctx: ggml.Context, *results: ggml.Tensor) -> ggml.Graph:
    graph = ggml.Graph(ctx, 64)
    for result in results:
        graph.expand(result)
    return graph


def test_unallocated_tensors_are_refused() -> None:
    ctx = context()
    backend = ggml.Backend()
    x = new(ctx, 4)
    y = ggml.relu(ctx, x)
    graph = graph_of(ctx, y)
    for use in (x.get, x.to_float32, lambda: x.set(np.zeros(4, np.float32)), lambda: ggml.tensor_copy(x, y)):
        with pytest.raises(ggml.GgmlError, match="no memory"):
            use()
    with pytest.raises(ggml.GgmlError, match="has no memory"):
        backend.compute(graph)
    assert not x.is_allocated


def test_leaf_without_memory() -> None:
    backend = ggml.Backend()
    other, ctx = context(), context()
    y = ggml.relu(ctx, new(other, 4))
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    with pytest.raises(ggml.GgmlError, match=r"leaf .* has no memory"):
        backend.compute(graph)


def test_graph_allocator_staleness() -> None:
    backend = ggml.Backend()
    allocator = ggml.Gallocr(backend)
    first_ctx, second_ctx = context(), context()
    first_x, second_x = new(first_ctx, 4), new(second_ctx, 4096)
    first_x.set_input()
    first_y = ggml.scale(first_ctx, first_x, 2.0)
    first = graph_of(first_ctx, first_y)
    second = graph_of(second_ctx, ggml.scale(second_ctx, second_x, 3.0))

    allocator.alloc_graph(first)
    small = allocator.buffer_size
    first_x.set(np.ones(4, np.float32))
    backend.compute(first)
    assert (first_y.get() == 2).all()

    allocator.alloc_graph(second)
    assert allocator.buffer_size > small
    for use in (first_x.get, lambda: backend.compute(first), lambda: first_x.set(np.ones(4, np.float32))):
        with pytest.raises(ggml.GgmlError, match="since allocated another graph"):
            use()

    allocator.alloc_graph(first)
    first_x.set(np.full(4, 3, np.float32))
    backend.compute(first)
    assert (first_y.get() == 6).all()


def test_graph_over_a_tensor_that_was_moved() -> None:
    backend = ggml.Backend()
    allocator = ggml.Gallocr(backend)
    a, b, c = context(), context(), context()
    x = ggml.relu(a, new(a, 4))
    under = graph_of(a, x)
    allocator.alloc_graph(under)
    graph = graph_of(b, ggml.cont(b, ggml.view_1d(b, x, 2, 4)))
    ggml.alloc_ctx_tensors(b, backend)
    backend.compute(graph)
    allocator.alloc_graph(graph_of(c, ggml.relu(c, new(c, 1 << 16))))
    with pytest.raises(ggml.GgmlError, match="used for another graph, since"):
        backend.compute(graph)
    allocator.alloc_graph(under)  # x has memory again, the view still points to the old
    with pytest.raises(ggml.GgmlError, match="used for another graph, since"):
        backend.compute(graph)


def test_graph_moves_to_another_allocator() -> None:
    backend = ggml.Backend()
    ctx = context()
    x = new(ctx, 4)
    x.set_input()
    y = ggml.scale(ctx, ggml.view_1d(ctx, x, 2, 8), 2.0)
    graph = graph_of(ctx, y)
    for _ in range(3):
        ggml.Gallocr(backend).alloc_graph(graph)
        gc.collect()
        x.set(np.arange(4, dtype=np.float32))
        backend.compute(graph)
        assert (y.get() == [4, 6]).all()


def test_allocator_does_not_place_what_another_context_owns() -> None:
    backend = ggml.Backend()
    other, ctx = context(), context()
    graph = graph_of(ctx, ggml.relu(ctx, new(other, 4)))
    with pytest.raises(ggml.GgmlError, match="another context has no memory"):
        ggml.Gallocr(backend).alloc_graph(graph)


@pytest.mark.parametrize("how", ["gallocr", "sched"])
def test_outputs_of_a_second_graph_of_the_same_nodes(how: str) -> None:
    """ggml takes over the plan of the graph before, in which other results shared memory."""
    backend = ggml.Backend()
    sched, allocator = ggml.Sched([backend]), ggml.Gallocr(backend)
    for kept in (None, 1, None, 3):
        ctx = context()
        x = y = new(ctx, 256)
        results = []
        for _ in range(6):
            y = ggml.scale(ctx, ggml.cont(ctx, y), 2.0)
            results.append(y)
        y.set_output()
        if kept is not None:
            results[kept].set_output()
        graph = graph_of(ctx, y)
        (sched if how == "sched" else allocator).alloc_graph(graph)
        x.set(np.ones(256, np.float32))
        (sched if how == "sched" else backend).compute(graph)
        assert (y.get() == 64).all()
        if kept is not None:
            assert (results[kept].get() == 2.0 ** (kept + 1)).all()


@pytest.mark.parametrize("how", ["gallocr", "sched"])
def test_add_id_does_not_write_over_the_rows_that_it_reads(how: str) -> None:
    backend, ctx = ggml.Backend(), context()
    rng = np.random.default_rng(0)
    a, b, ids = new(ctx, 8, 6), new(ctx, 8, 6), ctx.new_tensor(Type.I32, [6])
    y = ggml.add(ctx, ggml.add_id(ctx, a, ggml.scale(ctx, b, 1.0), ids), a)
    graph = graph_of(ctx, y)
    memory = ggml.Sched([backend]) if how == "sched" else ggml.Gallocr(backend)
    memory.alloc_graph(graph)
    left, right = (rng.standard_normal((6, 8)).astype(np.float32) for _ in range(2))
    order = np.array([5, 0, 1, 2, 3, 4], np.int32)
    for tensor, values in ((a, left), (b, right), (ids, order)):
        tensor.set(values)
    (memory if isinstance(memory, ggml.Sched) else backend).compute(graph)
    assert np.allclose(y.get(), 2 * left + right[order], atol=1e-5)


def test_tensor_copy() -> None:
    ctx = context()
    a, b, c = new(ctx, 4), new(ctx, 4), new(ctx, 2, 2)
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    a.set(np.arange(4, dtype=np.float32))
    ggml.tensor_copy(a, b)
    assert np.array_equal(a.get(), b.get())
    with pytest.raises(ValueError, match="layout"):
        ggml.tensor_copy(a, c)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)])
def test_handles_may_go_in_any_order(order: tuple[int, ...]) -> None:
    backend = ggml.Backend("cpu", 2)
    ctx = context()
    x = new(ctx, 4)
    y = ggml.scale(ctx, x, 2.0)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    allocator = ggml.Gallocr(backend)
    x.set(np.ones(4, np.float32))
    handles: list[object] = [ctx, graph, backend, allocator]
    backend.compute(graph)
    del ctx, graph, backend, allocator
    for index in order:
        handles[index] = None
        gc.collect()
        assert (y.get() == 2).all()
        assert (x.get() == 1).all()


def test_graph_keeps_the_tensors_of_other_contexts() -> None:
    backend = ggml.Backend()
    weights, ctx = context(), context()
    w = new(weights, 1 << 16)
    ggml.alloc_ctx_tensors(weights, backend)
    w.set(np.full(1 << 16, 5, np.float32))
    y = ggml.scale(ctx, w, 2.0)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    del w, weights
    gc.collect()
    backend.compute(graph)
    assert (y.get() == 10).all()


def test_context_keeps_its_allocator() -> None:
    backend = ggml.Backend()
    ctx = context()
    x = new(ctx, 4)
    x.set_input()
    y = ggml.relu(ctx, x)
    graph = graph_of(ctx, y)
    ggml.Gallocr(backend).alloc_graph(graph)
    gc.collect()
    x.set(np.array([-1, 0, 1, 2], np.float32))
    backend.compute(graph)
    assert (y.get() == [0, 0, 1, 2]).all()
