"""A processor without the instructions of the prebuilt ggml: a message in place of SIGILL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import ggml


def test_old_processor_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggml import _cpu, _load

    monkeypatch.setattr(_cpu, "missing", lambda: ["AVX2", "FMA"])
    monkeypatch.delenv("GGML_ALLOW_ANY_CPU", raising=False)
    with pytest.raises(ggml.UnsupportedProcessorError, match=r"lacks AVX2, FMA.*pip install .*libggml"):
        _load.prepare()
    monkeypatch.setenv("GGML_ALLOW_ANY_CPU", "1")
    _load.prepare()


def test_this_processor_is_enough() -> None:
    from ggml import _cpu

    assert _cpu.missing() == []


def test_old_processor_in_an_emulator() -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None or sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("needs qemu-x86_64")
    run = subprocess.run(
        [emulator, "-cpu", "Westmere", sys.executable, "-c", "import ggml"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "this processor lacks AVX, AVX2" in run.stderr
