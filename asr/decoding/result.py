"""From a decoding hypothesis to the text, tokens, words and segments of a transcript."""

from __future__ import annotations

from asr.decoding.hypothesis import Hypothesis
from asr.decoding.timestamps import Head, segment_spans, token_spans, word_spans
from asr.tokenizer import Tokenizer
from asr.transcript import Segment, Token, Word


def build_transcript_parts(
    hyp: Hypothesis,
    tokenizer: Tokenizer,
    head: Head,
    frame_seconds: float,
    offset_seconds: float = 0.0,
    duration: float | None = None,
) -> tuple[str, tuple[Token, ...], tuple[Word, ...], tuple[Segment, ...]]:
    """Text, tokens, words and segments of ``hyp``, as NeMo's ``transcribe(timestamps=True)`` gives them.

    ``frame_seconds`` is the length of an encoder frame: hop in seconds times the subsampling factor.
    ``offset_seconds`` is the length of the padding that was put before the clip. Without padding the times
    are NeMo's: frames times ``frame_seconds``, not rounded, and the last may lie past the end of the clip
    by part of a frame. With padding they are moved to the clip's own clock and kept within
    [0, ``duration``]; ``duration`` is the clip's length in seconds (``None``: no upper limit).

    A word's confidence is the lowest of its tokens', punctuation included, a segment's the lowest of its
    words'. NeMo aggregates in the same way, but only where its words and its text agree.
    """
    ids = [int(token) for token in hyp.ids]
    spans = token_spans(hyp, tokenizer, head)
    words = word_spans(ids, spans, tokenizer)

    def seconds(frame: int) -> float:
        time = frame * frame_seconds
        if offset_seconds == 0.0:
            return time
        time = max(0.0, time - offset_seconds)
        return time if duration is None else min(time, duration)

    confidences = [float(value) for value in hyp.confidence]
    word_confidences = [min(confidences[i] for i in word.tokens) for word in words]

    tokens_out = tuple(
        Token(
            id=token,
            text=tokenizer.pieces[token],
            start=seconds(span.start),
            end=seconds(span.end),
            frame=frame,
            duration=length,
            confidence=confidence,
        )
        for token, span, frame, length, confidence in zip(
            ids, spans, hyp.frames.tolist(), hyp.durations.tolist(), confidences, strict=True
        )
    )
    words_out = tuple(
        Word(word.text, seconds(word.start), seconds(word.end), confidence)
        for word, confidence in zip(words, word_confidences, strict=True)
    )
    segments_out = tuple(
        Segment(
            segment.text,
            seconds(segment.start),
            seconds(segment.end),
            min(word_confidences[segment.first : segment.last]),
        )
        for segment in segment_spans(words)
    )
    return tokenizer.text(ids), tokens_out, words_out, segments_out
