"""Log-mel frames of parts of a signal, against those of the whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import asr
from asr.features import LogMel


@pytest.fixture(scope="module")
def signal() -> npt.NDArray[np.float32]:
    return np.random.default_rng(5).normal(0, 0.1, 40_123).astype(np.float32)


@pytest.fixture(params=["tdt-ctc", "rnnt-causal"])  # normalised and not
def log_mel(tiny_model: Callable[..., asr.Model], request: pytest.FixtureRequest) -> LogMel:
    return tiny_model(request.param)._log_mel


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_rows_of_parts_are_those_of_the_whole(
    log_mel: LogMel, signal: npt.NDArray[np.float32], size: int
) -> None:
    n_frames = len(signal) // log_mel.config.hop_length
    parts = []
    for first in range(0, n_frames, size):
        count = min(size, n_frames - first)
        begin = log_mel.first_sample(first)
        parts.append(log_mel.rows(signal[begin:], begin, first, count))
    rows = np.concatenate(parts)
    log_mel.normalise(rows)
    assert np.array_equal(rows, log_mel(signal))


def test_complete_frames_do_not_depend_on_what_follows(
    log_mel: LogMel, signal: npt.NDArray[np.float32]
) -> None:
    whole = log_mel.rows(signal, 0, 0, len(signal) // log_mel.config.hop_length)
    # Not 199 or 359: the window's last weight is 0, so that sample does not matter.
    for n in (1, 198, 200, 201, 358, 360, 361, 5000, 5001, 5158, 5160):
        count = log_mel.n_complete(n)
        assert np.array_equal(log_mel.rows(signal[:n], 0, 0, count), whole[:count])
        loud = np.concatenate([signal[:n], np.full(1000, 9.0, np.float32)])
        first_wrong = log_mel.rows(loud, 0, count, 1)
        assert not np.array_equal(first_wrong, whole[count : count + 1])


def test_samples_that_do_not_reach_are_refused(log_mel: LogMel, signal: npt.NDArray[np.float32]) -> None:
    begin = log_mel.first_sample(50)
    with pytest.raises(ValueError, match="begin after"):
        log_mel.rows(signal[begin + 1 :], begin + 1, 50, 1)
    with pytest.raises(ValueError, match="end before"):
        log_mel.rows(signal[begin:8159], begin, 50, 1)
    assert log_mel.rows(signal[begin:8160], begin, 50, 1).shape == (1, log_mel.config.n_mels)
    with pytest.raises(ValueError, match="values as mel bins"):
        log_mel.normalise(np.zeros((3, 5), np.float32))
