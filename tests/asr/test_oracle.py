"""Real speech: our results against NeMo's own, stored for both heads on the AN4 and FSDD test sets.

The recordings are not part of the project: these tests are skipped where the folders are absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import asr
from asr.wer import WordErrors, corpus_errors

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared"
CHECKPOINT = SHARED / "models" / "tiny-commands-en.nemo"
ORACLE = SHARED / "models" / "tiny-commands-en.oracle.json"
SIZES = {"an4-test": 130, "fsdd-test": 120}
HEADS = ("tdt", "ctc")
Q8_POINTS = 0.3

pytestmark = pytest.mark.skipif(
    not (
        CHECKPOINT.exists() and ORACLE.exists() and all((SHARED / "data" / name).is_dir() for name in SIZES)
    ),
    reason="the shared recordings and NeMo's results on them are not here",
)

Sets = dict[str, list[dict[str, Any]]]
"""Set -> the oracle's entries, an utterance each."""

Results = dict[str, dict[str, list[asr.Transcript]]]
"""Set -> head -> transcripts in the oracle's order."""


@pytest.fixture(scope="module")
def sets() -> Sets:
    sets: Sets = json.loads(ORACLE.read_text("utf-8"))["sets"]
    assert {name: len(entries) for name, entries in sets.items()} == SIZES
    return sets


def convert(folder: Path, weights: str) -> asr.Model:
    from asr.convert import convert_nemo

    path = folder / f"tiny-{weights}.gguf"
    convert_nemo(CHECKPOINT, path, type=weights)
    return asr.load_model(path)


@pytest.fixture(scope="module")
def f32(tmp_path_factory: pytest.TempPathFactory) -> asr.Model:
    """The very checkpoint that the oracle was made with, whatever model the project bundles later."""
    return convert(tmp_path_factory.mktemp("f32"), "f32")


@pytest.fixture(scope="module")
def q8_0(tmp_path_factory: pytest.TempPathFactory) -> asr.Model:
    return convert(tmp_path_factory.mktemp("q8_0"), "q8_0")


def transcribe_sets(model: asr.Model, sets: Sets, min_duration: float) -> Results:
    return {
        name: {
            head: [
                model.transcribe(
                    SHARED / "data" / name / entry["audio"], decoder=head, min_duration=min_duration
                )
                for entry in entries
            ]
            for head in HEADS
        }
        for name, entries in sets.items()
    }


@pytest.fixture(scope="module")
def as_it_is(f32: asr.Model, sets: Sets) -> Results:
    return transcribe_sets(f32, sets, 0.0)


@pytest.fixture(scope="module")
def by_default(f32: asr.Model, sets: Sets) -> Results:
    return transcribe_sets(f32, sets, 1.0)


def expected_spans(spans: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    return [(span["text"], round(span["start"], 6), round(span["end"], 6)) for span in spans]


def our_spans(spans: Iterable[asr.Word | asr.Segment]) -> list[tuple[str, float, float]]:
    return [(span.text, round(span.start, 6), round(span.end, 6)) for span in spans]


def compare(
    entries: list[dict[str, Any]],
    results: list[asr.Transcript],
    expected: Callable[[dict[str, Any]], object],
    ours: Callable[[asr.Transcript], object],
) -> None:
    """Fail with the first utterances whose ``ours(result)`` is not ``expected(entry)``."""
    pairs = [
        (entry["audio"], expected(entry), ours(result))
        for entry, result in zip(entries, results, strict=True)
    ]
    differences = [f"{audio}: NeMo {want!r}, ours {got!r}" for audio, want, got in pairs if want != got]
    shown = "\n".join(differences[:10])
    assert not differences, f"{len(differences)} of {len(pairs)} utterances differ; the first:\n{shown}"


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", SIZES)
class TestFloat32:
    """Every utterance, the clip as it is."""

    def test_text(self, sets: Sets, as_it_is: Results, name: str, head: str) -> None:
        compare(sets[name], as_it_is[name][head], lambda e: e[head]["text"], lambda r: r.text)

    def test_tokens(self, sets: Sets, as_it_is: Results, name: str, head: str) -> None:
        compare(
            sets[name],
            as_it_is[name][head],
            lambda e: e[head]["tokens"],
            lambda r: [token.id for token in r.tokens],
        )

    def test_words(self, sets: Sets, as_it_is: Results, name: str, head: str) -> None:
        compare(
            sets[name],
            as_it_is[name][head],
            lambda e: expected_spans(e[head]["words"]),
            lambda r: our_spans(r.words),
        )

    def test_segments(self, sets: Sets, as_it_is: Results, name: str, head: str) -> None:
        compare(
            sets[name],
            as_it_is[name][head],
            lambda e: expected_spans(e[head]["segments"]),
            lambda r: our_spans(r.segments),
        )

    def test_default_pads_short_clips(self, sets: Sets, by_default: Results, name: str, head: str) -> None:
        """Clips under 1 s as NeMo's ``transcribe()`` pads them; the others are not touched."""
        compare(
            sets[name],
            by_default[name][head],
            lambda e: e["padded_to_1s"][head] if "padded_to_1s" in e else e[head]["text"],
            lambda r: r.text,
        )


def set_errors(sets: Sets, results: Results, names: Iterable[str], head: str) -> WordErrors:
    return corpus_errors(
        (entry["reference"], result.text)
        for name in names
        for entry, result in zip(sets[name], results[name][head], strict=True)
    )


@pytest.fixture(scope="module")
def q8_by_default(q8_0: asr.Model, sets: Sets) -> Results:
    return transcribe_sets(q8_0, sets, 1.0)


@pytest.mark.parametrize("head", HEADS)
def test_q8_0_word_error_rate(
    sets: Sets,
    by_default: Results,
    q8_by_default: Results,
    report_line: Callable[[str], None],
    head: str,
) -> None:
    """Both sets together, transcribed as by default."""
    for name in SIZES:
        for weights, results in (("f32", by_default), ("q8_0", q8_by_default)):
            report_line(f"WER {name:10} {head} {weights:4}: {set_errors(sets, results, (name,), head)}")
    full = set_errors(sets, by_default, SIZES, head)
    quantised = set_errors(sets, q8_by_default, SIZES, head)
    changed = sum(
        a.text != b.text
        for name in SIZES
        for a, b in zip(by_default[name][head], q8_by_default[name][head], strict=True)
    )
    report_line(f"WER {'both sets':10} {head} f32 : {full}")
    report_line(
        f"WER {'both sets':10} {head} q8_0: {quantised}; {changed} of {sum(SIZES.values())} texts differ"
    )
    # A lucky flip may make it better; what must not happen is that it gets worse.
    assert quantised.percent - full.percent <= Q8_POINTS
