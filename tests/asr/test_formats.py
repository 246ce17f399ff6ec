"""Output formats: what other programs read, so every character counts."""

from __future__ import annotations

import csv
import io
import json

import pytest

from asr import formats
from asr.transcript import Segment, Token, Transcript, Word

EMPTY = Transcript("", (), (), (), 2.0, "m", "ctc")


def transcript(*segments: tuple[float, float, str]) -> Transcript:
    return Transcript(
        text=" ".join(text for _, _, text in segments),
        tokens=(Token(7, "▁no", 0.08, 0.16, 1, 1, 0.25), Token(8, "el", 0.16, 0.24, 2, 1, 0.5)),
        words=(Word("noël", 0.08, 0.24, 0.25),),
        segments=tuple(Segment(text, start, end, 0.5) for start, end, text in segments),
        duration=4.5,
        model="tiny",
        decoder="tdt",
    )


TWO = transcript((0.0, 1.5, "Noël, ok."), (1.52, 3661.0, 'He said "a, b".'))


def test_txt_is_the_text_and_a_newline() -> None:
    assert formats.to_txt(TWO) == 'Noël, ok. He said "a, b".\n'
    assert formats.to_txt(EMPTY) == "\n"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("word", "[00:00:00.080 --> 00:00:00.240] noël\n"),
        (
            "segment",
            '[00:00:00.000 --> 00:00:01.500] Noël, ok.\n[00:00:01.520 --> 01:01:01.000] He said "a, b".\n',
        ),
        ("token", "[00:00:00.080 --> 00:00:00.160] ▁no\n[00:00:00.160 --> 00:00:00.240] el\n"),
    ],
)
def test_txt_with_timestamps(kind: str, expected: str) -> None:
    assert formats.to_txt(TWO, kind) == expected
    assert TWO.to_txt(kind) == expected
    assert formats.to_txt(EMPTY, kind) == ""


def test_txt_refuses_another_kind_of_timestamps() -> None:
    with pytest.raises(ValueError, match="word, segment, token"):
        formats.to_txt(TWO, "line")


def test_srt() -> None:
    assert formats.to_srt(TWO) == (
        '1\n00:00:00,000 --> 00:00:01,500\nNoël, ok.\n\n2\n00:00:01,520 --> 01:01:01,000\nHe said "a, b".\n'
    )


def test_vtt_escapes_what_would_be_markup() -> None:
    text = formats.to_vtt(transcript((0.0, 1.0, "a < b & c --> d")))
    assert text == "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na &lt; b &amp; c --&gt; d\n"


def test_csv_survives_quotes_commas_and_line_breaks() -> None:
    text = formats.to_csv(transcript((0.0, 1.5, 'a, "b"\nc'), (2.0, 3.25, "d")))
    assert text.splitlines()[0] == "start,end,text"
    assert list(csv.reader(io.StringIO(text)))[1:] == [
        ["0.000", "1.500", 'a, "b" c'],
        ["2.000", "3.250", "d"],
    ]
    assert "\r" not in text


def test_tsv_has_milliseconds_and_one_line_a_segment() -> None:
    assert formats.to_tsv(transcript((0.0, 1.5, "a\tb\nc"))) == "start\tend\ttext\n0\t1500\ta b c\n"


def test_json_holds_everything() -> None:
    text = formats.to_json(TWO)
    assert text.endswith("}\n")
    assert "Noël" in text  # not \u00eb
    data = json.loads(text)
    assert set(data) == {"text", "model", "decoder", "duration", "segments", "words", "tokens"}
    assert data["tokens"][0] == {
        "id": 7, "text": "▁no", "start": 0.08, "end": 0.16, "frame": 1, "duration": 1, "confidence": 0.25,
    }  # fmt: skip
    assert data["words"] == [{"text": "noël", "start": 0.08, "end": 0.24, "confidence": 0.25}]
    assert data["segments"][1]["end"] == 3661.0
    assert data["duration"] == 4.5


def test_times_round_without_reaching_sixty_seconds() -> None:
    late = transcript((59.9996, 3599.99951, "x"))
    assert "00:01:00,000 --> 01:00:00,000" in formats.to_srt(late)
    assert "60,000" not in formats.to_srt(late)


def test_hours_may_pass_ninety_nine() -> None:
    assert "100:00:00.000" in formats.to_vtt(transcript((0.0, 360000.0, "x")))


@pytest.mark.parametrize(("start", "end"), [(1.0, 1.0), (1.0, 0.5), (1.0, 1.0004)])
def test_a_cue_lasts_at_least_a_millisecond(start: float, end: float) -> None:
    assert "00:00:01,000 --> 00:00:01,001" in formats.to_srt(transcript((start, end, "x")))


def test_negative_times_become_zero() -> None:
    assert "00:00:00,000 --> 00:00:00,001" in formats.to_srt(transcript((-0.5, -0.1, "x")))


def test_a_cue_has_no_blank_line() -> None:
    assert formats.to_srt(transcript((0.0, 1.0, " a\n\nb "))).splitlines()[2:] == ["a b"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("txt", "\n"),
        ("srt", "\n"),
        ("vtt", "WEBVTT\n"),
        ("csv", "start,end,text\n"),
        ("tsv", "start\tend\ttext\n"),
    ],
)
def test_an_empty_transcript_gives_a_valid_file(name: str, expected: str) -> None:
    assert formats.FORMATS[name](EMPTY) == expected


def test_an_empty_transcript_is_json_with_empty_lists() -> None:
    data = json.loads(formats.to_json(EMPTY))
    assert (data["text"], data["segments"], data["words"], data["tokens"]) == ("", [], [], [])


def test_the_formats_are_the_documented_ones() -> None:
    assert list(formats.FORMATS) == ["txt", "srt", "vtt", "json", "csv", "tsv"]
