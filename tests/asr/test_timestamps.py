"""Token, word and segment spans: equal to NeMo on recorded hypotheses, and their way into seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from asr.decoding.hypothesis import Hypothesis
from asr.decoding.result import build_transcript_parts
from asr.decoding.timestamps import Head, segment_spans, token_spans, word_spans
from asr.tokenizer import Tokenizer

DATA = Path(__file__).parent / "data"
VOCABULARIES: dict[str, dict[str, Any]] = json.loads(
    (DATA / "tokenizer_cases.json").read_text(encoding="utf-8")
)["vocabularies"]
CASES: list[dict[str, Any]] = json.loads((DATA / "timestamp_cases.json").read_text(encoding="utf-8"))["cases"]
TOKENIZERS = {
    name: Tokenizer(
        tuple(stored["pieces"]),
        tuple(stored["types"]),
        remove_extra_whitespaces=stored["remove_extra_whitespaces"],
    )
    for name, stored in VOCABULARIES.items()
}
FRAME_SECONDS = 0.01 * 8


def hypothesis(
    ids: list[int], frames: list[int], durations: list[int], confidence: list[float] | None = None
) -> Hypothesis:
    return Hypothesis(
        np.array(ids, np.int32),
        np.array(frames, np.int32),
        np.array(durations, np.int32),
        np.array([1.0] * len(ids) if confidence is None else confidence, np.float32),
    )


def recorded(case: dict[str, Any]) -> Hypothesis:
    return hypothesis(case["ids"], case["frames"], case["durations"], case["confidence"])


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("head", get_args(Head))
def test_spans_equal_nemo(head: Head, vocabulary: str) -> None:
    tokenizer = TOKENIZERS[vocabulary]
    cases = [case for case in CASES if case["head"] == head and case["vocabulary"] == vocabulary]
    assert len(cases) >= 30
    for case in cases:
        spans = token_spans(recorded(case), tokenizer, head)
        words = word_spans(case["ids"], spans, tokenizer)
        segments = segment_spans(words, gap_threshold=case["gap"])
        assert [[s.start, s.end] for s in spans] == case["tokens"], case
        assert [[w.text, w.start, w.end] for w in words] == case["words"], case
        assert [[s.text, s.start, s.end] for s in segments] == case["segments"], case


@pytest.mark.parametrize("head", get_args(Head))
def test_text_and_seconds_equal_nemo(head: Head) -> None:
    for case in CASES:
        if case["head"] != head:
            continue
        text, tokens, words, _ = build_transcript_parts(
            recorded(case), TOKENIZERS[case["vocabulary"]], head, FRAME_SECONDS
        )
        assert text == case["text"], case
        assert [[w.start, w.end] for w in words] == case["seconds"], case
        assert [t.frame for t in tokens] == case["frames"]
        assert [t.duration for t in tokens] == case["durations"]
        assert [t.id for t in tokens] == case["ids"]


def test_word_confidence_equals_nemo() -> None:
    """Where NeMo has one: it raises if its count of words is not that of the text, and it takes the word
    after an unknown piece, a byte or a control piece for another word than its own timestamps do."""
    compared = 0
    for case in CASES:
        tokenizer = TOKENIZERS[case["vocabulary"]]
        ordinary = all(
            tokenizer.types[i] == 1 and tokenizer.pieces[i].strip("▁") and "##" not in tokenizer.pieces[i]
            for i in case["ids"]
        )
        _, _, words, _ = build_transcript_parts(recorded(case), tokenizer, case["head"], FRAME_SECONDS)
        if not ordinary or case["word_confidence"] is None or len(words) != len(case["word_confidence"]):
            continue
        assert [w.confidence for w in words] == pytest.approx(case["word_confidence"]), case
        compared += 1
    assert compared >= 100


MARKED = Tokenizer.from_pieces(["<unk>", "▁hi", "▁you", "s", "."])
HI, YOU, S, STOP = 1, 2, 3, 4


@pytest.mark.parametrize("head", get_args(Head))
def test_nothing_decoded_gives_nothing(head: Head) -> None:
    assert build_transcript_parts(hypothesis([], [], []), MARKED, head, FRAME_SECONDS) == ("", (), (), ())


def test_a_mark_after_a_word_without_text() -> None:
    """NeMo fails with IndexError here."""
    tokenizer = Tokenizer(("▁", "▁▁", "."), (1, 1, 1), remove_extra_whitespaces=False)
    text, _, words, _ = build_transcript_parts(
        hypothesis([0, 1, 2], [0, 2, 4], [1, 1, 1]), tokenizer, "rnnt", 1.0
    )
    assert text == " ."
    assert [(w.text, w.start, w.end) for w in words] == [(".", 0.0, 5.0)]


def test_segments_end_at_separators_and_take_the_lowest_confidence() -> None:
    hyp = hypothesis([HI, STOP, YOU, S], [0, 4, 6, 8], [2, 3, 1, 2], [0.9, 0.5, 0.75, 0.25])
    text, _, words, segments = build_transcript_parts(hyp, MARKED, "tdt", 1.0)
    assert text == "hi. yous"
    assert [(w.text, w.start, w.end, w.confidence) for w in words] == [
        ("hi.", 0.0, 2.0, 0.5),
        ("yous", 6.0, 10.0, 0.25),
    ]
    assert [(s.text, s.start, s.end, s.confidence) for s in segments] == [
        ("hi.", 0.0, 2.0, 0.5),
        ("yous", 6.0, 10.0, 0.25),
    ]


def test_other_separators() -> None:
    spans = token_spans(hypothesis([HI, YOU, HI], [0, 2, 9], [1, 1, 1]), MARKED, "rnnt")
    words = word_spans([HI, YOU, HI], spans, MARKED)
    assert [s.text for s in segment_spans(words, separators=("you",))] == ["hi you", "hi"]
    assert [s.text for s in segment_spans(words, gap_threshold=6)] == ["hi you", "hi"]
    assert [s.text for s in segment_spans(words)] == ["hi you hi"]


def test_padding_before_the_clip_is_subtracted_and_times_stay_inside_it() -> None:
    hyp = hypothesis([HI, YOU, S], [1, 4, 9], [1, 2, 3])
    _, tokens, words, segments = build_transcript_parts(
        hyp, MARKED, "tdt", 0.5, offset_seconds=1.0, duration=4.0
    )
    assert [t.text for t in tokens] == ["▁hi", "▁you", "s"]
    assert [(t.start, t.end, t.frame) for t in tokens] == [(0.0, 0.0, 1), (1.0, 2.0, 4), (3.5, 4.0, 9)]
    assert [(w.start, w.end) for w in words] == [(0.0, 0.0), (1.0, 4.0)]
    assert [(s.start, s.end) for s in segments] == [(0.0, 4.0)]


def test_without_padding_times_are_not_clamped() -> None:
    _, _, words, _ = build_transcript_parts(hypothesis([HI], [9], [4]), MARKED, "tdt", 0.5, duration=5.0)
    assert (words[0].start, words[0].end) == (4.5, 6.5)


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(ValueError, match="transducer"):
        token_spans(hypothesis([HI], [0], [1]), MARKED, "transducer")
