"""The result of a transcription: small frozen dataclasses, times in seconds of the caller's audio."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the model's vocabulary.

    ``text`` is the SentencePiece piece (``▁`` marks the start of a word); ``start`` and ``end`` are seconds;
    ``frame`` is the encoder frame of emission and ``duration`` a number of frames, both as the model saw
    the clip (padding included); ``confidence`` is in [0, 1].
    """

    id: int
    text: str
    start: float
    end: float
    frame: int
    duration: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its times in seconds; ``confidence`` is the lowest of its tokens (NeMo's default)."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence (up to a word that ends in ``.``, ``?`` or ``!``) with its times in seconds."""

    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said in one recording.

    ``duration`` is the recording's length in seconds, ``model`` the name of the model and ``decoder`` the
    head that was used: ``"ctc"``, ``"rnnt"`` or ``"tdt"``.
    """

    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    segments: tuple[Segment, ...]
    duration: float
    model: str
    decoder: str

    def to_txt(self, timestamps: str | None = None) -> str:
        """Plain text; with ``timestamps`` ("word", "segment" or "token") a line each with its times."""
        from asr import formats

        return formats.to_txt(self, timestamps)

    def to_srt(self) -> str:
        """SubRip subtitles, a cue a segment."""
        from asr import formats

        return formats.to_srt(self)

    def to_vtt(self) -> str:
        """WebVTT subtitles, a cue a segment."""
        from asr import formats

        return formats.to_vtt(self)

    def to_json(self) -> str:
        """JSON with text, segments, words and tokens."""
        from asr import formats

        return formats.to_json(self)

    def to_csv(self) -> str:
        """Comma-separated values, a row a segment."""
        from asr import formats

        return formats.to_csv(self)

    def to_tsv(self) -> str:
        """Tab-separated values, a row a segment, times in milliseconds."""
        from asr import formats

        return formats.to_tsv(self)
