"""Tiny random models with every variation of the architecture: our numbers against NeMo's stored ones.

NeMo is not needed; ``scripts/make_fixtures.py`` made the references. A decision of a head that was taken by
less than 1e-3 is in none of them, so that tokens and times have to be equal.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

if TYPE_CHECKING:
    import asr

Array = npt.NDArray[np.float32]
ModelOf = Callable[[str, int], "asr.Model"]

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
RECIPES: dict[str, dict[str, Any]] = {
    path.parent.name: json.loads(path.read_text("utf-8"))["recipe"]
    for path in sorted(FIXTURES.glob("*/reference.json"))
}
CLIPS = ("short", "medium", "long")
PRESETS = [(name, preset) for name, recipe in RECIPES.items() for preset in range(len(recipe["contexts"]))]
ENCODER_CASES = [pytest.param(n, p, c, id=f"{n}-{p}-{c}") for n, p in PRESETS for c in CLIPS]
HEAD_CASES = [
    pytest.param(n, p, c, h, id=f"{n}-{p}-{c}-{h}")
    for n, p in PRESETS
    for c in CLIPS
    for h in RECIPES[n]["heads"]
]
# The long clip's mel is stored for two of the four front ends.
STORED_MELS = {path.stem: set(np.load(path).files) for path in (FIXTURES / "mel").glob("*.npz")}
MEL_CASES = [
    pytest.param(n, c, id=f"{n}-{c}")
    for n, r in RECIPES.items()
    for c in CLIPS
    if c in STORED_MELS[f"{r['n_mels']}-{r['normalize']}"]
]
CTC_CASES = [
    pytest.param(n, c, id=f"{n}-{c}") for n, r in RECIPES.items() if "ctc" in r["heads"] for c in CLIPS
]

MEL = 1e-4
ENCODER = 1e-3
LOG_PROBS = 1e-3
TIME = 1e-6
# Confidences of a random model are small: the relative tolerance is the one that counts.
CONFIDENCE = {"rel": 1e-2, "abs": 2e-5}


def test_all_fixtures_are_here() -> None:
    heads = {tuple(recipe["heads"]) for recipe in RECIPES.values()}
    assert {("ctc",), ("rnnt",), ("tdt",), ("tdt", "ctc"), ("rnnt", "ctc")} <= heads


@pytest.mark.parametrize(("name", "clip"), MEL_CASES)
def test_log_mel(
    name: str, clip: str, tiny_model: ModelOf, nemo_fixture: Callable[[str], Any], clips: dict[str, Array]
) -> None:
    expected = nemo_fixture(name).mels[clip]
    mel = tiny_model(name, 0).log_mel(clips[clip])
    assert mel.dtype == np.float32
    assert mel.shape == expected.shape
    lively = expected.std(axis=0) >= 1e-3
    assert np.abs(mel - expected)[:, lively].max() <= MEL


@pytest.mark.parametrize(("name", "preset", "clip"), ENCODER_CASES)
def test_encoder(
    name: str,
    preset: int,
    clip: str,
    tiny_model: ModelOf,
    nemo_fixture: Callable[[str], Any],
    clips: dict[str, Array],
) -> None:
    expected = nemo_fixture(name).arrays[f"{clip}/{preset}/encoder"]
    encoded = tiny_model(name, preset).encode(clips[clip])
    assert encoded.dtype == np.float32
    assert encoded.shape == expected.shape
    assert np.abs(encoded - expected).max() <= ENCODER


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("clip", CLIPS)
def test_subsampling(
    name: str, clip: str, tiny_model: ModelOf, nemo_fixture: Callable[[str], Any], clips: dict[str, Array]
) -> None:
    expected = nemo_fixture(name).arrays[f"{clip}/0/subsampling"]
    states = tiny_model(name, 0).encoder_states(clips[clip])
    assert states.subsampling.shape == expected.shape
    assert np.abs(states.subsampling - expected).max() <= ENCODER


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_layers(
    name: str, preset: int, tiny_model: ModelOf, nemo_fixture: Callable[[str], Any], clips: dict[str, Array]
) -> None:
    arrays = nemo_fixture(name).arrays
    states = tiny_model(name, preset).encoder_states(clips["medium"])
    assert len(states.layers) == 2
    for index, layer in enumerate(states.layers):
        assert np.abs(layer - arrays[f"medium/{preset}/layer{index}"]).max() <= ENCODER, f"layer {index}"
    np.testing.assert_array_equal(states.output, states.layers[-1])
    np.testing.assert_array_equal(states.output, tiny_model(name, preset).encode(clips["medium"]))


@pytest.mark.parametrize(("name", "clip"), CTC_CASES)
def test_ctc_log_probs(
    name: str, clip: str, tiny_model: ModelOf, nemo_fixture: Callable[[str], Any], clips: dict[str, Array]
) -> None:
    expected = nemo_fixture(name).arrays[f"{clip}/0/log_probs"]
    log_probs = tiny_model(name, 0).log_probs(clips[clip])
    assert log_probs.shape == expected.shape
    assert np.abs(log_probs - expected).max() <= LOG_PROBS


@pytest.mark.parametrize(("name", "preset", "clip", "head"), HEAD_CASES)
def test_transcript(
    name: str,
    preset: int,
    clip: str,
    head: str,
    tiny_model: ModelOf,
    nemo_fixture: Callable[[str], Any],
    clips: dict[str, Array],
) -> None:
    expected = nemo_fixture(name).hypotheses[f"{clip}/{preset}/{head}"]
    transcript = tiny_model(name, preset).transcribe(clips[clip], decoder=head, min_duration=0)

    assert transcript.decoder == head
    assert [token.id for token in transcript.tokens] == expected["ids"]
    assert [token.frame for token in transcript.tokens] == expected["frames"]
    assert [token.duration for token in transcript.tokens] == expected["durations"]
    assert [token.text for token in transcript.tokens] == expected["pieces"]
    assert [token.confidence for token in transcript.tokens] == pytest.approx(
        expected["confidence"], **CONFIDENCE
    )
    assert transcript.text == expected["text"]
    for kind in ("tokens", "words", "segments"):
        ours, theirs = getattr(transcript, kind), expected[kind]
        if kind != "tokens":
            assert [span.text for span in ours] == [span["text"] for span in theirs], kind
        for end in ("start", "end"):
            assert [getattr(span, end) for span in ours] == pytest.approx(
                [span[end] for span in theirs], abs=TIME
            ), (kind, end)
    # NeMo aligns words and tokens a second time for this, which fails on many a random text.
    if expected["word_confidence"] and expected["text"].split() == [w.text for w in transcript.words]:
        assert [word.confidence for word in transcript.words] == pytest.approx(
            expected["word_confidence"], **CONFIDENCE
        )


def test_fixtures_show_what_they_are_for(nemo_fixture: Callable[[str], Any]) -> None:
    """The rules that a fixture is there for do occur in NeMo's own results."""
    hypotheses = [h for name in RECIPES for h in nemo_fixture(name).hypotheses.values()]
    reached = {n for n in RECIPES for h in nemo_fixture(n).hypotheses.values() if h["max_symbols_reached"]}
    assert {"rnnt-2-layers", "tdt-max-symbols"} <= reached
    assert {0, 4} <= {d for h in hypotheses for d in h["durations"]}
    assert any("⁇" in h["text"] for h in hypotheses)
    assert any(h["text"] == "" for h in hypotheses)
    assert any(h["word_confidence"] for h in hypotheses)
    confidences = [c for h in hypotheses for c in h["confidence"]]
    assert max(confidences) > 0.1


@pytest.mark.skipif(importlib.util.find_spec("nemo") is None, reason="NeMo is not installed")
def test_nemo_makes_the_fixture_again() -> None:
    script = FIXTURES.parents[1] / "scripts" / "make_fixtures.py"
    result = subprocess.run(
        [sys.executable, script, "--check", "tdt-ctc"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
