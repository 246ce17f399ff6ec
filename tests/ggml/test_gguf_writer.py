"""Writing GGUF: every type of value and tensor, read back by ggml and gguf-py; all or nothing on disk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
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


def test_data_in_parts(path: Path) -> None:
    size = 10 << 20

    def parts() -> Iterator[bytes]:
        for i in range(10):
            yield bytes([i]) * (1 << 20)

    writer = ggml.GgufWriter()
    writer.add_bytes("parts", Type.I8, [size], parts)
    big = allocated(Type.I8, [size])
    big.set(np.arange(size, dtype=np.int8))
    writer.add_tensor(big, "big")
    for _ in range(2):  # a writer can write again
        writer.write(path)
        file = read(path)
        file.map_tensors()
        tensors = file.tensors()
        assert np.array_equal(tensors["parts"].get(), np.repeat(np.arange(10, dtype=np.int8), 1 << 20))
        assert np.array_equal(tensors["big"].get(), big.get())
    for wrong in ((b"1",), (b"123", b"4567"), ()):
        other = ggml.GgufWriter()
        other.add_bytes("t", Type.I8, [4], lambda wrong=wrong: wrong)
        with pytest.raises(ValueError, match="'t' takes 4 bytes, the function gave"):
            other.write(path.with_name("wrong.gguf"))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_small(path: Path) -> None:
    code = (
        "import sys, resource, numpy as np, ggml\n"
        "def parts():\n"
        "    for _ in range(300): yield bytes(1 << 20)\n"
        "w = ggml.GgufWriter()\n"
        "c = ggml.Context(1 << 16); t = c.new_tensor(24, [64 << 20])\n"
        "ggml.alloc_ctx_tensors(c, ggml.Backend()); t.set(np.ones(64 << 20, np.int8))\n"
        "w.add_tensor(t, 'a'); w.add_bytes('b', 24, [300 << 20], parts)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "w.write(sys.argv[1])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert path.stat().st_size > 364 << 20
    assert int(done.stdout) < 30  # MiB


def test_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted() -> Iterator[bytes]:
        yield b"1"
        raise KeyboardInterrupt

    path.write_bytes(b"what was there")
    path.chmod(0o640)
    writer = ggml.GgufWriter()
    writer.set("k", "v")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space left"):
                writer.write(path)
    other = ggml.GgufWriter()
    other.add_bytes("t", Type.I8, [4], interrupted)
    with pytest.raises(KeyboardInterrupt):
        other.write(path)
    assert path.read_bytes() == b"what was there"
    assert os.listdir(path.parent) == [path.name]
    writer.write(str(path))
    assert read(path)["k"] == "v"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    writer = ggml.GgufWriter()
    with pytest.raises(FileNotFoundError):
        writer.write(tmp_path / "no such folder" / "x.gguf")
    with pytest.raises(OSError, match="not a regular file"):
        writer.write(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        writer.write(os.devnull)
    with pytest.raises(ValueError, match="null"):
        writer.write("a\0b")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="the limit is POSIX's")
def test_a_full_disk(path: Path) -> None:
    code = (
        "import sys, resource, signal, ggml\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "w = ggml.GgufWriter(); w.add_bytes('b', 24, [8 << 20], bytes(8 << 20))\n"
        "try: w.write(sys.argv[1])\n"
        "except OSError as error: print(error.strerror)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    ggml.GgufWriter().write(link)
    assert link.is_symlink()
    assert read(target).metadata() == {}


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
