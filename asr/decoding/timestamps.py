"""When tokens, words and segments were said, in encoder frames, by NeMo's rules.

The rules are those of NeMo 2.7.3: ``nemo.collections.asr.parts``, ``submodules/rnnt_decoding.py`` and
``submodules/ctc_decoding.py`` for tokens, ``utils/timestamp_utils.py`` for words and segments. Some look odd
(a CTC token starts where the one before it did; a lone ``▁`` makes a word without text); they are kept, so
that times can be compared with NeMo's number by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from asr.decoding.hypothesis import Hypothesis
from asr.tokenizer import WORD_START, Tokenizer

Head = Literal["ctc", "rnnt", "tdt"]

SEGMENT_SEPARATORS = (".", "?", "!")
_WORD_DELIMITER = " "


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """``start`` and ``end`` in encoder frames, ``end`` not included (it may equal ``start``)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A word in encoder frames; ``tokens`` are the indices in the hypothesis of the tokens it is made of."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """A segment in encoder frames; its words are ``words[first:last]``."""

    text: str
    start: int
    end: int
    first: int
    last: int


def token_spans(hyp: Hypothesis, tokenizer: Tokenizer, head: Head) -> tuple[TokenSpan, ...]:
    """The span of each token of ``hyp``.

    RNN-T: the frame of emission. TDT: the predicted duration from there; a punctuation mark is moved to the
    end of the token before it. CTC: from the first frame of the token before (the first token: from one
    frame before its own) to its own first frame; a token that begins with a punctuation mark has no length.

    Raises ``ValueError`` for an unknown head.
    """
    frames = [int(frame) for frame in hyp.frames]
    marks = tokenizer.supported_punctuation
    if head == "rnnt":
        return tuple(TokenSpan(frame, frame + 1) for frame in frames)
    if head == "tdt":
        spans: list[TokenSpan] = []
        for token, frame, duration in zip(hyp.ids, frames, hyp.durations, strict=True):
            if spans and tokenizer.decode([int(token)]) in marks:
                spans.append(TokenSpan(spans[-1].end, spans[-1].end))
            else:
                spans.append(TokenSpan(frame, frame + int(duration)))
        return tuple(spans)
    if head == "ctc":
        starts = [max(0, frames[0] - 1), *frames[:-1]] if frames else []
        spans = []
        for token, start, frame in zip(hyp.ids, starts, frames, strict=True):
            is_mark = bool(spans) and tokenizer.decode([int(token)])[:1] in marks
            spans.append(TokenSpan(start, start if is_mark else frame))
        return tuple(spans)
    raise ValueError(f"unknown decoding head {head!r}: it should be 'ctc', 'rnnt' or 'tdt'")


def word_spans(ids: Sequence[int], spans: Sequence[TokenSpan], tokenizer: Tokenizer) -> tuple[WordSpan, ...]:
    """Group tokens into words (NeMo's ``get_words_offsets`` with the delimiter ``" "``).

    A word starts at a token whose text differs from its piece, which is how NeMo recognises ``▁`` (so the
    unknown piece, control pieces and bytes start words too), unless it is a punctuation mark, which joins
    the word before it. ``ids`` and ``spans`` have one length. The first word starts with the first token.
    """
    words: list[WordSpan] = []
    marks = tokenizer.supported_punctuation
    shown: list[int] = []  # indices of the tokens that spell the open word
    members: list[int] = []  # these and any lone "▁" dropped before a punctuation mark

    def close(last: int) -> None:
        text = tokenizer.decode(ids[i] for i in shown)
        words.append(WordSpan(text, spans[members[0]].start, spans[last].end, tuple(members)))

    for i, token in enumerate(ids):
        piece, text = tokenizer.pieces[token], tokenizer.decode([token])
        if text in marks:
            if not shown and words:
                words[-1] = _with_mark(words[-1], text, spans[i].end, i)
                continue
            if shown and tokenizer.pieces[ids[shown[-1]]] in (_WORD_DELIMITER, "_", WORD_START):
                shown.pop()
        elif _starts_word(piece, text, tokenizer.is_wordpiece):
            if shown:
                close(i - 1)
            shown, members = [], []
            if text == _WORD_DELIMITER:
                continue
        shown.append(i)
        members.append(i)

    if shown:
        close(len(ids) - 1)
    if words:
        head = words[0]
        words[0] = WordSpan(head.text, spans[0].start, head.end, head.tokens)
    return tuple(words)


def _starts_word(piece: str, text: str, is_wordpiece: bool) -> bool:
    if is_wordpiece:
        return bool(text) and not text.startswith("##")
    return piece != text


def _with_mark(word: WordSpan, mark: str, end: int, token: int) -> WordSpan:
    """``word`` with a punctuation mark that came after it was complete."""
    text = word.text.removesuffix(_WORD_DELIMITER) + mark
    return WordSpan(text, word.start, end, (*word.tokens, token))


def segment_spans(
    words: Sequence[WordSpan],
    separators: Sequence[str] = SEGMENT_SEPARATORS,
    gap_threshold: int | None = None,
) -> tuple[SegmentSpan, ...]:
    """Group words into segments (NeMo's ``get_segment_offsets``).

    A segment ends with a word whose last character (or the whole of it) is one of ``separators``. With
    ``gap_threshold`` it ends before a pause of at least that many frames instead; as in NeMo, a separator
    then only counts in the very first word, and in the word after a segment that a separator ended.
    """
    segments: list[SegmentSpan] = []
    first = 0

    def close(last: int) -> None:
        text = " ".join(word.text for word in words[first:last])
        segments.append(SegmentSpan(text, words[first].start, words[last - 1].end, first, last))

    for i, word in enumerate(words):
        if gap_threshold and i > first:
            if word.start - words[i - 1].end >= gap_threshold:
                close(i)
                first = i
        elif word.text and (word.text[-1] in separators or word.text in separators):
            close(i + 1)
            first = i + 1
    if first < len(words):
        close(len(words))
    return tuple(segments)
