"""Decoding of token ids: equal to SentencePiece and NeMo on recorded cases, and the rules one by one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from asr.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, Tokenizer, derive_types

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "tokenizer_cases.json").read_text(encoding="utf-8")
)
VOCABULARIES: dict[str, dict[str, Any]] = GOLDEN["vocabularies"]


def recorded_tokenizer(name: str) -> Tokenizer:
    stored = VOCABULARIES[name]
    return Tokenizer(
        tuple(stored["pieces"]),
        tuple(stored["types"]),
        remove_extra_whitespaces=stored["remove_extra_whitespaces"],
    )


@pytest.mark.parametrize("name", VOCABULARIES)
def test_decode_and_text_equal_sentencepiece_and_nemo(name: str) -> None:
    tokenizer = recorded_tokenizer(name)
    cases = [case for case in GOLDEN["cases"] if case["vocabulary"] == name]
    assert len(cases) >= 50
    for case in cases:
        assert tokenizer.decode(case["ids"]) == case["decoded"], case
        assert tokenizer.text(case["ids"]) == case["text"], case


@pytest.mark.parametrize("name", VOCABULARIES)
def test_supported_punctuation_equals_nemo(name: str) -> None:
    assert recorded_tokenizer(name).supported_punctuation == set(VOCABULARIES[name]["punctuation"])


@pytest.mark.parametrize("name", ["punctuation", "lower", "wordpiece"])
def test_derived_types_equal_the_stored_ones(name: str) -> None:
    assert derive_types(VOCABULARIES[name]["pieces"]) == tuple(VOCABULARIES[name]["types"])


def test_derived_types() -> None:
    pieces = ["<unk>", "<s>", "</s>", "<pad>", "<0x0A>", "<0xfF>", "<0x0>", "▁a", "<EOU>"]
    kinds = (UNKNOWN, CONTROL, CONTROL, CONTROL, BYTE, BYTE, NORMAL, NORMAL, NORMAL)
    assert derive_types(pieces) == kinds
    assert Tokenizer.from_pieces(pieces).types == kinds


SMALL = Tokenizer.from_pieces(
    ["<unk>", "<s>", "▁", "▁a", "b", ".", *(f"<0x{value:02X}>" for value in range(256))]
)
UNK, BOS, SPACE, A, B, STOP, BYTES = 0, 1, 2, 3, 4, 5, 6


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        ([A, B, A], "ab a"),
        ([SPACE, SPACE, A], "a"),
        ([B, SPACE, SPACE, A], "b   a"),
        ([BOS, A, BOS, A], "a a"),
        ([UNK, A], " ⁇  a"),
        ([BYTES + 0xC3, BYTES + 0xA9], "é"),
        ([BYTES + 0xC3, BOS, BYTES + 0xA9], "\ufffd\ufffd"),
        ([BYTES + 0xF0, BYTES + 0x9F, BYTES + 0x98, A], "\ufffd\ufffd\ufffd a"),
        ([BYTES + 0x20, A], "  a"),
        ([BYTES + 0xED, BYTES + 0xA0, BYTES + 0x80], "\ufffd\ufffd\ufffd"),
    ],
)
def test_decode_rules(ids: list[int], text: str) -> None:
    assert SMALL.decode(ids) == text


def test_the_space_before_the_first_word_depends_on_the_normaliser() -> None:
    ids = [SPACE, SPACE, A]
    one = dataclasses.replace(SMALL, remove_extra_whitespaces=False)
    none = dataclasses.replace(one, add_dummy_prefix=False)
    assert [t.decode(ids) for t in (SMALL, one, none)] == ["a", "  a", "   a"]


def test_only_one_space_goes_before_punctuation() -> None:
    assert SMALL.text([A, SPACE, SPACE, STOP]) == "a ."
    assert SMALL.text([A, SPACE, STOP, SPACE, STOP]) == "a.."
    assert SMALL.text([UNK, STOP]) == " ⁇."


def test_no_punctuation_leaves_the_text_alone() -> None:
    tokenizer = Tokenizer.from_pieces(["<unk>", "▁a", "▁.", "<.>"])
    assert tokenizer.supported_punctuation == frozenset()
    assert tokenizer.text([1, 2]) == "a ."


@pytest.mark.parametrize("token", [-1, len(SMALL)])
def test_an_id_outside_the_vocabulary_is_an_error(token: int) -> None:
    with pytest.raises(IndexError):
        SMALL.decode([token])


def test_inconsistent_vocabularies_are_refused() -> None:
    with pytest.raises(ValueError, match="2 pieces but 1"):
        Tokenizer(("a", "b"), (NORMAL,))
    with pytest.raises(ValueError, match="<0xNN>"):
        Tokenizer(("a",), (BYTE,))
