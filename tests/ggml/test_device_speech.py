"""The speech model on the device that ``GGML_TEST_DEVICE`` names, against the CPU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import ggml

FloatArray = npt.NDArray[np.float32]
Measure = Callable[[FloatArray, FloatArray], float]

NAMES = tuple(name for name in (os.environ.get("GGML_TEST_DEVICE", ""),) if name not in ("", "CPU"))
SPEECH = Path(__file__).resolve().parents[1] / "data" / "wer"


@pytest.mark.parametrize("name", NAMES)
def test_the_speech_model(
    name: str,
    find_device: Callable[[str], ggml.Device],
    relative_error: Measure,
    report_line: Callable[[str], None],
) -> None:
    import asr

    device = find_device(name)
    rows = [json.loads(line) for line in (SPEECH / "manifest.jsonl").read_text("utf-8").splitlines()]
    clips = [SPEECH / row["audio"] for row in rows[:: len(rows) // 10][:10]]
    on_cpu = asr.load_model("tiny-commands-en")
    on_device = asr.load_model("tiny-commands-en", device=device.name)
    worst = 0.0
    for clip in clips:
        error = relative_error(on_device.encode(clip), on_cpu.encode(clip))
        worst = max(worst, error)
    report_line(f"{device.name} ({device.description}): encoder of 10 clips within {worst:.1e} of the CPU's")
    assert worst < 2e-2
    for decoder in on_cpu.decoders:
        for clip in clips:
            expected = on_cpu.transcribe(clip, decoder=decoder).text
            assert on_device.transcribe(clip, decoder=decoder).text == expected
