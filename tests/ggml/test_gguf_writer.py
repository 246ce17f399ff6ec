"""Writing GGUF: every type of value and tensor, read back by ggml and gguf-py."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggml
from ggml import GgufType, Type

INTEGERS = {
    GgufType.UINT8: np.uint8,
    GgufType.INT8: np.int8,
    GgufType.UINT16: np.uint16,
    GgufType.INT16: np.int16,
    GgufType.UINT32: np.uint32,
    GgufType.INT32: np.int32,
    GgufType.UINT64: np.uint64,
    GgufType.INT64: np.int64,
}
FLOATS = {GgufType.FLOAT32: np.float32, GgufType.FLOAT64: np.float64}


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


def test_values_of_every_type(path: Path) -> None:
    from gguf import GGUFReader, GGUFValueType

    expected: dict[str, tuple[Any, GgufType, GgufType | None]] = {}
    writer = ggml.GgufWriter()

    def put(key: str, value: Any, type: GgufType | None, found: GgufType, of: GgufType | None = None) -> None:
        writer.set(key, value, type)
        expected[key] = (value, found, of)

    put("general.architecture", "test", None, GgufType.STRING)
    for kind, dtype in INTEGERS.items():
        limits = np.iinfo(dtype)
        for end, value in (("min", int(limits.min)), ("max", int(limits.max))):
            put(f"int.{kind.name}.{end}", value, kind, kind)
            put(f"numpy.{kind.name}.{end}", dtype(value), None, kind)
        ends = [int(limits.min), 0, int(limits.max)]
        put(f"list.{kind.name}", ends, kind, GgufType.ARRAY, kind)
        put(f"array.{kind.name}", np.array(ends, dtype), None, GgufType.ARRAY, kind)
        put(f"empty.{kind.name}", [], kind, GgufType.ARRAY, kind)
    for kind, dtype in FLOATS.items():
        put(f"float.{kind.name}", 0.25, kind, kind)
        put(f"numpy.{kind.name}", dtype(0.1), None, kind)
        put(f"array.{kind.name}", np.array([1e-3, np.inf, -0.0], dtype), None, GgufType.ARRAY, kind)
    put("float", 0.1, None, GgufType.FLOAT64)
    put("floats", (0.1, 1e300), None, GgufType.ARRAY, GgufType.FLOAT64)
    put("true", True, None, GgufType.BOOL)
    put("false", np.False_, None, GgufType.BOOL)
    put("bools", [True, False], None, GgufType.ARRAY, GgufType.BOOL)
    put("bool array", np.array([False, True]), None, GgufType.ARRAY, GgufType.BOOL)
    put("text", "ünï\nçødé", None, GgufType.STRING)
    put("no text", "", None, GgufType.STRING)
    put("texts", ["", "a", "ß" * 1000], None, GgufType.ARRAY, GgufType.STRING)
    put("text array", np.array(["one", "two"]), None, GgufType.ARRAY, GgufType.STRING)
    put("no texts", [], GgufType.STRING, GgufType.ARRAY, GgufType.STRING)
    writer.write(path)

    file = read(path)
    metadata = file.metadata()
    assert list(metadata) == list(expected)
    theirs = GGUFReader(path).fields
    for key, (value, found, of) in expected.items():
        assert key in file
        assert file.key_type(key) == found
        assert file.element_type(key) == of
        assert np.array_equal(metadata[key], value)
        assert np.array_equal(file[key], value)
        assert theirs[key].types == [GGUFValueType(t) for t in (found, of) if t is not None] or not len(value)
        assert np.array_equal(theirs[key].contents(), value)
        if of is not None and of != GgufType.STRING:
            assert metadata[key].dtype == {**INTEGERS, **FLOATS, GgufType.BOOL: np.bool_}[of]
    assert metadata["true"] is True
    assert "nothing" not in file
    assert "text\0" not in file


@pytest.mark.parametrize("type", list(Type), ids=lambda t: t.name)
def test_tensors_of_every_type(type: Type, path: Path) -> None:
    from gguf import GGMLQuantizationType, GGUFReader

    tensor = allocated(type, [256, 3])
    data = np.random.default_rng(1).integers(0, 256, tensor.nbytes).astype(np.uint8).tobytes()
    writer = ggml.GgufWriter()
    writer.add_bytes("bytes", type, [256, 3], data)
    writer.write(path)
    file = read(path)
    info = file.tensor_infos()["bytes"]
    assert (info.type, info.ne, info.offset, info.size) == (type, (256, 3, 1, 1), 0, len(data))
    assert path.read_bytes()[file.data_offset :][: len(data)] == data
    if (
        type in {t.value for t in GGMLQuantizationType} and type != Type.Q8_1
    ):  # of which gguf has another idea
        (theirs,) = GGUFReader(path).tensors
        assert theirs.tensor_type == type
        assert theirs.data.tobytes() == data


def test_tensors_from_everywhere(path: Path) -> None:
    from gguf import GGUFReader

    rng = np.random.default_rng(2)
    arrays = {
        "f32": rng.standard_normal((2, 3, 5)).astype(np.float32),
        "f16": rng.standard_normal((7,)).astype(np.float16),
        "f64": rng.standard_normal((2, 2)),
        "i8": np.arange(-3, 4, dtype=np.int8),
        "i16": np.arange(5, dtype=np.int16),
        "i32": np.arange(24, dtype=np.int32).reshape(2, 3, 2, 2),
        "i64": np.array([2**40], np.int64),
    }
    odd = {
        "big endian": np.arange(3, dtype=">f4"),
        "transposed": arrays["f32"][0].T,
        "reversed": arrays["i32"][::-1],
        "empty": np.empty((4, 0), np.float32),
    }
    tensor = allocated(Type.F32, [4, 2])
    tensor.name = "tensor"
    tensor.set(np.zeros((2, 4), np.float32))
    with ggml.GgufWriter() as writer:
        for name, array in {**arrays, **odd}.items():
            writer.add_array(name, array)
        writer.add_tensor(tensor)
        writer.add_tensor(tensor, "again")
        values = np.arange(8, dtype=np.float32).reshape(2, 4)
        tensor.set(values)  # what counts is what is there when the file is written
        writer.write(path)
    assert writer.closed
    file = read(path)
    file.map_tensors()
    tensors = file.tensors()
    expected = {**arrays, **odd, "tensor": values, "again": values}
    assert list(tensors) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(tensors[name].get().reshape(array.shape), array)
    theirs = {t.name: t.data for t in GGUFReader(path).tensors if t.name != "empty"}
    assert set(theirs) == set(expected) - {"empty"}
    for name, data in theirs.items():
        assert np.array_equal(data, expected[name])


@pytest.mark.parametrize("alignment", [8, 16, 32, 64, 4096])
def test_alignment(alignment: int, path: Path) -> None:
    from gguf import GGUFReader

    writer = ggml.GgufWriter(alignment)
    assert writer.alignment == alignment
    for i in range(3):
        writer.add_bytes(f"t{i}", Type.I8, [i + 1], bytes([i] * (i + 1)))
    writer.write(path)
    file = read(path)
    assert file.version == 3
    assert file.alignment == alignment
    assert file.data_offset % alignment == 0
    assert ("general.alignment" in file) == (alignment != 32)
    for i, (name, info) in enumerate(file.tensor_infos().items()):
        assert (name, info.offset, info.size) == (f"t{i}", i * alignment, i + 1)
    assert path.stat().st_size == file.data_offset + 3 * alignment
    assert [t.data.tolist() for t in GGUFReader(path).tensors] == [[0], [1, 1], [2, 2, 2]]
    if alignment >= 8:
        file.map_tensors()


def test_odd_but_possible_text(path: Path) -> None:
    writer = ggml.GgufWriter()
    broken = b"a\xff".decode("utf-8", "surrogateescape")
    writer.set(broken, [broken])
    writer.add_array(broken, np.zeros(1, np.float32))
    writer.write(path)
    assert read(path).metadata() == {broken: [broken]}
    assert list(read(path).tensors()) == [broken]
    with pytest.raises(ValueError, match="surrogates not allowed"):
        writer.set("k", "\ud800")


def test_the_writer_keeps_a_tensor_alive(path: Path) -> None:
    import gc

    writer = ggml.GgufWriter()
    tensor = allocated(Type.I32, [3])
    tensor.set(np.array([1, 2, 3], np.int32))
    writer.add_tensor(tensor, "t")
    del tensor
    gc.collect()
    writer.write(path)
    file = read(path)
    file.map_tensors()
    assert file.tensors()["t"].get().tolist() == [1, 2, 3]


def test_tensors_are_added_by_several_threads(tmp_path: Path) -> None:
    writer = ggml.GgufWriter()

    def add(thread: int) -> None:
        for i in range(300):
            writer.add_array(f"{thread}.{i}", np.full(8, 1000 * thread + i, np.int32))

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=add, args=(thread,)) for thread in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    writer.write(tmp_path / "x.gguf")
    file = read(tmp_path / "x.gguf")
    file.map_tensors()
    assert len(file.tensors()) == 900
    for name, tensor in file.tensors().items():
        thread, i = map(int, name.split("."))
        assert (tensor.get() == 1000 * thread + i).all()


def test_a_data_function_that_adds_a_tensor(tmp_path: Path) -> None:
    writer = ggml.GgufWriter()

    def data() -> list[bytes]:
        writer.add_array("y", np.zeros(8, np.float32))
        return [bytes(32)]

    writer.add_bytes("x", Type.F32, [8], data)
    with pytest.raises(ggml.GgmlError, match="a data function cannot add"):
        writer.write(tmp_path / "x.gguf")
    assert list(tmp_path.iterdir()) == []


def test_an_addition_that_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ggml.GgufWriter()
    writer.add_array("x", np.zeros(8, np.float32))

    class Interrupted(list):  # type: ignore[type-arg]
        def append(self, item: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_tensors", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        writer.add_array("y", np.zeros(8, np.float32))
    with pytest.raises(ggml.GgmlError, match="adding tensor 'y' was interrupted"):
        writer.write(tmp_path / "x.gguf")
