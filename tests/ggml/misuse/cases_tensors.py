"""Contexts, tensors, operators, and reading, writing and copying."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import case, context, doubling, f32, graph_of

import ggml
from ggml import GgmlError, Type

# Contexts


@case()
def context_too_small_for_a_tensor() -> None:
    f32(context(64), 4)


@case()
def context_too_small_for_an_operator() -> None:
    ctx = context(ggml.tensor_overhead())
    ggml.relu(ctx, f32(ctx, 4))


@case(match="needs")
def context_too_small_for_a_graph() -> None:
    ggml.Graph(context(4096))


@case(match="the graph is full")
def graph_too_small_for_its_nodes() -> None:
    ctx = context()
    y = f32(ctx, 4)
    for _ in range(8):
        y = ggml.relu(ctx, y)
    ggml.Graph(ctx, 2).expand(y)


@case(match="cannot create|mem_buffer")
def context_larger_than_any_memory() -> None:
    context(1 << 62)


@case(match="no tensor that needs memory")
def memory_for_an_empty_context() -> None:
    ggml.alloc_ctx_tensors(context(), ggml.Backend())


@case(match="no tensor that needs memory")
def memory_twice() -> None:
    d = doubling()
    ggml.alloc_ctx_tensors(d.ctx, d.backend)


@case(match="memory")
def memory_that_is_not_there() -> None:
    ctx = context()
    f32(ctx, 1 << 55)
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())


# Types, sizes and operators that ggml asserts on


@case(ValueError, match="no such ggml type")
def type_that_is_none() -> None:
    context().new_tensor(999, [4])


@case(ValueError, match="no such ggml type")
def type_that_was_removed() -> None:
    context().new_tensor(4, [32])


@case(ValueError, match="blocks of")
def rows_that_cut_a_block() -> None:
    context().new_tensor(Type.Q4_0, [33])


@case(ValueError)
def five_dimensions() -> None:
    f32(context(), 1, 1, 1, 1, 1)


@case()
def size_that_overflows() -> None:
    f32(context(), 1 << 40, 1 << 40)


@case(GgmlError, ValueError)
def mul_mat_of_other_widths() -> None:
    ctx = context()
    ggml.mul_mat(ctx, f32(ctx, 4, 3), f32(ctx, 5, 2))


@case(GgmlError, ValueError)
def add_of_other_sizes() -> None:
    ctx = context()
    ggml.add(ctx, f32(ctx, 4, 3), f32(ctx, 5))


@case(GgmlError, ValueError)
def reshape_to_another_size() -> None:
    ctx = context()
    ggml.reshape_2d(ctx, f32(ctx, 4), 3, 2)


@case(GgmlError, ValueError, match="would end")
def view_past_the_end() -> None:
    ctx = context()
    ggml.view_1d(ctx, f32(ctx, 4), 4, 4)


def row_lookup(index: int, threads: int) -> None:
    backend = ggml.Backend("CPU", threads)
    ctx = context()
    rows = ctx.new_tensor(Type.I32, [16])
    graph = graph_of(ctx, ggml.get_rows(ctx, f32(ctx, 4, 8), rows))
    ggml.alloc_ctx_tensors(ctx, backend)
    indices = np.zeros(16, np.int32)
    indices[-1] = index
    rows.set(indices)
    backend.compute(graph)


ROWS: dict[str, Callable[[], object]] = {
    "past_the_end": lambda: row_lookup(8, 1),
    "negative": lambda: row_lookup(-1, 1),
    "on_a_worker_thread": lambda: row_lookup(1 << 30, 2),
}
for key, action in ROWS.items():
    case(name=f"row_{key}")(action)


# Reading, writing, copying


@case(match="no memory")
def read_without_memory() -> None:
    f32(context(), 4).get()


@case(match="no memory")
def write_without_memory() -> None:
    f32(context(), 4).set(np.zeros(4, np.float32))


@case(ValueError, match="bytes")
def write_too_much() -> None:
    doubling().x.set(np.zeros(5, np.float32))


@case(TypeError, match="float32")
def write_another_type() -> None:
    doubling().x.set(np.zeros(4, np.float64))


@case(match="not contiguous")
def read_what_is_not_contiguous() -> None:
    backend = ggml.Backend()
    ctx = context()
    y = ggml.transpose(ctx, f32(ctx, 4, 3))
    ggml.alloc_ctx_tensors(ctx, backend)
    y.get()


@case(match="no memory")
def set_async_without_memory() -> None:
    ggml.Backend().set_async(f32(context(), 4), np.zeros(4, np.float32))


@case(match="no memory")
def get_async_without_memory() -> None:
    ggml.Backend().get_async(f32(context(), 4))


@case(ValueError, match="past the end")
def set_async_out_of_bounds() -> None:
    d = doubling()
    d.backend.set_async(d.x, np.zeros(4, np.float32), 4)


@case(ValueError, match="past the end")
def set_async_offset_and_size_that_wrap() -> None:
    d = doubling()
    d.backend.set_async(d.x, np.zeros(4, np.float32), 16, (1 << 64) - 8)


@case(ValueError, match="past the end")
def set_async_offset_that_wraps() -> None:
    d = doubling()
    d.backend.set_async(d.x, np.zeros(2, np.float32), (1 << 64) - 4, 8)


@case(ValueError, match="fewer than")
def set_async_of_more_than_the_array() -> None:
    d = doubling()
    d.backend.set_async(d.x, np.zeros(1, np.float32), 0, 16)


@case(ValueError, match="past the end")
def get_async_out_of_bounds() -> None:
    d = doubling()
    d.backend.get_async(d.x, 8, 12)


@case(ValueError, match="past the end")
def get_async_offset_and_size_that_wrap() -> None:
    d = doubling()
    d.backend.get_async(d.x, 8, (1 << 64) - 4)


@case(ValueError, match="layout differ")
def copy_of_another_layout() -> None:
    d, e = doubling(4), doubling(8)
    ggml.copy_async(d.backend, e.backend, d.x, e.x)


@case(ValueError, match="layout differ")
def tensor_copy_of_another_layout() -> None:
    d, e = doubling(4), doubling(8)
    ggml.tensor_copy(d.x, e.x)


@case(match="no memory")
def copy_without_memory() -> None:
    d = doubling()
    ggml.copy_async(d.backend, d.backend, d.x, f32(context(), 4))


@case(match="was reset")
def view_of_a_closed_context() -> None:
    d = doubling()
    other = context()
    view = ggml.view_1d(other, d.x, 2, 0)
    ggml.alloc_ctx_tensors(other, d.backend) if not view.is_allocated else None
    d.ctx.close()
    view.get()


@case(match="graph allocator")
def array_over_an_allocators_memory() -> None:
    # Two contexts that use each other's tensors: looking for the owner of the memory must end.
    backend = ggml.Backend()
    a, b = context(), context()
    x, y = f32(a, 4), f32(b, 4)
    buffers = [ggml.alloc_ctx_tensors(c, backend) for c in (a, b)]
    ggml.relu(a, y)
    z = ggml.relu(b, x)
    ggml.Gallocr(backend).alloc_graph(graph_of(b, z))
    assert all(buffer.size for buffer in buffers)
    z.numpy()


@case(ValueError, match="must not overlap")
def set_of_rows_that_overlap() -> None:
    ctx = context()
    ggml.set(ctx, f32(ctx, 4, 8), f32(ctx, 8, 3), 16, 128, 128, 0)


@case(match="whose elements overlap")
def view_whose_rows_overlap_written_in_place() -> None:
    backend = ggml.Backend()
    ctx = context()
    view = ggml.view_2d(ctx, f32(ctx, 128), 16, 8, 16, 0)
    graph = graph_of(ctx, ggml.add_inplace(ctx, view, f32(ctx, 16, 8)))
    ggml.alloc_ctx_tensors(ctx, backend)
    backend.compute(graph)
