"""Quantisation of rows and back: every type, importance matrices, threads, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import ggml
from ggml import Type

# Types for intermediate results of a dot product: ggml has no function that quantises rows to them.
INTERMEDIATE = {Type.Q8_1, Type.Q8_K}
QUANTISED = [t for t in Type if ggml.type_info(t).block_size > 1 and t not in INTERMEDIATE]
# The first use of these in a process builds tables for seconds.
SLOW = {Type.IQ1_S, Type.IQ1_M, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS, Type.IQ3_S}

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


def error_of(values: npt.NDArray[Any], back: npt.NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((back - values) ** 2)))


@pytest.mark.parametrize("type", QUANTISED, ids=lambda t: t.name)
def test_round_trip(type: Type) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    values = np.random.default_rng(2).standard_normal((2, 512)).astype(np.float32)
    data = ggml.quantize(values, type, np.ones(512, np.float32))
    back = ggml.dequantize(data, type, [512, 2])
    assert back.shape == values.shape
    assert 0 < error_of(values, back) < QUANTISATION_ERROR[type]
    context = ggml.Context(1 << 16)
    tensor = context.new_tensor(type, [512, 2])
    ggml.alloc_ctx_tensors(context, ggml.Backend())
    assert tensor.nbytes == len(data)
    tensor.set(np.frombuffer(data, np.uint8))
    assert np.array_equal(tensor.to_float32(), back)
    try:
        theirs = dequantize(np.frombuffer(data, np.uint8).reshape(2, -1), GGMLQuantizationType(type.value))
    except (NotImplementedError, ValueError):
        return  # gguf has no code for this type
    assert np.allclose(back, theirs, rtol=1e-5, atol=1e-6)


# ggml's functions for these do not look at the importance matrix.
UNWEIGHTED = {Type.Q8_0, Type.TQ1_0, Type.TQ2_0, Type.MXFP4, Type.NVFP4, Type.Q1_0, Type.Q2_0}


@pytest.mark.parametrize("type", QUANTISED, ids=lambda t: t.name)
def test_importance_matrix(type: Type) -> None:
    values = np.random.default_rng(3).standard_normal((16, 512)).astype(np.float32)
    important = np.arange(512) % 4 == 0
    flat = ggml.dequantize(ggml.quantize(values, type, np.ones(512, np.float32)), type, [512, 16])
    weights = np.where(important, 20, 1).astype(np.float32)
    back = ggml.dequantize(ggml.quantize(values, type, weights), type, [512, 16])
    before = error_of(values[:, important], flat[:, important])
    after = error_of(values[:, important], back[:, important])
    if type in UNWEIGHTED:
        assert np.array_equal(flat, back)
    else:
        assert after < 0.95 * before


def test_which_types_need_an_importance_matrix() -> None:
    needed = {t for t in Type if ggml.quantize_requires_imatrix(t)}
    assert needed == {Type.IQ2_XXS, Type.IQ2_XS, Type.IQ1_S}
    rows = np.zeros((2, 256), np.float32)
    for type in needed:
        with pytest.raises(ValueError, match="needs an importance matrix"):
            ggml.quantize(rows, type)
    with pytest.raises(ValueError, match="no such ggml type"):
        ggml.quantize_requires_imatrix(31)


@pytest.mark.parametrize("type", [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_K], ids=lambda t: t.name)
def test_threads_give_the_same(type: Type) -> None:
    values = np.random.default_rng(4).standard_normal((3, 7, 256)).astype(np.float32)
    weights = np.linspace(0, 1, 256, dtype=np.float32)
    expected = ggml.quantize(values, type, weights)
    for n in (2, 3, 20, 21, 100):
        assert ggml.quantize(values, type, weights, n_threads=n) == expected
    assert ggml.quantize(values[:, :, ::-1], type) == ggml.quantize(values[:, :, ::-1].copy(), type)


def test_the_gil_is_released() -> None:
    values = np.random.default_rng(5).standard_normal((2000, 256)).astype(np.float32)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (ggml.quantize(values, Type.Q2_K), done.set()))
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 100


def test_no_rows() -> None:
    assert ggml.quantize(np.zeros((0, 32), np.float32), Type.Q8_0, n_threads=4) == b""
    assert ggml.dequantize(b"", Type.Q8_0, [32, 0]).shape == (0, 32)


def test_quantise_refuses() -> None:
    rows = np.zeros((2, 256), np.float32)
    for type in (*INTERMEDIATE, Type.I8, Type.I16, Type.I32, Type.I64, Type.F64):
        with pytest.raises(ggml.GgmlError, match="no function that quantises"):
            ggml.quantize(rows, type)
    with pytest.raises(ValueError, match="one value for each column"):
        ggml.quantize(rows, Type.Q4_0, np.ones(3, np.float32))
    with pytest.raises(ValueError, match="blocks of 32"):
        ggml.quantize(np.zeros((2, 31), np.float32), Type.Q8_0)
    with pytest.raises(ValueError, match="blocks of 256, not 0"):
        ggml.quantize(np.zeros((2, 0), np.float32), Type.Q4_K)
    with pytest.raises(ValueError, match="one dimension or more"):
        ggml.quantize(np.zeros((), np.float32), Type.Q8_0)
    for n in (0, -1, 257):
        with pytest.raises(ValueError, match="n_threads is from 1 to 256"):
            ggml.quantize(rows, Type.Q8_0, n_threads=n)
    for type in (31, -1, 10**6):
        with pytest.raises(ValueError, match="no such ggml type"):
            ggml.quantize(rows, type)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(odd: float) -> None:
    rows = np.zeros((2, 256), np.float32)
    rows[1, 7] = odd
    for type in QUANTISED:
        with pytest.raises(ValueError, match="infinite or not a number"):
            ggml.quantize(rows, type, np.ones(256, np.float32))
        with pytest.raises(ValueError, match="importance matrix must be finite"):
            ggml.quantize(np.zeros_like(rows), type, rows[1])
    for type in (Type.F32, Type.F16, Type.BF16):
        back = ggml.dequantize(ggml.quantize(rows, type), type, [256, 2])
        assert np.array_equal(back, rows, equal_nan=True)
    with pytest.raises(ValueError, match="from 0 to 1e18"):
        ggml.quantize(np.zeros_like(rows), Type.Q4_K, np.full(256, -1, np.float32))


@pytest.mark.parametrize("type", QUANTISED, ids=lambda t: t.name)
def test_extreme_values(type: Type) -> None:
    """Values that block scales cannot hold are refused, all others are stored, however small."""
    rng = np.random.default_rng(6)
    zeros = np.zeros(512, np.float32)
    for scale in (0, 1e-45, 1e-30, 6e4):
        values = (rng.uniform(-1, 1, (4, 512)) * scale).astype(np.float32)
        for importance in (0, 1e-40, 1, 1e18):
            data = ggml.quantize(values, type, zeros + np.float32(importance), n_threads=2)
            ggml.dequantize(data, type, [512, 4])
        with pytest.raises(ValueError, match="from 0 to 1e18"):
            ggml.quantize(values, type, zeros + np.float32(1e19))
    for scale in (1e5, 1e20, 3e38):
        values[3, 511] = scale
        with pytest.raises(ValueError, match="larger than 65504"):
            ggml.quantize(values, type, zeros)


def test_arrays_that_no_memory_holds() -> None:
    with pytest.raises(MemoryError):
        ggml.quantize(np.broadcast_to(np.float64(1), (1 << 40, 32)), Type.Q8_0)


def test_any_bytes_can_be_dequantised() -> None:
    rng = np.random.default_rng(7)
    for type in Type:
        info = ggml.type_info(type)
        data = rng.integers(0, 256, 300 * info.type_size).astype(np.uint8)
        if type == Type.Q8_1 or type == Type.Q8_K:
            with pytest.raises(ggml.GgmlError, match="cannot convert"):
                ggml.dequantize(data, type, [info.block_size * 300])
            continue
        expected = ggml.dequantize(data, type, [info.block_size * 100, 3])
        assert expected.shape == (3, info.block_size * 100)
        shifted = np.zeros(len(data) + 1, np.uint8)
        shifted[1:] = data  # not aligned to anything
        again = ggml.dequantize(shifted[1:], type, [info.block_size * 100, 3])
        assert np.array_equal(again, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64])
def test_numbers_to_float32(dtype: type[np.generic]) -> None:
    values = np.arange(-10, 10).reshape(4, 5).astype(dtype)
    type = Type[np.dtype(dtype).name.upper().replace("FLOAT", "F").replace("INT", "I")]
    assert np.array_equal(ggml.dequantize(values, type, [5, 4]), values.astype(np.float32))


def test_dequantise_refuses() -> None:
    data = bytes(34)
    with pytest.raises(ValueError, match="has 34 bytes, the data 33"):
        ggml.dequantize(data[1:], Type.Q8_0, [32])
    with pytest.raises(ValueError, match="has 68 bytes, the data 34"):
        ggml.dequantize(data, Type.Q8_0, [32, 2])
    with pytest.raises(ValueError, match="blocks of 32"):
        ggml.dequantize(data, Type.Q8_0, [33])
    with pytest.raises(ValueError, match="blocks of 32"):
        ggml.dequantize(data, Type.Q8_0, [-32])
    with pytest.raises(ValueError, match="cannot be negative"):
        ggml.dequantize(data, Type.Q8_0, [32, -1])
    with pytest.raises(ValueError, match="larger than any memory"):
        ggml.dequantize(data, Type.Q8_0, [2**40, 2**40])
    for ne in ([], [32, 1, 1, 1, 1]):
        with pytest.raises(ValueError, match="one to four dimensions"):
            ggml.dequantize(data, Type.Q8_0, ne)
    with pytest.raises(ValueError, match="not contiguous"):
        ggml.dequantize(np.zeros(68, np.uint8)[::2], Type.Q8_0, [32])
    with pytest.raises(ValueError, match="no such ggml type"):
        ggml.dequantize(data, 31, [32])
    with pytest.raises(TypeError):
        ggml.dequantize("text", Type.Q8_0, [32])
