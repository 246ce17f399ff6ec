"""Tensors to and from NumPy for every type."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import ggml
from ggml import Type

NUMPY_TYPES = {
    Type.F32: np.float32,
    Type.F16: np.float16,
    Type.F64: np.float64,
    Type.I8: np.int8,
    Type.I16: np.int16,
    Type.I32: np.int32,
    Type.I64: np.int64,
}


def context() -> ggml.Context:
    return ggml.Context(1 << 20)


@pytest.mark.parametrize("type", NUMPY_TYPES, ids=lambda t: t.name)
def test_tensor_round_trip(type: Type) -> None:
    ctx = context()
    t = ctx.new_tensor(type, [5, 3, 2])
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    values = np.random.default_rng(1).integers(-100, 100, (2, 3, 5)).astype(NUMPY_TYPES[type])
    t.set(values)
    back = t.get()
    assert t.shape == (2, 3, 5)
    assert back.dtype == NUMPY_TYPES[type]
    assert np.array_equal(back, values)
    assert np.array_equal(t.to_float32(), values.astype(np.float32))
    t.set(np.asfortranarray(values))  # any layout of the same array
    assert np.array_equal(t.get(), values)


def test_the_array_is_a_copy() -> None:
    backend = ggml.Backend()
    ctx = context()
    t = ctx.new_tensor(Type.F32, [4])
    ggml.alloc_ctx_tensors(ctx, backend)
    t.set(np.ones(4, np.float32))
    back = t.get()
    t.set(np.zeros(4, np.float32))
    del t, ctx
    gc.collect()
    assert (back == 1).all()


def test_bf16() -> None:
    ctx = context()
    t = ctx.new_tensor(Type.BF16, [4])
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    values = np.array([1, -2.5, 0, 3e38], np.float32)
    t.set((values.view(np.uint32) >> 16).astype(np.uint16))
    assert np.array_equal(t.to_float32(), (values.view(np.uint32) & 0xFFFF0000).view(np.float32))
    with pytest.raises(ggml.GgmlError, match="to_float32"):
        t.get()


def test_every_type_of_the_library_has_a_name() -> None:
    assert {t.value for t in Type} == {ggml.type_info(t).type for t in Type}
    with pytest.raises(ValueError, match="31"):
        ggml.type_info(31)


def test_wrong_arrays_are_refused() -> None:
    ctx = context()
    t = ctx.new_tensor(Type.F32, [4])
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    with pytest.raises(TypeError, match="float32"):
        t.set(np.zeros(4, np.float64))
    with pytest.raises(ValueError, match="16 bytes"):
        t.set(np.zeros(5, np.float32))


def test_a_transposed_array_is_refused() -> None:
    ctx = context()
    x = ctx.new_tensor(Type.F32, [3, 2])
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    values = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (6,), (1, 2, 1, 3)):
        x.set(values.reshape(shape))
        assert np.array_equal(x.get(), values.reshape(2, 3))
    with pytest.raises(ValueError, match=r"shape \(2, 3\), not \(3, 2\)"):
        x.set(values.reshape(3, 2))


def test_tensor_names_of_any_length_and_script() -> None:
    t = context().new_tensor(Type.F32, [4])
    t.name = "é" * 100  # cut by ggml in the middle of a character
    assert t.name.startswith("é" * 31)
    assert len(t.name.encode("utf-8", "surrogateescape")) == 63
