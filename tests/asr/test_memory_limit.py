"""Where memory ends, wherever that is, the error says so, and the model goes on afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys
import numpy as np
import asr

rng = np.random.default_rng(0)
speech = rng.standard_normal(16000 * 600).astype(np.float32) / 10
model = asr.load_model(sys.argv[1], n_threads=1)  # see docs/ggml-limits.md on threads that start
short = model.transcribe(speech[:32000])
before = [model.encode(speech[: 16000 * n]) for n in (2, 3)]
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
refused = 0
for extra in (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96):
    resource.setrlimit(resource.RLIMIT_AS, (used + (extra << 20), resource.RLIM_INFINITY))
    for seconds in (60, 600):
        try:
            model.transcribe(speech[: 16000 * seconds])
        except asr.MemoryLimitError as error:
            assert f"{seconds} s of audio" in str(error) or "read the recording" in str(error), error
            refused += 1
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert model.transcribe(speech[:32000]) == short
for n, encoded in zip((2, 3), before):
    assert np.array_equal(model.encode(speech[: 16000 * n]), encoded)
print(refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
@pytest.mark.parametrize("name", ["tdt-ctc", "rnnt-ctc-streaming"])
def test_too_little_memory(name: str, gguf_path: Callable[[str], Path]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(gguf_path(name))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 5
