"""How long a model takes, stage by stage, and how much memory.

Times are of this process on this machine, warm: the first pass over a recording is not counted.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asr.audio import AudioSource
from asr.model import Model

STAGES = ("read", "mel", "encoder", "decoder")

_NOISE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds on the clock, of several passes."""

    median: float
    best: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """One recording: its length in seconds, times by stage and in all, and seconds of work for one of audio.

    ``stages`` are ``read`` (file to samples at the model's rate), ``mel``, ``encoder`` and ``decoder`` (with
    words and segments). ``real_time_factor`` is of the median: 0.1 is ten times as fast as the recording.
    """

    duration: float
    passes: int
    stages: dict[str, Times]
    total: Times
    real_time_factor: float


def measure(
    model: Model, audio: AudioSource | None = None, *, decoder: str | None = None, passes: int = 5
) -> Measurement:
    """Transcribes a recording ``passes`` times after one that is not counted.

    ``audio`` None is ten seconds of noise, for which a transducer takes fewer steps than for speech. Raises
    what :meth:`asr.Model.transcribe` raises, and ``ValueError`` for less than one pass.
    """
    if passes < 1:
        raise ValueError(f"a measurement takes at least one pass, not {passes}")
    if audio is None:
        noise = np.random.default_rng(0).normal(0, 0.05, _NOISE_SECONDS * model.sample_rate)
        audio = noise.astype(np.float32)
    _pass(model, audio, decoder)
    measured = [_pass(model, audio, decoder) for _ in range(passes)]
    rows = [laps for laps, _ in measured]
    duration = measured[0][1]
    stages = {stage: _times([row[stage] for row in rows]) for stage in STAGES}
    total = _times([sum(row.values()) for row in rows])
    return Measurement(duration, passes, stages, total, total.median / duration)


def _pass(model: Model, audio: AudioSource, decoder: str | None) -> tuple[dict[str, float], float]:
    """Seconds of each stage, and of the recording."""
    laps: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    last = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal last
        now = time.perf_counter()
        laps[stage] += now - last
        last = now

    return laps, model.transcribe_in_stages(audio, lap, decoder=decoder).duration


def _times(seconds: list[float]) -> Times:
    return Times(statistics.median(seconds), min(seconds))


def peak_memory() -> int | None:
    """The most memory that this process has had, in bytes, mapped files included; None where unknown."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says there includes the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None
