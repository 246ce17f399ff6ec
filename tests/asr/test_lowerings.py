"""The encoder by our kernels, each set of them, and by ggml's operators: all of them give NeMo's numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import asr
import asr._core as _core

Array = npt.NDArray[np.float32]
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
RECIPES: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text("utf-8"))["recipe"]
    for path in sorted(FIXTURES.glob("*/reference.json"))
}
PRESETS = [(name, preset) for name, recipe in RECIPES.items() for preset in range(len(recipe["contexts"]))]
ENCODER = 1e-3


@pytest.fixture(params=[*_core.kernel_sets(), "ggml"])
def lowering(request: pytest.FixtureRequest) -> Iterator[Callable[[asr.Model], None]]:
    """A function that has a model compute with one set of kernels, or with ggml's operators."""
    before, changed = _core.kernels(), []
    ggml_operators = request.param == "ggml"
    if not ggml_operators:
        _core.use_kernels(request.param)

    def choose(model: asr.Model) -> None:
        changed.append((model._loader, model._loader.fused))
        model._loader.fused = not ggml_operators

    yield choose
    _core.use_kernels(before)
    for loader, fused in changed:
        loader.fused = fused


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_encoder(
    name: str,
    preset: int,
    lowering: Callable[[asr.Model], None],
    tiny_model: Callable[[str, int], asr.Model],
    nemo_fixture: Callable[[str], Any],
    clips: dict[str, Array],
) -> None:
    model = tiny_model(name, preset)
    lowering(model)
    for clip in ("medium", "long"):
        expected = nemo_fixture(name).arrays[f"{clip}/{preset}/encoder"]
        assert np.abs(model.encode(clips[clip]) - expected).max() < ENCODER


def test_positions_kept_for_a_longer_clip_serve_a_shorter_one(
    gguf_path: Callable[[str], Path], clips: dict[str, Array]
) -> None:
    fresh = asr.load_model(gguf_path("tdt-ctc")).encode(clips["medium"])
    model = asr.load_model(gguf_path("tdt-ctc"))
    model.encode(clips["long"])
    assert np.array_equal(model.encode(clips["medium"]), fresh)


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_threads_change_nothing(
    n_threads: int,
    gguf_path: Callable[[str], Path],
    clips: dict[str, Array],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = asr.load_model(gguf_path("tdt-ctc"), n_threads=1).encode(clips["long"])
    model = asr.load_model(gguf_path("tdt-ctc"), n_threads=1)
    model.backend.set_n_threads(n_threads)  # load_model starts no more threads than there are processors
    assert np.array_equal(model.encode(clips["long"]), expected)
