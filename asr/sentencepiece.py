"""The pieces of a SentencePiece model and its rules of spacing, read from its protocol-buffer bytes.

Only what transcription needs of ``ModelProto`` (sentencepiece_model.proto): field 1, repeated
``SentencePiece { 1: string piece, 2: float score, 3: enum type }``; of field 2, ``TrainerSpec``,
``44: string unk_surface``; of field 3, ``NormalizerSpec``, ``3: bool add_dummy_prefix`` and
``4: bool remove_extra_whitespaces``. All other fields are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from asr.errors import ModelFormatError
from asr.tokenizer import BYTE, NORMAL


@dataclass(frozen=True, slots=True)
class Piece:
    """A vocabulary entry; its index is its id. ``type`` is one of :mod:`asr.tokenizer`'s six numbers."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, slots=True)
class TextRules:
    """How a model puts text together; the defaults are SentencePiece's."""

    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    unk_surface: str = " ⁇ "


def parse_text_rules(data: bytes, label: str) -> TextRules:
    """The rules of a serialised SentencePiece model.

    :param label: names the file in messages.
    :raises ModelFormatError: the bytes are no SentencePiece model.
    """
    rules: dict[str, bool | str] = {}
    try:
        for spec, message in _fields(data):
            if spec not in (2, 3) or not isinstance(message, bytes):
                continue
            for field, value in _fields(message):
                if spec == 2 and field == 44 and isinstance(value, bytes):
                    rules["unk_surface"] = value.decode("utf-8")
                elif spec == 3 and field in (3, 4) and isinstance(value, int):
                    rules["add_dummy_prefix" if field == 3 else "remove_extra_whitespaces"] = bool(value)
    except ValueError as error:
        raise ModelFormatError(f"{label} is no SentencePiece model: {error}") from error
    defaults = TextRules()
    return TextRules(
        bool(rules.get("add_dummy_prefix", defaults.add_dummy_prefix)),
        bool(rules.get("remove_extra_whitespaces", defaults.remove_extra_whitespaces)),
        str(rules.get("unk_surface", defaults.unk_surface)),
    )


def parse_sentencepiece(data: bytes, label: str) -> list[Piece]:
    """The pieces of a serialised SentencePiece model, in the order of their ids.

    :param label: names the file in messages.
    :raises ModelFormatError: the bytes are no SentencePiece model.
    """
    try:
        pieces = [_piece(value) for field, value in _fields(data) if field == 1 and isinstance(value, bytes)]
    except (ValueError, struct.error) as error:
        raise ModelFormatError(f"{label} is no SentencePiece model: {error}") from error
    if not pieces:
        raise ModelFormatError(f"{label} is no SentencePiece model: there are no pieces in it")
    return pieces


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for field, value in _fields(data):
        if field == 1 and isinstance(value, bytes):
            text = value.decode("utf-8")
        elif field == 2 and isinstance(value, bytes):
            (score,) = struct.unpack("<f", value)
        elif field == 3 and isinstance(value, int):
            kind = value
    if not NORMAL <= kind <= BYTE:
        raise ValueError(f"piece {text!r} has the unknown type {kind}")
    return Piece(text, score, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of one message: an int for a varint, else the raw bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        if size > len(data) - at:
            raise ValueError(f"a field of {size} bytes at byte {at} reaches past the end")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number of more than ten bytes before byte {at}")
