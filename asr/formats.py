"""A transcript as text: plain, SubRip, WebVTT, JSON, CSV and TSV.

Every function gives text that ends with a newline (an empty list of timestamped lines is the empty text).
Subtitles and tables have one row a segment, with white space in the text reduced to single spaces.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from asr.transcript import Segment, Token, Transcript, Word

TIMESTAMPS = ("word", "segment", "token")


def to_txt(transcript: Transcript, timestamps: str | None = None) -> str:
    """The text on one line; with ``timestamps`` ("word", "segment" or "token") one line each.

    A timestamped line reads ``[00:00:01.120 --> 00:00:01.440] text``; a token's text is its piece.

    :raises ValueError: another value of ``timestamps``.
    """
    if timestamps is None:
        return transcript.text + "\n"
    items: Mapping[str, Iterable[Word | Segment | Token]] = {
        "word": transcript.words,
        "segment": transcript.segments,
        "token": transcript.tokens,
    }
    if timestamps not in items:
        raise ValueError(f"timestamps must be one of {', '.join(TIMESTAMPS)}, not {timestamps!r}")
    return "".join(
        f"[{_clock(_ms(item.start))} --> {_clock(_ms(item.end))}] {_one_line(item.text)}\n"
        for item in items[timestamps]
    )


def to_srt(transcript: Transcript) -> str:
    """SubRip: numbered cues, times ``HH:MM:SS,mmm``."""
    cues = [
        f"{number}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(_cues(transcript), 1)
    ]
    return "\n".join(cues) or "\n"


def to_vtt(transcript: Transcript) -> str:
    """WebVTT (W3C), with ``&``, ``<`` and ``>`` written as character references."""
    cues = ["WEBVTT\n"]
    for start, end, text in _cues(transcript):
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        cues.append(f"{_clock(start)} --> {_clock(end)}\n{escaped}\n")
    return "\n".join(cues)


def to_csv(transcript: Transcript) -> str:
    """Comma-separated values with the header ``start,end,text``; times in seconds with three decimals."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("start", "end", "text"))
    rows.writerows(
        (f"{start / 1000:.3f}", f"{end / 1000:.3f}", text) for start, end, text in _cues(transcript)
    )
    return out.getvalue()


def to_tsv(transcript: Transcript) -> str:
    """Tab-separated values with the header ``start``, ``end``, ``text``; times in whole milliseconds."""
    rows = "".join(f"{start}\t{end}\t{text}\n" for start, end, text in _cues(transcript))
    return "start\tend\ttext\n" + rows


def to_json(transcript: Transcript) -> str:
    """A JSON object, indented by two spaces, in UTF-8 without escapes; its keys are those of `to_dict`."""
    return dump_json(to_dict(transcript)) + "\n"


def to_dict(transcript: Transcript) -> dict[str, Any]:
    """The transcript as plain values: what the JSON format contains.

    ``text``, ``model``, ``decoder``, ``duration`` (seconds); ``segments`` and ``words``: lists of ``text``,
    ``start``, ``end`` (seconds), ``confidence`` (0 to 1); ``tokens``: the same with ``id``, ``frame`` and
    ``duration`` (both in encoder frames). Times and confidences are rounded to six decimals.
    """
    return {
        "text": transcript.text,
        "model": transcript.model,
        "decoder": transcript.decoder,
        "duration": round(float(transcript.duration), 6),
        "segments": [_record(segment) for segment in transcript.segments],
        "words": [_record(word) for word in transcript.words],
        "tokens": [_record(token) for token in transcript.tokens],
    }


def dump_json(value: object) -> str:
    """JSON text as this module writes it, without the final newline."""
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)


FORMATS: Mapping[str, Callable[[Transcript], str]] = MappingProxyType(
    {"txt": to_txt, "srt": to_srt, "vtt": to_vtt, "json": to_json, "csv": to_csv, "tsv": to_tsv}
)


def _record(item: Word | Segment | Token) -> dict[str, Any]:
    record = asdict(item)
    for key in ("start", "end", "confidence"):
        record[key] = round(float(record[key]), 6)
    return record


def _cues(transcript: Transcript) -> Iterable[tuple[int, int, str]]:
    """(start, end, text) of the segments in milliseconds, each at least one millisecond long."""
    for segment in transcript.segments:
        start = _ms(segment.start)
        yield start, max(_ms(segment.end), start + 1), _one_line(segment.text)


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _clock(milliseconds: int, separator: str = ".") -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{separator}{rest:03d}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
