"""Token ids to text, as SentencePiece and NeMo do it.

Only decoding is here: a recogniser never needs the other direction. The rules are those of SentencePiece
0.2 (``SentencePieceProcessor.decode``); what NeMo adds to them is in ``nemo.collections.asr.parts``,
``submodules/rnnt_decoding.py`` and ``utils/tokenizer_utils.py``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

# SentencePiece's piece types (``ModelProto.SentencePiece.Type``).
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

WORD_START = "▁"  # U+2581 stands for a space in a piece

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_CONTROL_PIECES = frozenset({"<s>", "</s>", "<pad>"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Tokenizer:
    """A SentencePiece vocabulary; the id of a piece is its index.

    ``pieces``: V strings. ``types``: V SentencePiece types (1 normal, 2 unknown, 3 control, 4 user-defined,
    5 unused, 6 byte); :func:`derive_types` finds them for files that do not store them. The other fields
    are parts of the SentencePiece model that change how text is put together, with SentencePiece's
    defaults: ``add_dummy_prefix`` and ``remove_extra_whitespaces`` of the normaliser (if either is set the
    space before the first word is dropped; with the second all spaces before it), and ``unk_surface``, what
    the unknown piece reads as.

    Raises ``ValueError`` if ``types`` does not have one entry a piece or a byte piece is not ``<0xNN>``.
    """

    pieces: tuple[str, ...]
    types: tuple[int, ...]
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    unk_surface: str = " ⁇ "

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.types):
            raise ValueError(f"{len(self.pieces)} pieces but {len(self.types)} piece types")
        for piece, kind in zip(self.pieces, self.types, strict=True):
            if kind == BYTE and not _BYTE_PIECE.fullmatch(piece):
                raise ValueError(f"piece {piece!r} has the type 'byte' but is not of the form <0xNN>")

    @classmethod
    def from_pieces(cls, pieces: Iterable[str], types: Iterable[int] | None = None) -> Tokenizer:
        """A tokenizer of a file that may not store the types of its pieces."""
        pieces = tuple(pieces)
        return cls(pieces, derive_types(pieces) if types is None else tuple(types))

    def __len__(self) -> int:
        return len(self.pieces)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids``, equal to ``SentencePieceProcessor.decode``.

        Raises ``IndexError`` for an id outside the vocabulary.
        """
        text = ""
        pending = bytearray()  # a run of byte pieces is one UTF-8 string
        drop_space = self.add_dummy_prefix or self.remove_extra_whitespaces
        at_start = True
        for token in ids:
            if token < 0:
                raise IndexError(f"token id {token} is negative")
            piece, kind = self.pieces[token], self.types[token]
            if kind == BYTE:
                pending.append(int(piece[3:5], 16))
                continue
            if pending:
                text += _utf8_with_replacement(pending)
                pending.clear()
            at_start = at_start and not text
            if kind == CONTROL:
                continue
            if kind == UNKNOWN:
                text += self.unk_surface
                continue
            if at_start and drop_space and piece.startswith(WORD_START):
                piece = piece[len(WORD_START) :]
                # Unless all leading spaces go, dropping one ends the start of the text.
                at_start = self.remove_extra_whitespaces
            text += piece.replace(WORD_START, " ")
        return text + _utf8_with_replacement(pending)

    def text(self, ids: Iterable[int]) -> str:
        """The text that NeMo gives for a hypothesis: decoded, no space before supported punctuation."""
        return self.strip_space_before_punctuation(self.decode(ids))

    def strip_space_before_punctuation(self, text: str) -> str:
        """Remove one white-space character before each supported punctuation mark (only one, as NeMo)."""
        pattern = self._space_before_punctuation
        return text if pattern is None else pattern.sub(r"\1", text)

    @cached_property
    def supported_punctuation(self) -> frozenset[str]:
        """Unicode punctuation (category P) in the vocabulary's ordinary pieces.

        NeMo's ``extract_punctuation_from_vocab``: pieces that start with ``▁`` or ``##`` and those in
        ``<>`` or ``[]`` do not count.
        """
        return frozenset(
            char
            for piece in self.pieces
            if not _is_special(piece)
            for char in piece
            if unicodedata.category(char).startswith("P")
        )

    @cached_property
    def is_wordpiece(self) -> bool:
        """Whether NeMo takes the vocabulary for a WordPiece one, where ``##`` marks what is no word start."""
        return any(piece.startswith("##") for piece in self.pieces)

    @cached_property
    def _space_before_punctuation(self) -> re.Pattern[str] | None:
        marks = "".join(re.escape(mark) for mark in sorted(self.supported_punctuation))
        return re.compile(rf"\s([{marks}])") if marks else None


def derive_types(pieces: Sequence[str]) -> tuple[int, ...]:
    """SentencePiece types from the pieces' spelling: ``<unk>``, ``<s>``, ``</s>``, ``<pad>``, ``<0xNN>``."""

    def kind(piece: str) -> int:
        if piece == "<unk>":
            return UNKNOWN
        if piece in _CONTROL_PIECES:
            return CONTROL
        return BYTE if _BYTE_PIECE.fullmatch(piece) else NORMAL

    return tuple(kind(piece) for piece in pieces)


def _is_special(piece: str) -> bool:
    if piece.startswith((WORD_START, "##")):
        return True
    return len(piece) > 1 and (piece[0], piece[-1]) in {("<", ">"), ("[", "]")}


def _utf8_with_replacement(data: bytes | bytearray) -> str:
    """UTF-8 decoding with one U+FFFD for each byte that starts no valid character.

    Python's ``errors="replace"`` gives one for each truncated sequence instead.
    """
    out = []
    i = 0
    while i < len(data):
        lead = data[i]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        try:
            out.append(data[i : i + size].decode("utf-8"))
            i += size
        except UnicodeDecodeError:
            out.append(_REPLACEMENT)
            i += 1
    return "".join(out)
