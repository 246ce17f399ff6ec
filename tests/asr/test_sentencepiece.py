"""The reader of SentencePiece models, on messages encoded here by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asr.errors import ModelFormatError
from asr.sentencepiece import Piece, TextRules, parse_sentencepiece, parse_text_rules


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


PIECES = message(1, message(1, b"<unk>") + number(3, 2)) + message(1, message(1, "▁a".encode()))


def test_pieces() -> None:
    assert parse_sentencepiece(PIECES, "model") == [Piece("<unk>", 0.0, 2), Piece("▁a", 0.0, 1)]


def test_rules_default_to_sentencepieces_own() -> None:
    assert parse_text_rules(PIECES, "model") == TextRules(True, True, " ⁇ ")


def test_rules_are_read() -> None:
    trainer = message(2, number(3, 7) + message(44, b"?"))
    normalizer = message(3, message(1, b"identity") + number(3, 0) + number(4, 0))
    assert parse_text_rules(PIECES + trainer + normalizer, "model") == TextRules(False, False, "?")


@pytest.mark.parametrize("parse", [parse_sentencepiece, parse_text_rules])
@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x0b", b"\xff" * 12])
def test_damaged_models_are_refused(parse: Callable[[bytes, str], object], data: bytes) -> None:
    with pytest.raises(ModelFormatError, match="model is no SentencePiece model"):
        parse(data, "model")


def test_a_rule_that_is_not_text_is_refused() -> None:
    with pytest.raises(ModelFormatError, match="model is no SentencePiece model"):
        parse_text_rules(message(2, message(44, b"\xff")), "model")
