"""Word error rate by edit distance.

Words are what white space separates; they are compared as they are, with no normalisation of case or
punctuation: whoever compares transcripts of different styles normalises them first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Counts of errors against a reference of ``reference_words`` words. Counts add up with ``+``."""

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference_words: int = 0

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per reference word, which may be above 1.

        Against an empty reference: 0.0 without errors, else infinity.
        """
        if self.reference_words == 0:
            return math.inf if self.errors else 0.0
        return self.errors / self.reference_words

    @property
    def percent(self) -> float:
        """:attr:`rate` in percent."""
        return 100.0 * self.rate

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.reference_words + other.reference_words,
        )

    def __str__(self) -> str:
        return (
            f"{self.percent:.2f} % ({self.errors} of {self.reference_words} words: "
            f"{self.substitutions} sub, {self.deletions} del, {self.insertions} ins)"
        )


def word_errors(reference: str, hypothesis: str) -> WordErrors:
    """The fewest word errors that turn ``reference`` into ``hypothesis`` (Levenshtein distance).

    Where several alignments have equally few, the one with most substitutions is counted, which makes the
    three counts unique. Time is proportional to the product of the two lengths in words.
    """
    expected, got = reference.split(), hypothesis.split()
    # One integer a cell orders alignments by errors first and then by deletions + insertions:
    # cost = errors * unit + (deletions + insertions), and the second part never reaches unit.
    unit = len(expected) + len(got) + 1
    gap = unit + 1
    row = [column * gap for column in range(len(got) + 1)]
    for index, word in enumerate(expected, 1):
        previous, row = row, [index * gap]
        for column, other in enumerate(got):
            replaced = previous[column] + (0 if word == other else unit)
            row.append(min(replaced, previous[column + 1] + gap, row[column] + gap))
    errors, gaps = divmod(row[-1], unit)
    deletions = (gaps + len(expected) - len(got)) // 2
    return WordErrors(errors - gaps, deletions, gaps - deletions, len(expected))


def corpus_errors(pairs: Iterable[tuple[str, str]]) -> WordErrors:
    """Word errors of many ``(reference, hypothesis)`` pairs together: every word counts the same."""
    return sum((word_errors(reference, hypothesis) for reference, hypothesis in pairs), WordErrors())
