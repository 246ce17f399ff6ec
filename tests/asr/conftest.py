"""The tiny random NeMo models of ``tests/fixtures``, converted once a session."""

from __future__ import annotations

import json
from collections.abc import Callable
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
