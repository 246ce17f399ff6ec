"""The tiny random NeMo models of ``tests/fixtures``, converted once a session."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

if TYPE_CHECKING:
    import asr

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


@dataclass(frozen=True)
class NemoFixture:
    """A ``.nemo`` and what NeMo computed with it; ``scripts/make_fixtures.py`` describes the arrays."""

    name: str
    checkpoint: Path
    arrays: dict[str, npt.NDArray[np.float32]]
    mels: dict[str, npt.NDArray[np.float32]]
    hypotheses: dict[str, dict[str, Any]]
    contexts: list[tuple[int, int]]


@pytest.fixture(scope="session")
def fixtures_folder() -> Path:
    """``tests/fixtures``."""
    return FIXTURES


@pytest.fixture(scope="session")
def clips() -> dict[str, npt.NDArray[np.float32]]:
    """The clips ``short``, ``medium`` and ``long``: float32 at 16 kHz."""
    import soundfile as sf

    paths = sorted((FIXTURES / "waveforms").glob("*.flac"))
    return {path.stem: sf.read(path, dtype="float32")[0] for path in paths}


@pytest.fixture(scope="session")
def nemo_fixture() -> Callable[[str], NemoFixture]:
    """A function that reads a fixture by name."""

    @cache
    def read(name: str) -> NemoFixture:
        folder = FIXTURES / name
        reference = json.loads((folder / "reference.json").read_text("utf-8"))
        with np.load(folder / "reference.npz") as file:
            arrays = dict(file)
        with np.load(FIXTURES / "mel" / f"{reference['mel']}.npz") as file:
            mels = dict(file)
        contexts = [(left, right) for left, right in reference["recipe"]["contexts"]]
        return NemoFixture(name, folder / "model.nemo", arrays, mels, reference["hypotheses"], contexts)

    return read


@pytest.fixture(scope="session")
def gguf_path(
    nemo_fixture: Callable[[str], NemoFixture], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """A function that converts a fixture to float32 GGUF, once, and returns the file's path."""

    @cache
    def convert(name: str) -> Path:
        from asr.convert import convert_nemo

        path = tmp_path_factory.mktemp("fixtures") / f"{name}.gguf"
        convert_nemo(nemo_fixture(name).checkpoint, path, type="f32")
        return path

    return convert


@pytest.fixture(scope="session")
def tiny_model(
    nemo_fixture: Callable[[str], NemoFixture], gguf_path: Callable[[str], Path]
) -> Callable[[str, int], asr.Model]:
    """A function (fixture, index of the attention preset) -> model on one thread."""

    @cache
    def load(name: str, preset: int = 0) -> asr.Model:
        import asr

        context = nemo_fixture(name).contexts[preset]
        return asr.load_model(gguf_path(name), n_threads=1, att_context_size=context)

    return load


@dataclass
class GgufContent:
    """A GGUF file taken apart, to be changed and written again.

    ``pairs``: the type of a value and the value; of an array the types of array and elements and a list.
    ``tensors``: NumPy's shape, the ggml type and the bytes.
    """

    pairs: dict[str, tuple[tuple[int, ...], Any]]
    tensors: dict[str, tuple[tuple[int, ...], int, bytes]]

    def array(self, name: str) -> npt.NDArray[np.float32]:
        """A copy of a float32 tensor."""
        shape, type, data = self.tensors[name]
        assert type == 0
        return np.frombuffer(data, np.float32).reshape(shape).copy()

    def set_array(self, name: str, values: npt.NDArray[np.float32]) -> None:
        """Puts a float32 tensor in place."""
        self.tensors[name] = (values.shape, 0, np.ascontiguousarray(values, np.float32).tobytes())

    def write(self, path: Path) -> Path:
        """Writes the file; returns ``path``."""
        path.write_bytes(_gguf_bytes(self))
        return path


# The numbers of GGUFValueType; 8 is text and 9 an array.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))


def _value(types: Sequence[int], value: Any) -> bytes:
    if types[0] == 9:
        head = struct.pack("<IQ", types[1], len(value))
        return head + b"".join(_value(types[1:], item) for item in value)
    if types[0] == 8:
        text = value.encode("utf-8")
        return struct.pack("<Q", len(text)) + text
    return struct.pack("<" + _SCALARS[types[0]], value)


def _gguf_bytes(content: GgufContent) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(content.tensors), len(content.pairs))
    for key, (types, value) in content.pairs.items():
        head += _value((8,), key) + struct.pack("<I", types[0]) + _value(types, value)
    blobs: list[bytes] = []
    offset = 0
    for name, (shape, type, data) in content.tensors.items():
        head += _value((8,), name)
        head += struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), type, offset)
        blobs.append(data + b"\0" * (-len(data) % 32))
        offset += len(blobs[-1])
    return head + b"\0" * (-len(head) % 32) + b"".join(blobs)


@pytest.fixture(scope="session")
def gguf_content() -> Callable[[Path], GgufContent]:
    """A function that takes a GGUF file apart."""

    def read(path: Path) -> GgufContent:
        from gguf import GGUFReader

        reader = GGUFReader(path)
        pairs = {
            field.name: (tuple(int(t) for t in field.types), field.contents())
            for field in reader.fields.values()
            if not field.name.startswith("GGUF.")
        }
        tensors = {
            t.name: (tuple(int(n) for n in reversed(t.shape)), int(t.tensor_type), t.data.tobytes())
            for t in reader.tensors
        }
        return GgufContent(pairs, tensors)

    return read
