"""Buffers and multi-buffers."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import numpy as np
from harness import case, context, doubling, f32

import ggml
from ggml import GgmlError, UnsupportedError

# Buffers


@case(match="was closed")
def buffer_closed_twice() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    buffer.close()
    buffer.close()
    buffer.clear(0)


@case(ValueError, match="no such buffer usage: 7")
def buffer_usage_that_is_none() -> None:
    ggml.Backend().alloc_buffer(64).usage = 7


@case(ValueError, match="no such buffer usage")
def buffer_usage_below_zero() -> None:
    ggml.Backend().alloc_buffer(64).usage = -1


@case(ValueError, match="a byte")
def buffer_cleared_with_more_than_a_byte() -> None:
    ggml.Backend().alloc_buffer(64).clear(256)


@case(match="memory")
def buffer_larger_than_any_memory() -> None:
    ggml.Backend().alloc_buffer(1 << 62)


@case(match="memory")
def buffer_of_the_largest_size() -> None:
    ggml.Backend().alloc_buffer((1 << 64) - 1)


@case(TypeError)
def buffer_of_negative_size() -> None:
    ggml.Backend().alloc_buffer(-1)


@case(match="has memory already")
def tensor_placed_twice() -> None:
    d = doubling()
    d.backend.alloc_buffer(64).place(d.x)


@case(match="needs")
def tensor_placed_past_the_end() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(64).place(f32(ctx, 64))


@case(match="at offset")
def tensor_placed_at_an_offset_that_wraps() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(64).place(f32(ctx, 4), (1 << 64) - 32)


@case(match="multiple")
def tensor_placed_unaligned() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(4096).place(f32(ctx, 4), 3)


@case(match="is a view")
def view_placed() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(4096).place(ggml.view_1d(ctx, f32(ctx, 4), 2, 0))


@case(match="needs")
def tensor_placed_in_an_empty_buffer() -> None:
    ctx = context()
    ggml.Backend().alloc_buffer(0).place(f32(ctx, 4))


@case(match="no memory")
def tensor_of_a_closed_buffer() -> None:
    d = doubling()
    d.buffer.close()
    d.x.get()


@case(match="let go of them first")
def buffer_closed_under_an_array() -> None:
    d = doubling()
    view = d.x.numpy()
    try:
        d.buffer.close()
    finally:
        assert view[1] == 1


# Multi-buffers


@case(ValueError, match="at least one")
def multi_buffer_of_none() -> None:
    ggml.MultiBuffer([])


@case(ValueError, match="twice")
def multi_buffer_of_duplicates() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    ggml.MultiBuffer([buffer, buffer])


@case(ValueError, GgmlError, match="closed")
def multi_buffer_of_a_closed_one() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    buffer.close()
    ggml.MultiBuffer([buffer])


@case(ValueError, GgmlError, match="taken over")
def multi_buffer_of_one_that_is_taken() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    kept = ggml.MultiBuffer([buffer])
    try:
        ggml.MultiBuffer([buffer])
    finally:
        assert kept.size == 64


@case(ValueError, match="cannot be made of multi")
def multi_buffer_of_a_multi_buffer() -> None:
    ggml.MultiBuffer([ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)])])


@case(ValueError, match="meta buffers")
def multi_buffer_of_a_meta_buffer() -> None:
    cpu = ggml.device("CPU")
    meta = ggml.Backend(ggml.meta_device([cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
    ctx = context()
    f32(ctx, 4)
    ggml.MultiBuffer([ggml.alloc_ctx_tensors(ctx, meta)])


def read_only_map() -> tuple[ggml.Buffer, ggml.Tensor]:
    writer = ggml.GgufWriter()
    writer.add_array("x", np.arange(64, dtype=np.float32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.gguf"
        writer.write(path)
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    gguf = ggml.GgufFile(memory)
    return gguf.map_tensors(), gguf.tensors()["x"]


@case(match="must not be written")
def read_only_buffer_cleared() -> None:
    read_only_map()[0].clear(1)


@case(match="must not be written")
def read_only_buffer_cleared_through_a_multi_buffer() -> None:
    ggml.MultiBuffer([read_only_map()[0]]).clear(1)


@case(match="must not be written")
def read_only_tensor_written_through_a_multi_buffer() -> None:
    buffer, x = read_only_map()
    kept = ggml.MultiBuffer([ggml.Backend().alloc_buffer(64), buffer])
    try:
        x.set(np.zeros(64, np.float32))
    finally:
        assert (x.get() == np.arange(64)).all()
        kept.close()


@case(ValueError, match="contiguous")
def gguf_of_memory_read_backwards() -> None:
    ggml.GgufFile(np.zeros(4096, np.uint8)[::-1])


@case(ValueError, match="contiguous")
def gguf_of_every_other_byte() -> None:
    ggml.GgufFile(np.zeros(4096, np.uint8)[::2])


@case(match="ends too early")
def gguf_of_nothing() -> None:
    ggml.GgufFile(b"")


@case(match="taken over")
def child_of_a_multi_buffer_used() -> None:
    buffer = ggml.Backend().alloc_buffer(64)
    kept = ggml.MultiBuffer([buffer])
    try:
        buffer.clear(0)
    finally:
        kept.close()


@case(match="taken over")
def child_of_a_multi_buffer_closed() -> None:
    backend = ggml.Backend()
    children = [backend.alloc_buffer(64), backend.alloc_buffer(64)]
    multi = ggml.MultiBuffer(children)
    for child in children:
        child.close()
    multi.clear(1)
    multi.close()
    multi.close()
    for child in children:
        child.close()
    children[0].clear(0)


@case(UnsupportedError, match="several buffers")
def tensor_placed_in_a_multi_buffer() -> None:
    ctx = context()
    ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).place(f32(ctx, 4))


@case(match="no memory")
def tensor_of_a_closed_multi_buffer() -> None:
    d = doubling()
    ggml.MultiBuffer([d.buffer]).close()
    d.x.get()


@case(ValueError, match="no such buffer usage")
def multi_buffer_usage_that_is_none() -> None:
    ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).usage = 3


@case(match="no address")
def address_of_a_multi_buffer() -> None:
    base = ggml.MultiBuffer([ggml.Backend().alloc_buffer(64)]).base
    raise GgmlError(f"no address: {base}") if base is None else AssertionError(base)
