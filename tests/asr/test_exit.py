"""Leaving the interpreter while daemon threads are at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CLIP = Path(__file__).parents[1] / "data" / "wer" / "piper-02.flac"

PROGRAM = """
import sys, threading, time
import asr
model = asr.load_model(n_threads=1)

def transcribe():
    while True:
        model.transcribe(sys.argv[1])

for _ in range(2):
    threading.Thread(target=transcribe, daemon=True).start()
time.sleep(0.3)
"""


def test_daemon_threads_do_not_abort_the_exit() -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, CLIP],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
