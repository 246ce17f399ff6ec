"""The word error rate: counts on known alignments, and against a plain recursive definition."""

from __future__ import annotations

import functools
import itertools
import math

import pytest

from asr.wer import WordErrors, corpus_errors, word_errors


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("", "", WordErrors(0, 0, 0, 0)),
        ("go", "go", WordErrors(0, 0, 0, 1)),
        ("go", "", WordErrors(0, 1, 0, 1)),
        ("", "go no", WordErrors(0, 0, 2, 0)),
        ("go", "no", WordErrors(1, 0, 0, 1)),
        ("enter one two", "enter two", WordErrors(0, 1, 0, 3)),
        ("enter two", "enter one two", WordErrors(0, 0, 1, 2)),
        ("a b c d", "a x c d e", WordErrors(1, 0, 1, 4)),
        ("a b c d e", "b c d e f", WordErrors(0, 1, 1, 5)),
        ("one  two\tthree\n", " one two three", WordErrors(0, 0, 0, 3)),
        ("Yes", "yes", WordErrors(1, 0, 0, 1)),
    ],
)
def test_counts(reference: str, hypothesis: str, expected: WordErrors) -> None:
    assert word_errors(reference, hypothesis) == expected


def test_equal_alignments_count_substitutions() -> None:
    # Two errors either way: two substitutions, or one deletion and one insertion.
    assert word_errors("a b", "b c") == WordErrors(2, 0, 0, 2)


def alignments(expected: str, got: str) -> set[tuple[int, int, int]]:
    """(substitutions, deletions, insertions) of every alignment, by exhaustion."""

    @functools.cache
    def of(i: int, j: int) -> frozenset[tuple[int, int, int]]:
        if i == 0 and j == 0:
            return frozenset({(0, 0, 0)})
        found: set[tuple[int, int, int]] = set()
        if i and j:
            wrong = int(expected[i - 1] != got[j - 1])
            found |= {(s + wrong, d, n) for s, d, n in of(i - 1, j - 1)}
        if i:
            found |= {(s, d + 1, n) for s, d, n in of(i - 1, j)}
        if j:
            found |= {(s, d, n + 1) for s, d, n in of(i, j - 1)}
        return frozenset(found)

    return set(of(len(expected), len(got)))


def test_against_exhaustion() -> None:
    sequences = ["".join(word) for size in range(5) for word in itertools.product("ab", repeat=size)]
    for expected, got in itertools.product(sequences, repeat=2):
        best = min(alignments(expected, got), key=lambda counts: (sum(counts), counts[1] + counts[2]))
        counted = word_errors(" ".join(expected), " ".join(got))
        assert (counted.substitutions, counted.deletions, counted.insertions) == best, (expected, got)


def test_rate() -> None:
    errors = word_errors("one two three four", "one three four five six")
    assert errors.errors == 3
    assert errors.rate == pytest.approx(0.75)
    assert errors.percent == pytest.approx(75.0)
    assert word_errors("go", "a b c").rate == pytest.approx(3.0)
    assert word_errors("", "").rate == 0.0
    assert math.isinf(word_errors("", "go").rate)


def test_corpus_weighs_words_not_clips() -> None:
    total = corpus_errors([("go", "no"), ("one two three", "one two three"), ("", "a")])
    assert total == WordErrors(1, 0, 1, 4)
    assert total.rate == pytest.approx(0.5)
    assert corpus_errors([]) == WordErrors()


def test_text_form() -> None:
    text = str(corpus_errors([("a b c", "a x"), ("d", "d e")]))
    assert text == "75.00 % (3 of 4 words: 1 sub, 1 del, 1 ins)"
