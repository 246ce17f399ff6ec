"""The word-error-rate regression set: our text against NeMo's on 60 clips of synthetic speech."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile

import asr
from asr.wer import corpus_errors

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "wer"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (FOLDER / "manifest.jsonl").read_text("utf-8").splitlines()
]
VOICES = ("piper", "espeak-ng", "flite")
HEADS = ("tdt", "ctc")
ALLOWED_POINTS = 0.5

Texts = dict[str, dict[str, str]]
"""Head -> file name -> text."""


@pytest.fixture(scope="module")
def model() -> asr.Model:
    return asr.load_model()


def transcribe_all(model: asr.Model, min_duration: float) -> Texts:
    return {
        head: {
            row["audio"]: model.transcribe(
                FOLDER / row["audio"], decoder=head, min_duration=min_duration
            ).text
            for row in ROWS
        }
        for head in HEADS
    }


@pytest.fixture(scope="module")
def as_it_is(model: asr.Model) -> Texts:
    return transcribe_all(model, 0.0)


@pytest.fixture(scope="module")
def by_default(model: asr.Model) -> Texts:
    return transcribe_all(model, 1.0)


def nemo_text(row: dict[str, Any], head: str, padded: bool) -> str:
    """NeMo's text of a clip; padding changes only clips under 1 s."""
    texts = row.get("nemo_padded", row["nemo"]) if padded else row["nemo"]
    return str(texts[head])


def test_set_is_whole() -> None:
    """Every planned text is there, in the planned order: none was dropped or replaced."""
    path = ROOT / "scripts" / "make_wer_set.py"
    spec = importlib.util.spec_from_file_location("make_wer_set", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name while the class is made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "make_wer_set", script)
        spec.loader.exec_module(script)
        planned = [(clip.audio, clip.voice, clip.text) for clip in script.plan()]
    assert [(row["audio"], row["voice"], row["text"]) for row in ROWS] == planned
    assert [sum(row["voice"] == voice for row in ROWS) for voice in VOICES] == [20, 20, 20]
    assert {path.name for path in FOLDER.glob("*.flac")} == {row["audio"] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=[row["audio"] for row in ROWS])
def test_clip_format(row: dict[str, Any]) -> None:
    info = soundfile.info(FOLDER / row["audio"])
    assert (info.format, info.subtype, info.samplerate, info.channels) == ("FLAC", "PCM_16", 16000, 1)
    assert 0.6 <= info.duration <= 6.0
    assert ("nemo_padded" in row) == (info.frames < 16000)


@pytest.mark.parametrize("head", HEADS)
def test_text_equals_nemo(as_it_is: Texts, head: str) -> None:
    ours = as_it_is[head]
    expected = {row["audio"]: nemo_text(row, head, padded=False) for row in ROWS}
    assert ours == expected


@pytest.mark.parametrize("head", HEADS)
def test_default_text_equals_nemo_transcribe(by_default: Texts, head: str) -> None:
    """By default clips under 1 s are padded as NeMo's ``transcribe()`` pads them."""
    ours = by_default[head]
    expected = {row["audio"]: nemo_text(row, head, padded=True) for row in ROWS}
    assert ours == expected


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("padded", [False, True], ids=["as it is", "by default"])
def test_word_error_rate(
    as_it_is: Texts,
    by_default: Texts,
    report_line: Callable[[str], None],
    head: str,
    padded: bool,
) -> None:
    ours = (by_default if padded else as_it_is)[head]
    label = f"{head}, clips {'padded to 1 s' if padded else 'as they are'}"
    for voice in VOICES:
        rows = [row for row in ROWS if row["voice"] == voice]
        errors = corpus_errors((row["text"], ours[row["audio"]]) for row in rows)
        report_line(f"WER {voice:10} {label}: {errors}")
    total = corpus_errors((row["text"], ours[row["audio"]]) for row in ROWS)
    nemo = corpus_errors((row["text"], nemo_text(row, head, padded)) for row in ROWS)
    report_line(f"WER {'all':10} {label}: {total}; NeMo {nemo.percent:.2f} %")
    assert total.percent <= nemo.percent + ALLOWED_POINTS
