"""Contexts, tensors, operators and graphs: what they do, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

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


def doubled(ctx: ggml.Context, backend: ggml.Backend) -> tuple[ggml.Graph, ggml.Tensor, ggml.Tensor]:
    """An allocated graph of x -> 2 x."""
    x = ctx.new_tensor(Type.F32, [4])
    y = ggml.scale(ctx, x, 2.0)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    return graph, x, y


def still_works() -> bool:
    backend = ggml.Backend()
    graph, x, y = doubled(context(), backend)
    x.set(np.arange(4, dtype=np.float32))
    backend.compute(graph)
    return bool((y.get() == [0, 2, 4, 6]).all())


# Contexts


def test_context_too_small_for_a_graph() -> None:
    ctx = context(4096)
    with pytest.raises(ggml.GgmlError, match="a graph of 2048 nodes needs"):
        ggml.Graph(ctx, 2048)
    assert still_works()


def test_context_too_small_for_its_tensors() -> None:
    ctx = context(3 * ggml.tensor_overhead())
    kept = [ctx.new_tensor(Type.F32, [8]) for _ in range(3)]
    with pytest.raises(ggml.GgmlError):
        ctx.new_tensor(Type.F32, [8])
    with pytest.raises(ggml.GgmlError):
        ggml.relu(ctx, kept[0])
    assert [t.ne for t in kept] == [(8, 1, 1, 1)] * 3
    assert still_works()


def test_context_larger_than_the_address_space() -> None:
    with pytest.raises(ggml.GgmlError):
        ggml.Context(1 << 63)
    assert still_works()


@pytest.mark.parametrize("ne", [[1 << 50]])
def test_more_memory_than_there_is(ne: list[int]) -> None:
    ctx = context()
    ctx.new_tensor(Type.F32, ne)
    with pytest.raises(ggml.GgmlError, match="memory"):
        ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    assert still_works()


def test_reset_makes_tensors_and_graphs_stale() -> None:
    ctx = context()
    backend = ggml.Backend()
    graph, x, y = doubled(ctx, backend)
    free = ctx.free_bytes
    ctx.reset()
    assert ctx.free_bytes > free
    uses: list[Callable[[], object]] = [
        lambda: x.ne,
        lambda: x.get(),
        lambda: x.name,
        lambda: y.set_output(),
        lambda: ggml.relu(ctx, x),
        lambda: graph.n_nodes,
        lambda: graph.expand(x),
        lambda: backend.compute(graph),
        lambda: ggml.Gallocr(backend).alloc_graph(graph),
    ]
    for use in uses:
        with pytest.raises(ggml.GgmlError, match="was reset"):
            use()
    assert ctx.new_tensor(Type.F32, [4]).ne == (4, 1, 1, 1)


def test_graph_over_a_context_that_was_reset() -> None:
    backend = ggml.Backend()
    weights, ctx = context(), context()
    w = weights.new_tensor(Type.F32, [1 << 20])
    ggml.alloc_ctx_tensors(weights, backend)
    graph = graph_of(ctx, ggml.scale(ctx, w, 2.0))
    ggml.alloc_ctx_tensors(ctx, backend)
    backend.compute(graph)
    weights.reset()  # frees the memory that the graph reads
    with pytest.raises(ggml.GgmlError, match="another context, which was reset"):
        backend.compute(graph)


# Tensors and operators that ggml would abort on, or read past memory for


@pytest.mark.parametrize("ne", [[], [1] * 5, [-1], [3, -1]])
def test_impossible_sizes(ne: list[int]) -> None:
    with pytest.raises(ValueError, match=r"dimensions|negative"):
        context().new_tensor(Type.F32, ne)


@pytest.mark.parametrize("type", [-1, 4, 5, 31, 36, 99])
def test_unknown_types(type: int) -> None:
    ctx = context()
    x = ctx.new_tensor(Type.F32, [4])
    with pytest.raises(ValueError, match="no such ggml type"):
        ctx.new_tensor(type, [4])
    with pytest.raises(ValueError, match="no such ggml type"):
        ggml.cast(ctx, x, type)


def test_rows_come_in_blocks() -> None:
    with pytest.raises(ValueError, match="blocks of 32"):
        context().new_tensor(Type.Q8_0, [31])


def refused(build: Callable[[ggml.Context], object]) -> None:
    with pytest.raises((ggml.GgmlError, ValueError)):
        build(context())
    assert still_works()


@pytest.mark.parametrize(
    "build",
    [
        lambda c: ggml.mul_mat(c, new(c, 4, 3), new(c, 5, 2)),
        lambda c: ggml.add(c, new(c, 4, 3), new(c, 5)),
        lambda c: ggml.concat(c, new(c, 4, 3), new(c, 5, 3), 1),
        lambda c: ggml.reshape_2d(c, new(c, 4), 3, 2),
        lambda c: ggml.reshape_2d(c, new(c, 4), -2, -2),
        lambda c: ggml.permute(c, new(c, 4), 0, 0, 1, 2),
        lambda c: ggml.permute(c, new(c, 4), 0, 1, 2, 9),
        lambda c: ggml.soft_max_ext(c, new(c, 4, 4), new(c, 3, 4), 1.0),
        lambda c: ggml.get_rows(c, new(c, 4, 4), new(c, 2)),
        lambda c: ggml.view_1d(c, new(c, 4), 5, 0),
        lambda c: ggml.view_1d(c, new(c, 4), -1, 0),
        lambda c: ggml.view_1d(c, new(c, 4), 2, 2**64 - 8),
        lambda c: ggml.view_2d(c, new(c, 4, 4), 4, 4, 1 << 30, 0),
        lambda c: ggml.pad_ext(c, new(c, 8), -100, 0, 0, 0, 0, 0, 0, 0),
        lambda c: ggml.im2col(c, new(c, 3, 3, 1, 4), new(c, 8, 8), 0, 0, 0, 0, 1, 1, True, Type.F32),
        lambda c: ggml.conv_2d_dw_direct(c, new(c, 3, 3, 1, 4), new(c, 8, 8, 4), 0, 0, 0, 0, 1, 1),
        lambda c: new(c, 1 << 40, 1 << 40),
        lambda c: new(c, 1 << 62, 4),
    ],
)
def test_impossible_operators(build: Callable[[ggml.Context], object]) -> None:
    refused(build)


def test_an_operator_takes_tensors_only() -> None:
    ctx = context()
    with pytest.raises(TypeError):
        ggml.relu(ctx, None)  # type: ignore[arg-type]


def test_nodes_of_a_graph() -> None:
    first, second = context(), context()
    a = ggml.relu(first, new(first, 4))
    b = ggml.neg(second, a)
    b.name = "last"
    graph = graph_of(second, b)
    assert [node.op for node in graph.nodes] == ["RELU", "NEG"]
    assert graph.nodes[1].name == "last"
    first.close()
    with pytest.raises(ggml.GgmlError, match="reset or closed"):
        _ = graph.nodes


def test_graph_too_small_for_its_nodes() -> None:
    ctx = context()
    x = new(ctx, 4)
    for _ in range(50):
        x = ggml.relu(ctx, x)
    graph = ggml.Graph(ctx, 2)
    with pytest.raises(ggml.GgmlError):
        graph.expand(x)
    assert still_works()


@pytest.mark.parametrize("n_threads", [1, 4])
def test_row_out_of_range(n_threads: int) -> None:
    ctx = context()
    rows = ctx.new_tensor(Type.I32, [64])
    table = new(ctx, 4, 8)
    y = ggml.get_rows(ctx, table, rows)
    graph = graph_of(ctx, y)
    backend = ggml.Backend("cpu", n_threads)
    ggml.alloc_ctx_tensors(ctx, backend)
    table.set(np.arange(32, dtype=np.float32).reshape(8, 4))
    for bad in (8, -1):
        indices = np.zeros(64, np.int32)
        indices[-1] = bad  # a worker thread's share
        rows.set(indices)
        with pytest.raises(ggml.GgmlError, match=f"no row {bad}"):
            backend.compute(graph)
    rows.set(np.full(64, 7, np.int32))
    backend.compute(graph)
    assert (y.get() == [28, 29, 30, 31]).all()
