"""Contexts, tensors, graphs, allocators and backends: what they do, and what they refuse."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest

import ggml
from ggml import Type


def context(bytes: int = 1 << 20) -> ggml.Context:
    return ggml.Context(bytes)


def graph_of(ctx: ggml.Context, *results: ggml.Tensor, max_nodes: int = 64) -> ggml.Graph:
    graph = ggml.Graph(ctx, max_nodes)
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


def new(ctx: ggml.Context, *ne: int) -> ggml.Tensor:
    return ctx.new_tensor(Type.F32, list(ne))


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


# Memory


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


@pytest.mark.parametrize("ne", [[1 << 50]])
def test_more_memory_than_there_is(ne: list[int]) -> None:
    ctx = context()
    ctx.new_tensor(Type.F32, ne)
    with pytest.raises(ggml.GgmlError, match="memory"):
        ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    assert still_works()


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
    with pytest.raises(ggml.GgmlError, match="has since moved it"):
        backend.compute(graph)
    allocator.alloc_graph(under)  # x has memory again, the view still points to the old
    with pytest.raises(ggml.GgmlError, match="has since moved it"):
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
    graph, x, y = doubled(ctx, backend)
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


# Backends


def test_unknown_device_lists_what_there_is() -> None:
    with pytest.raises(KeyError, match=r"no device 'TPU'; there are: .*CPU"):
        ggml.Backend("TPU")


@pytest.mark.parametrize("name", ["cpu", "CPU", "Cpu"])
def test_device_names_in_any_case(name: str) -> None:
    assert ggml.Backend(name).is_cpu


def test_devices() -> None:
    cpu = next(d for d in ggml.devices() if d.name == "CPU")
    assert cpu.type is ggml.DeviceType.CPU
    assert cpu.description
    assert cpu.memory_total >= cpu.memory_free > 0


def test_number_of_threads() -> None:
    assert ggml.Backend("cpu", -3).n_threads == 1
    backend = ggml.Backend("cpu", 2)
    backend.set_n_threads(0)
    assert backend.n_threads == 1
    with pytest.raises(ggml.GgmlError, match="at most 512 threads"):
        backend.set_n_threads(100_000)
    with pytest.raises(ggml.GgmlError, match="at most 512 threads"):
        ggml.Backend("cpu", 100_000)


def test_threads_take_turns_on_one_backend() -> None:
    backend = ggml.Backend("cpu", 2)
    failures: list[object] = []

    def work(seed: int) -> None:
        ctx = context()
        a, b = new(ctx, 64, 32), new(ctx, 64, 16)
        y = ggml.mul_mat(ctx, a, b)
        graph = graph_of(ctx, y)
        ggml.alloc_ctx_tensors(ctx, backend)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            left = rng.standard_normal((32, 64)).astype(np.float32)
            right = rng.standard_normal((16, 64)).astype(np.float32)
            a.set(left)
            b.set(right)
            backend.compute(graph)
            if not np.allclose(y.get(), right @ left.T, atol=1e-4):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures
