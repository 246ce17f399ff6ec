"""Reading GGUF from memory: every metadata type, tensors in place, and files that are not what they say."""

from __future__ import annotations

import gc
import mmap
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ggml
from ggml import Type


def string(text: str | bytes) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def tensor_info(name: str, ne: list[int], type: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, type, offset)


def gguf(pairs: list[bytes], infos: list[bytes], data: bytes, version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(pairs)) + b"".join(pairs) + b"".join(infos)
    return head + b"\0" * (-len(head) % 32) + data


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def two_tensors() -> bytes:
    data = VALUES.tobytes().ljust(32, b"\0") + np.array([7, 8], np.int32).tobytes()
    infos = [tensor_info("a", [3, 2], Type.F32, 0), tensor_info("b", [2], Type.I32, 32)]
    pairs = [
        pair("general.architecture", 8, string("test")),
        pair("numbers", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3)),
        pair("words", 9, struct.pack("<IQ", 8, 2) + string("one") + string("zwei ü")),
    ]
    return gguf(pairs, infos, data)


def test_metadata_of_every_type() -> None:
    scalars = {
        0: ("<B", 200),
        1: ("<b", -100),
        2: ("<H", 60000),
        3: ("<h", -30000),
        4: ("<I", 4_000_000_000),
        5: ("<i", -2_000_000_000),
        6: ("<f", 0.25),
        7: ("<?", True),
        10: ("<Q", 2**63 + 1),
        11: ("<q", -(2**62)),
        12: ("<d", 0.1),
    }
    pairs = [pair(f"s{kind}", kind, struct.pack(code, value)) for kind, (code, value) in scalars.items()]
    for kind, (code, value) in scalars.items():
        array = struct.pack("<IQ", kind, 2) + struct.pack(code, value) * 2
        pairs.append(pair(f"a{kind}", 9, array))
    pairs.append(pair("empty", 9, struct.pack("<IQ", 6, 0)))
    metadata = ggml.GgufFile(gguf(pairs, [], b"")).metadata()
    for kind, (_, value) in scalars.items():
        assert metadata[f"s{kind}"] == value
        assert type(metadata[f"s{kind}"]) is type(value)
        assert list(metadata[f"a{kind}"]) == [value, value]
    assert len(metadata["empty"]) == 0


def test_text_that_is_not_utf8() -> None:
    metadata = ggml.GgufFile(gguf([pair("k", 8, string(b"a\xff"))], [], b"")).metadata()
    assert metadata["k"].encode("utf-8", "surrogateescape") == b"a\xff"


def test_tensors_and_metadata(two_tensors: bytes) -> None:
    file = ggml.GgufFile(two_tensors)
    assert file.metadata()["words"] == ["one", "zwei ü"]
    assert file.metadata()["numbers"].tolist() == [1, -2, 3]
    tensors = file.tensors()
    assert list(tensors) == ["a", "b"]
    assert tensors["a"].shape == (2, 3)
    with pytest.raises(ggml.GgmlError, match="no memory"):
        tensors["a"].get()
    file.map_tensors()
    file.map_tensors()
    assert np.array_equal(tensors["a"].get(), VALUES)
    assert tensors["b"].get().tolist() == [7, 8]


def test_file_without_tensors() -> None:
    file = ggml.GgufFile(gguf([], [], b""))
    assert file.tensors() == {}
    assert file.metadata() == {}
    file.map_tensors()


def test_tensors_lie_in_the_map_and_outlive_it(two_tensors: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(two_tensors)
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    gguf_file = ggml.GgufFile(memory)
    gguf_file.map_tensors()
    a = gguf_file.tensors()["a"]
    place = two_tensors.index(VALUES.tobytes())
    memory[place : place + 4] = struct.pack("<f", 42)  # no copy was made
    assert a.get()[0, 0] == 42
    with pytest.raises(BufferError):
        memory.close()
    del gguf_file
    gc.collect()
    assert a.get()[0, 0] == 42
    with pytest.raises(BufferError):  # the tensor holds it still
        memory.close()
    del a
    gc.collect()
    memory.close()


def test_graph_keeps_the_file(two_tensors: bytes) -> None:
    backend = ggml.Backend()
    file = ggml.GgufFile(bytearray(two_tensors))
    file.map_tensors()
    ctx = ggml.Context(1 << 16)
    y = ggml.scale(ctx, file.tensors()["a"], 2.0)
    graph = ggml.Graph(ctx, 8)
    graph.expand(y)
    ggml.alloc_ctx_tensors(ctx, backend)
    del file
    gc.collect()
    backend.compute(graph)
    assert np.array_equal(y.get(), 2 * VALUES)


def refuse(data: bytes, match: str | None = None) -> None:
    with pytest.raises(ggml.GgmlError, match=match):
        ggml.GgufFile(data)


def test_every_truncation_is_refused(two_tensors: bytes) -> None:
    for length in range(len(two_tensors)):
        refuse(two_tensors[:length])
    refuse(two_tensors[:-1], "'b' ends 1 bytes past its end")


def test_foreign_data() -> None:
    for data in (b"", b"GGUF", b"RIFF" + b"\0" * 100, b"ggml" + b"\0" * 100, b"\0" * 1000):
        refuse(data)


@pytest.mark.parametrize("version", [0, 1, 4, 2**32 - 1])
def test_unknown_version(version: int) -> None:
    refuse(gguf([], [], b"", version))


@pytest.mark.parametrize("count", [2**31, 2**32, 2**60, 2**63 - 1, 2**63, 2**64 - 1])
def test_hostile_counts(count: int) -> None:
    refuse(b"GGUF" + struct.pack("<IQQ", 3, count, 0) + b"\0" * 64)
    refuse(b"GGUF" + struct.pack("<IQQ", 3, 0, count) + b"\0" * 64)
    refuse(gguf([string("k") + struct.pack("<IQ", 8, count)], [], b"\0" * 64))
    refuse(gguf([struct.pack("<Q", count) + b"k"], [], b"\0" * 64))
    for kind in (0, 5, 8, 12):
        refuse(gguf([string("k") + struct.pack("<IIQ", 9, kind, count)], [], b"\0" * 64))
    refuse(gguf([], [tensor_info("t", [count], Type.F32, 0)], b"\0" * 64))
    refuse(gguf([], [tensor_info("t", [4, count], Type.F32, 0)], b"\0" * 64))
    refuse(gguf([], [tensor_info("t", [4], Type.F32, count)], b"\0" * 64))


@pytest.mark.parametrize(
    "infos",
    [
        [tensor_info("t", [1] * 5, Type.F32, 0)],
        [tensor_info("t", [31], Type.Q8_0, 0)],
        [tensor_info("t", [32], 31, 0)],
        [tensor_info("t", [32], 99, 0)],
        [tensor_info("t" * 64, [4], Type.F32, 0)],
        [tensor_info("t", [4], Type.F32, 0), tensor_info("t", [4], Type.F32, 32)],
        [tensor_info("t", [4], Type.F32, 7)],
        [tensor_info("t", [4], Type.F32, 0), tensor_info("u", [4], Type.F32, 0)],
        [tensor_info("t", [2**32, 2**32], Type.F32, 0)],
    ],
)
def test_impossible_tensors(infos: list[bytes]) -> None:
    refuse(gguf([], infos, b"\0" * 64))


def test_duplicate_and_odd_keys() -> None:
    value = struct.pack("<I", 1)
    refuse(gguf([pair("k", 4, value), pair("k", 4, value)], [], b""))
    refuse(gguf([pair("k", 13, value)], [], b""))
    refuse(gguf([string("k") + struct.pack("<IIQ", 9, 9, 1)], [], b""))
    for alignment in (0, 3, 2**31 + 1):
        refuse(gguf([pair("general.alignment", 4, struct.pack("<I", alignment))], [], b""))


def read_all(data: bytes) -> None:
    """What a loader does with a file."""
    file = ggml.GgufFile(data)
    file.metadata()
    file.map_tensors()
    for tensor in file.tensors().values():
        tensor.to_float32()
        assert len(tensor.shape) <= 4


def flip(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.randrange(256)


def overwrite(rng: random.Random, data: bytearray) -> None:
    value = rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
    at = rng.randrange(len(data) - 8)
    data[at : at + 8] = struct.pack("<Q", value)


def cut(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 20)]


@pytest.mark.parametrize("mutate", [flip, overwrite, cut])
def test_mutated_headers(two_tensors: bytes, mutate: Callable[[random.Random, bytearray], None]) -> None:
    rng = random.Random(7)
    head = two_tensors.index(VALUES.tobytes())
    refused = 0
    for _ in range(500):
        header = bytearray(two_tensors[:head])
        mutate(rng, header)
        try:
            read_all(bytes(header) + two_tensors[head:])
        except ggml.GgmlError:
            refused += 1
    assert refused > 100
