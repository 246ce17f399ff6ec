"""Tensors to and from NumPy, and quantisation, for every type."""

from __future__ import annotations

import gc

import numpy as np
import numpy.typing as npt
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
# Types for intermediate results of a dot product: ggml has no function that quantises rows to them.
INTERMEDIATE = {Type.Q8_1, Type.Q8_K}
QUANTISED = [t for t in Type if ggml.type_info(t).block_size > 1]


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


def round_trip(type: Type, values: npt.NDArray[np.float32]) -> tuple[bytes, npt.NDArray[np.float32]]:
    data = ggml.quantize(values, type, np.ones(values.shape[-1], np.float32))
    ctx = context()
    t = ctx.new_tensor(type, list(reversed(values.shape)))
    ggml.alloc_ctx_tensors(ctx, ggml.Backend())
    assert t.nbytes == len(data)
    t.set(np.frombuffer(data, np.uint8))
    return data, t.to_float32()


# Largest relative error (root mean square) that a type may make on normally distributed values.
QUANTISATION_ERROR = {
    Type.Q4_0: 0.12,
    Type.Q4_1: 0.10,
    Type.Q5_0: 0.06,
    Type.Q5_1: 0.05,
    Type.Q8_0: 0.01,
    Type.Q2_K: 0.40,
    Type.Q3_K: 0.22,
    Type.Q4_K: 0.11,
    Type.Q5_K: 0.06,
    Type.Q6_K: 0.03,
    Type.IQ2_XXS: 0.60,
    Type.IQ2_XS: 0.55,
    Type.IQ2_S: 0.50,
    Type.IQ3_XXS: 0.35,
    Type.IQ3_S: 0.30,
    Type.IQ1_S: 0.80,
    Type.IQ1_M: 0.80,
    Type.IQ4_NL: 0.11,
    Type.IQ4_XS: 0.11,
    Type.TQ1_0: 1.0,
    Type.TQ2_0: 1.0,
    Type.MXFP4: 0.20,
    Type.NVFP4: 0.20,
    Type.Q1_0: 0.80,
    Type.Q2_0: 1.0,
}


@pytest.mark.parametrize("type", [t for t in QUANTISED if t not in INTERMEDIATE], ids=lambda t: t.name)
def test_quantise_round_trip(type: Type) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    values = np.random.default_rng(2).standard_normal((2, 512)).astype(np.float32)
    data, back = round_trip(type, values)
    error = float(np.sqrt(np.mean((back - values) ** 2)))
    assert error < QUANTISATION_ERROR[type]
    assert error > 0
    try:
        theirs = dequantize(np.frombuffer(data, np.uint8).reshape(2, -1), GGMLQuantizationType(type.value))
    except (NotImplementedError, ValueError):
        return  # gguf has no code for this type
    assert np.allclose(back, theirs, rtol=1e-5, atol=1e-6)


def test_quantise_refuses() -> None:
    rows = np.zeros((2, 256), np.float32)
    for type in (*INTERMEDIATE, Type.I8, Type.I32):
        with pytest.raises(ggml.GgmlError):
            ggml.quantize(rows, type)
    with pytest.raises(ValueError, match="needs an importance matrix"):
        ggml.quantize(rows, Type.IQ2_XXS)
    with pytest.raises(ValueError, match="one value for each column"):
        ggml.quantize(rows, Type.IQ2_XXS, np.ones(3, np.float32))
    with pytest.raises(ValueError, match="blocks of 32"):
        ggml.quantize(np.zeros((2, 31), np.float32), Type.Q8_0)
    with pytest.raises(ValueError, match="no such ggml type"):
        ggml.quantize(rows, 31)


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


def test_tensor_names_of_any_length_and_script() -> None:
    t = context().new_tensor(Type.F32, [4])
    t.name = "é" * 100  # cut by ggml in the middle of a character
    assert t.name.startswith("é" * 31)
    assert len(t.name.encode("utf-8", "surrogateescape")) == 63
