"""What the writer of GGUF refuses: values, keys, tensors, alignments, and use after closing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggml
from ggml import GgufType, Type


def read(path: Path) -> ggml.GgufFile:
    return ggml.GgufFile(np.fromfile(path, np.uint8))


def allocated(type: Type, ne: list[int]) -> ggml.Tensor:
    context = ggml.Context(1 << 16)
    tensor = context.new_tensor(type, ne)
    ggml.alloc_ctx_tensors(context, ggml.Backend())
    return tensor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.gguf"


@pytest.mark.parametrize("alignment", [0, 1, 4, 12, 31, -8, 2**32, 2**70])
def test_impossible_alignment(alignment: int) -> None:
    with pytest.raises(ValueError, match="power of two of at least 8"):
        ggml.GgufWriter(alignment)


@pytest.mark.parametrize(
    ("value", "type", "error", "match"),
    [
        (1, None, TypeError, "an int needs a type"),
        ([1, 2], None, TypeError, "an int needs a type"),
        ([], None, TypeError, "empty array needs a type"),
        (None, None, TypeError, "NoneType is not a type of GGUF"),
        (b"x", None, TypeError, "bytes is not a type of GGUF"),
        ({}, None, TypeError, "dict is not a type of GGUF"),
        ([None], None, TypeError, "not a number"),
        ([[1]], GgufType.INT8, TypeError, "not a number"),
        (np.float16(1), None, TypeError, "float16 is not a type of GGUF"),
        (1j, None, TypeError, "complex is not a type of GGUF"),
        (np.complex64(1), None, TypeError, "complex64 is not a type of GGUF"),
        ([True, 1.0], None, TypeError, "several types"),
        (["a", 1], None, TypeError, "strings and other values"),
        ([1.0, "a"], None, TypeError, "not a number"),
        ("a", GgufType.UINT8, TypeError, "not of type UINT8"),
        (1.0, GgufType.INT32, TypeError, "not of type INT32"),
        (True, GgufType.INT32, TypeError, "not of type INT32"),
        (1, GgufType.BOOL, TypeError, "not of type BOOL"),
        (1, GgufType.STRING, TypeError, "1 is not of type STRING"),
        ([1], GgufType.STRING, TypeError, "strings and other values"),
        ([1], GgufType.ARRAY, TypeError, "that of an array's elements"),
        (np.zeros((2, 2)), None, ValueError, "one dimension, not 2"),
        (np.zeros(()), None, ValueError, "one dimension, not 0"),
        (-1, GgufType.UINT8, ValueError, "-1 is not in the range of UINT8"),
        (256, GgufType.UINT8, ValueError, "256 is not in the range"),
        ([2**63, 0], GgufType.INT64, ValueError, "range of INT64"),
        ([-1, 2**63], GgufType.UINT64, ValueError, "-1 is not in the range"),
        (np.array([300]), GgufType.INT8, ValueError, "300 is not in the range"),
        (1e39, GgufType.FLOAT32, ValueError, "range of FLOAT32"),
        (10**400, GgufType.FLOAT64, ValueError, "range of FLOAT64"),
        ("a\0b", None, ValueError, "code zero"),
        (["a\0b"], None, ValueError, "code zero"),
        (1, 13, ValueError, "13"),
    ],
)
def test_wrong_values(
    value: Any, type: GgufType | None, error: type[Exception], match: str, path: Path
) -> None:
    writer = ggml.GgufWriter()
    with pytest.raises(error, match=match):
        writer.set("k", value, type)
    writer.write(path)
    assert read(path).metadata() == {}


def test_wrong_keys() -> None:
    writer = ggml.GgufWriter()
    writer.set("k", "v")
    for key, match in (
        ("k", "'k': this key has a value already"),
        ("", "1 to 65535 bytes"),
        ("k" * 65536, "1 to 65535 bytes"),
        ("a\0b", "code zero"),
        ("general.alignment", r"GgufWriter\(alignment"),
    ):
        for value in ("text", True, ["text"], [True]):
            with pytest.raises(ValueError, match=match):
                writer.set(key, value)


def test_wrong_tensors(path: Path) -> None:
    writer = ggml.GgufWriter()
    f32 = np.zeros(4, np.float32)
    writer.add_array("t", f32)

    def refuse(match: str, add: Callable[[], None], error: type[Exception] = ValueError) -> None:
        with pytest.raises(error, match=match):
            add()

    refuse("'t': there is a tensor of this name", lambda: writer.add_array("t", f32))
    refuse("at most 63 bytes, not 64", lambda: writer.add_array("ß" * 32, f32))
    refuse("needs a name", lambda: writer.add_array("", f32))
    refuse("code zero", lambda: writer.add_array("a\0", f32))
    refuse("dimensions, not 5", lambda: writer.add_array("u", f32.reshape(1, 1, 1, 1, 4)))
    refuse("last size", lambda: writer.add_array("u", f32[:0].reshape(0, 4)))
    refuse("no type for uint8", lambda: writer.add_array("u", f32.view(np.uint8)), TypeError)
    refuse("no type for bool", lambda: writer.add_array("u", f32 > 0), TypeError)
    refuse("takes 16 bytes, the data has 12", lambda: writer.add_bytes("u", Type.F32, [4], f32[:3]))
    refuse("blocks of 32, not 31", lambda: writer.add_bytes("u", Type.Q8_0, [31], b""))
    refuse("no such ggml type", lambda: writer.add_bytes("u", 31, [32], b""))
    refuse("dimensions, not 0", lambda: writer.add_bytes("u", Type.F32, [], b""))
    refuse("negative", lambda: writer.add_bytes("u", Type.F32, [-4], b""))
    refuse("larger than any memory", lambda: writer.add_bytes("u", Type.F32, [2**40, 2**40], b""))
    refuse("not contiguous", lambda: writer.add_bytes("u", Type.F32, [2], f32[::2]))
    for i in range(15):
        writer.add_bytes(f"huge {i}", Type.I8, [2**58], lambda: ())
    refuse("larger than any disk", lambda: writer.add_bytes("u", Type.I8, [2**58], lambda: ()))

    named = ggml.Context(1 << 16).new_tensor(Type.F32, [4])
    named.name = "u"
    refuse("has no memory", lambda: writer.add_tensor(named), ggml.GgmlError)
    refuse("needs a name", lambda: writer.add_tensor(allocated(Type.F32, [4])))
    tensor = allocated(Type.F32, [4, 2])
    view = ggml.transpose(ggml.Context(1 << 16), tensor)
    refuse("not contiguous", lambda: writer.add_tensor(view, "u"), ggml.GgmlError)


def test_a_tensor_that_went_away(path: Path) -> None:
    context = ggml.Context(1 << 16)
    tensor = context.new_tensor(Type.F32, [4])
    ggml.alloc_ctx_tensors(context, ggml.Backend())
    writer = ggml.GgufWriter()
    writer.add_tensor(tensor, "t")
    context.reset()
    with pytest.raises(ggml.GgmlError, match="reset"):
        writer.write(path)
    assert os.listdir(path.parent) == []


def test_closed(path: Path) -> None:
    writer = ggml.GgufWriter()
    assert not writer.closed
    writer.close()
    writer.close()
    uses: list[Callable[[], None]] = [
        lambda: writer.set("k", "v"),
        lambda: writer.add_array("t", np.zeros(1, np.float32)),
        lambda: writer.add_bytes("t", Type.I8, [1], b"1"),
        lambda: writer.add_tensor(allocated(Type.F32, [1]), "t"),
        lambda: writer.write(path),
    ]
    for use in uses:
        with pytest.raises(ggml.GgmlError, match="closed"):
            use()


def test_closed_file(path: Path) -> None:
    writer = ggml.GgufWriter()
    writer.set("k", "v")
    writer.add_array("t", np.arange(4, dtype=np.float32))
    writer.write(path)
    with read(path) as file:
        file.map_tensors()
        tensor = file.tensors()["t"]
        assert not file.closed
    assert file.closed
    file.close()
    assert tensor.get().tolist() == [0, 1, 2, 3]  # it keeps the memory
    uses: list[Callable[[], object]] = [
        file.metadata,
        file.tensors,
        file.tensor_infos,
        file.map_tensors,
        lambda: "k" in file,
        lambda: file["k"],
        lambda: file.key_type("k"),
        lambda: file.element_type("k"),
        lambda: file.version,
        lambda: file.alignment,
        lambda: file.data_offset,
    ]
    for use in uses:
        with pytest.raises(ggml.GgmlError, match="closed"):
            use()


def test_unknown_keys(path: Path) -> None:
    ggml.GgufWriter().write(path)
    file = read(path)
    for use in (file.__getitem__, file.key_type, file.element_type):
        with pytest.raises(KeyError, match="nothing"):
            use("nothing")
