"""Indices that operators look up, and memory that they write to, are checked before a graph is computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Type

Build = Callable[[ggml.Context, ggml.Tensor], ggml.Tensor]


def look_up(
    build: Build, indices: npt.NDArray[Any], type: Type = Type.I32, rows: int = 4
) -> npt.NDArray[Any]:
    """Row r of a table is [r, r]; the rows at build(indices)."""
    ctx, backend = ggml.Context(1 << 18), ggml.Backend(n_threads=2)
    table, leaf = ctx.new_tensor(Type.F32, [2, rows]), ctx.new_tensor(type, list(reversed(indices.shape)))
    result = ggml.get_rows(ctx, table, build(ctx, leaf))
    graph = ggml.Graph(ctx, 64)
    graph.expand(result)
    ggml.alloc_ctx_tensors(ctx, backend)
    table.set(np.repeat(np.arange(rows, dtype=np.float32)[:, None], 2, 1))
    leaf.set(indices)
    backend.compute(graph)
    first: npt.NDArray[Any] = result.get().reshape(-1, 2)[:, 0]
    return first


def as_int(ctx: ggml.Context, t: ggml.Tensor) -> ggml.Tensor:
    return ggml.cast(ctx, t, Type.I32)


KNOWN: dict[str, tuple[Build, npt.NDArray[Any]]] = {
    "argmax": (ggml.argmax, np.eye(4, dtype=np.float32)),
    "top_k": (lambda c, t: ggml.reshape_1d(c, ggml.top_k(c, t, 1), 4), np.eye(4, dtype=np.float32)),
    "clamp": (lambda c, t: as_int(c, ggml.clamp(c, t, 0, 3)), np.array([0, 1, 2, 9], np.float32)),
    "cast": (as_int, np.array([0, 1, 2, 3], np.float32)),
    "arange": (lambda c, t: as_int(c, ggml.arange(c, 0, 4)), np.zeros(1, np.float32)),
    "concat": (
        lambda c, t: ggml.concat(
            c, as_int(c, ggml.clamp(c, t, 0, 3)), ggml.argmax(c, ggml.reshape_2d(c, t, 1, 2)), 0
        ),
        np.array([0, 1], np.float32),
    ),
}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_indices_whose_bounds_follow_from_the_operator(name: str) -> None:
    build, values = KNOWN[name]
    got = look_up(build, values, Type.F32)
    expected = {"clamp": [0, 1, 2, 3], "concat": [0, 1, 0, 0]}.get(name, [0, 1, 2, 3])
    assert got.tolist() == expected


@pytest.mark.parametrize("bad", [-1, 4, 2**31 - 1, -(2**31)])
def test_indices_in_a_leaf(bad: int) -> None:
    with pytest.raises(ggml.GgmlError, match=f"no row {bad} in"):
        look_up(lambda c, t: t, np.array([0, bad], np.int32))
    # Through a view only what is looked at counts.
    got = look_up(lambda c, t: ggml.view_1d(c, t, 1, 0), np.array([3, bad], np.int32))
    assert got.tolist() == [3]


@pytest.mark.parametrize("value", [4.0, -1.0, float("inf"), float("nan")])
def test_indices_from_floats(value: float) -> None:
    with pytest.raises(ggml.GgmlError, match=r"no row|cannot be checked"):
        look_up(as_int, np.array([0, value], np.float32), Type.F32)


def test_indices_that_are_computed_otherwise_are_refused() -> None:
    with pytest.raises(ggml.GgmlError, match=r"GET_ROWS: the indices .* cannot be checked .* argsort"):
        look_up(lambda c, t: as_int(c, ggml.sqr(c, t)), np.zeros(2, np.float32), Type.F32)
    with pytest.raises(ggml.GgmlError, match="no row 7"):
        look_up(lambda c, t: as_int(c, ggml.clamp(c, t, 0, 7)), np.zeros(2, np.float32), Type.F32)


FILLED = {
    "float32 of NaN": (float("nan"), ()),
    "float32 below a row": (15.9999, ()),
    "float16 rounds up to a row": (15.9999, (Type.F16, Type.F32)),
    "bfloat16 rounds up to a row": (15.9999, (Type.BF16, Type.F32)),
    "float16 rounds down below the first": (-0.9999, (Type.F16, Type.F32)),
    "float32 above the first": (-0.9999, ()),
    "float16 of what it holds": (15.5, (Type.F16, Type.F32)),
    "blocks": (3.0, (Type.Q8_0, Type.F32)),
    "outside of int32": (1e20, ()),
}


@pytest.mark.parametrize("name", FILLED)
def test_bounds_are_rounded_as_the_values_are(name: str) -> None:
    value, types = FILLED[name]

    def build(ctx: ggml.Context, t: ggml.Tensor) -> ggml.Tensor:
        x = ggml.fill(ctx, ctx.new_tensor(Type.F32, [32]), value)
        for type in types:
            x = ggml.cast(ctx, x, type)
        return as_int(ctx, x)

    safe = name in ("float32 below a row", "float32 above the first", "float16 of what it holds")
    if safe:
        assert look_up(build, np.zeros(1, np.int32), rows=16).tolist() == [int(value)] * 32
    else:
        with pytest.raises(ggml.GgmlError, match=r"no row|cannot be checked"):
            look_up(build, np.zeros(1, np.int32), rows=16)


@pytest.mark.parametrize(("low", "high"), [(500.0, 3.0), (float("nan"), 3.0), (0.0, float("nan"))])
def test_bounds_that_are_none(low: float, high: float) -> None:
    with pytest.raises((ggml.GgmlError, ValueError)):
        look_up(lambda c, t: as_int(c, ggml.clamp(c, t, low, high)), np.zeros(4, np.float32), Type.F32)


@pytest.mark.parametrize(("start", "stop", "step"), [(3.0, -5.0, -1.0), (0.0, 4.1, 1.0), (0.0, 5.0, 0.99999)])
def test_a_range_of_indices_that_goes_too_far(start: float, stop: float, step: float) -> None:
    with pytest.raises((ggml.GgmlError, ValueError)):
        look_up(lambda c, t: as_int(c, ggml.arange(c, start, stop, step)), np.zeros(1, np.int32))


def test_indices_that_another_node_overwrites_are_refused() -> None:
    ctx, backend = ggml.Context(1 << 18), ggml.Backend()
    table, ids = ctx.new_tensor(Type.F32, [2, 4]), ctx.new_tensor(Type.I32, [3])
    numbers = ctx.new_tensor(Type.F32, [3])
    graph = ggml.Graph(ctx, 64)
    graph.expand(ggml.cpy(ctx, numbers, ids))
    graph.expand(ggml.get_rows(ctx, table, ids))
    ggml.alloc_ctx_tensors(ctx, backend)
    ids.set(np.zeros(3, np.int32))
    numbers.set(np.full(3, 99, np.float32))
    with pytest.raises(ggml.GgmlError, match="cannot be checked"):
        backend.compute(graph)


def refuses(
    build: Callable[[ggml.Context, ggml.Tensor], ggml.Tensor], indices: npt.NDArray[Any], what: str
) -> None:
    ctx, backend = ggml.Context(1 << 18), ggml.Backend(n_threads=2)
    ids = ctx.new_tensor(Type.I64 if indices.dtype == np.int64 else Type.I32, list(reversed(indices.shape)))
    graph = ggml.Graph(ctx, 64)
    graph.expand(build(ctx, ids))
    ggml.alloc_ctx_tensors(ctx, backend)
    ids.set(indices)
    with pytest.raises(ggml.GgmlError, match=what):
        backend.compute(graph)
    ids.set(np.zeros_like(indices))
    backend.compute(graph)


def test_every_operator_that_looks_up() -> None:
    def new(ctx: ggml.Context, *ne: int) -> ggml.Tensor:
        return ctx.new_tensor(Type.F32, list(ne))

    for dtype in (np.int32, np.int64):
        refuses(
            lambda c, ids: ggml.set_rows(c, new(c, 5, 4), new(c, 5, 2), ids),
            np.array([0, 4], dtype),
            "no row 4",
        )
    refuses(
        lambda c, ids: ggml.mul_mat_id(c, new(c, 32, 3, 4), new(c, 32, 1, 2), ids),
        np.array([[0, 1], [2, -1]], np.int32),
        "no matrix -1",
    )
    refuses(
        lambda c, ids: ggml.add_id(c, new(c, 5, 2, 1), new(c, 5, 3), ids),
        np.array([[3, 0]], np.int32),
        "no row 3",
    )
    refuses(
        lambda c, ids: ggml.ssm_scan(
            c, new(c, 16, 4, 2, 3), new(c, 4, 2, 1, 1), new(c, 2), new(c, 1, 2), new(c, 16), new(c, 16), ids
        ),
        np.array([3], np.int32),
        "no state 3",
    )


def test_a_files_memory_is_not_written_to(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "none")
    writer.add_tensor("w", np.arange(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    data = np.fromfile(tmp_path / "w.gguf", np.uint8)
    aligned = np.zeros(data.size + 64, np.uint8)
    start = -aligned.ctypes.data % 64
    aligned[start : start + data.size] = data
    aligned.flags.writeable = False
    file = ggml.GgufFile(aligned[start : start + data.size])
    file.map_tensors()
    w = file.tensors()["w"]
    ctx, backend = ggml.Context(1 << 18), ggml.Backend()
    copied = ggml.scale(ctx, w, 2.0)
    for result in (ggml.scale_inplace(ctx, w, 2.0), ggml.cpy(ctx, copied, ggml.view_1d(ctx, w, 8, 0))):
        graph = ggml.Graph(ctx, 16)
        graph.expand(result)
        ggml.Gallocr(backend).alloc_graph(graph)
        with pytest.raises(ggml.GgmlError, match="must not be written"):
            backend.compute(graph)
    ctx = ggml.Context(1 << 18)
    graph = ggml.Graph(ctx, 16)
    graph.expand(ggml.scale_inplace(ctx, w, 2.0))
    with pytest.raises(ggml.GgmlError, match="must not be written"):
        ggml.Sched([backend]).compute(graph)
