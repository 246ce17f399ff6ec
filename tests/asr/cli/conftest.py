"""Fixtures for the command line: audio files, a stub in place of the model, real processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import asr.audio

STUB = Path(__file__).with_name("stub_main.py")


def write_noise(path: Path, seconds: float = 0.5, rate: int = 16000) -> str:
    """A file of quiet noise; its name as text."""
    noise = np.random.default_rng(5).normal(scale=0.05, size=int(seconds * rate))
    soundfile.write(path, noise, rate)
    return str(path)


@pytest.fixture
def make_wav(tmp_path: Path) -> Callable[..., str]:
    """``make_wav(name, seconds, rate)``: a file of noise in the test's folder; gives its path as text."""

    def make(name: str, seconds: float = 0.5, rate: int = 16000) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_noise(path, seconds, rate)

    return make


@pytest.fixture
def bad_files(tmp_path: Path) -> dict[str, str]:
    """Paths of audio that cannot be used, by what is wrong with them."""
    folder = tmp_path / "bad"
    folder.mkdir()
    write_noise(folder / "good.wav", 2.0)
    content = (folder / "good.wav").read_bytes()
    thousand = bytearray(content)
    thousand[22:24] = (1000).to_bytes(2, "little")
    thousand[32:34] = (2000).to_bytes(2, "little")
    contents = {
        "empty": b"",
        "no samples": content[:40] + bytes(4),
        "too short": content[:40] + (318).to_bytes(4, "little") + content[44 : 44 + 318],
        "not audio": b"this is a text\n" * 200,
        "truncated": content[: len(content) // 2],
        "1000 channels": bytes(thousand),
    }
    files = {}
    for name, data in contents.items():
        path = folder / f"{name.replace(' ', '-')}.wav"
        path.write_bytes(data)
        files[name] = str(path)
    for name, value in {"NaN": np.nan, "infinity": np.inf}.items():
        samples = np.full(8000, 0.1, dtype=np.float32)
        samples[100] = value
        soundfile.write(folder / f"{name}.wav", samples, 16000, subtype="FLOAT")
        files[name] = str(folder / f"{name}.wav")
    (folder / "folder.wav").mkdir()
    files["folder"] = str(folder / "folder.wav")
    files["no such file"] = str(folder / "gone.wav")
    return files


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stub model in the place of every model, in this process; see ``stub_main.StubModel``."""
    spec = importlib.util.spec_from_file_location("stub_main", STUB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.install(lambda *where: monkeypatch.setattr(*where, raising=False))
    monkeypatch.setitem(sys.modules, "asr.models", asr.models)
    model.notice = module.NOTICE
    return model


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment in which a child process finds the same ``asr`` from any folder."""
    path = str(Path(asr.audio.__file__).parents[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    return {**kept, "PYTHONPATH": path}


@pytest.fixture
def stub_command() -> list[str]:
    """The start of a command line for the ``asr`` command with the stub model."""
    return [sys.executable, str(STUB)]


@pytest.fixture
def asr_command() -> list[str]:
    """The start of a command line for the real ``asr`` command with the bundled model."""
    return [sys.executable, "-m", "asr.cli"]


@pytest.fixture
def run_process(
    tmp_path: Path, environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """``run_process(command, **options)``: run to the end in the test's folder; output as bytes."""

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        streams = {"stdin": subprocess.DEVNULL} if "input" not in options else {}
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "env": environment}
        return subprocess.run(command, **(streams | settings | {"timeout": 120} | options), check=False)

    return run
