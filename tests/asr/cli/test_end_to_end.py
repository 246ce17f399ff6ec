"""The real command with the bundled model, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import asr
from asr.models import DEFAULT_MODEL

Run = Callable[..., subprocess.CompletedProcess[bytes]]
MakeWav = Callable[..., str]

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and devices")


def test_standard_output_is_what_python_gives(
    run_process: Run, asr_command: list[str], environment: dict[str, str], make_wav: MakeWav
) -> None:
    path = make_wav("a.wav", 1.5)
    done = run_process([*asr_command, "transcribe", "--threads", "1", path], env=environment | {"LANG": "C"})
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode("utf-8") == asr.transcribe(path, n_threads=1).text + "\n"
    notice = done.stderr.decode("utf-8")
    assert "--model" in notice or "-m" in notice
    quiet = run_process(
        [*asr_command, "transcribe", "-q", "--threads", "1", "-"], input=Path(path).read_bytes()
    )
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, done.stdout, b"")


def test_bad_files_are_named_and_the_others_done_in_every_format(
    run_process: Run, asr_command: list[str], make_wav: MakeWav, bad_files: dict[str, str], tmp_path: Path
) -> None:
    silent = tmp_path / "silent.wav"
    header = Path(make_wav("first.wav")).read_bytes()
    silent.write_bytes(header[:44] + bytes(len(header) - 44))
    files = [make_wav("first.wav"), *bad_files.values(), str(silent), make_wav("last.wav", rate=44100)]
    formats = ["txt", "srt", "vtt", "json", "csv", "tsv"]
    command = [
        *asr_command,
        "transcribe",
        *files,
        "-q",
        "--threads",
        "1",
        "-o",
        "out",
        "-f",
        ",".join(formats),
    ]
    done = run_process(command)
    assert (done.returncode, done.stdout) == (1, b"")
    errors = done.stderr.decode("utf-8").splitlines()
    assert len(errors) == len(bad_files)
    for line, (what, path) in zip(errors, bad_files.items(), strict=True):
        assert line.startswith("asr: error: ")
        assert path in line
        assert what in line
    expected = sorted(f"{stem}.{suffix}" for stem in ("first", "silent", "last") for suffix in formats)
    assert sorted(os.listdir(tmp_path / "out")) == expected
    assert (tmp_path / "out" / "silent.txt").read_text() == "\n"  # silence is no error: an empty transcript
    last = json.loads((tmp_path / "out" / "last.json").read_text(encoding="utf-8"))
    assert last["duration"] == pytest.approx(0.5, abs=1e-3)
    assert {"text", "segments", "words", "tokens", "model", "decoder"} <= set(last)


def test_an_unreadable_file(run_process: Run, asr_command: list[str], make_wav: MakeWav) -> None:
    path = make_wav("a.wav")
    os.chmod(path, 0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    done = run_process([*asr_command, "transcribe", "-q", path])
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no permission" in done.stderr


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + bytes(16), b"this is a text\n" * 50])
def test_a_file_that_is_no_model(
    content: bytes, run_process: Run, asr_command: list[str], make_wav: MakeWav, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    done = run_process([*asr_command, "transcribe", "-m", "m.gguf", make_wav("a.wav"), "-o", "out"])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"asr: error: ")
    assert b"m.gguf" in done.stderr
    assert b"Traceback" not in done.stderr


def test_info_devices_and_version(run_process: Run, asr_command: list[str]) -> None:
    info = run_process([*asr_command, "info", DEFAULT_MODEL])
    assert (info.returncode, info.stderr) == (0, b"")
    assert DEFAULT_MODEL in info.stdout.decode("utf-8")
    devices = run_process([*asr_command, "devices"])
    assert (devices.returncode, devices.stderr) == (0, b"")
    assert devices.stdout.splitlines()[0].split()[:2] == [b"NAME", b"TYPE"]
    assert len(devices.stdout.splitlines()) >= 2
    version = run_process([*asr_command, "--version"])
    assert version.stdout.decode() == f"asr {asr.__version__}\n"


@posix_only
def test_ctrl_c_in_the_middle_of_a_long_recording(
    asr_command: list[str], environment: dict[str, str], make_wav: MakeWav, tmp_path: Path
) -> None:
    command = [*asr_command, "transcribe", make_wav("long.wav", 600.0), "-o", "out"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() != b""  # the notice: it has begun
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert os.listdir(tmp_path / "out") == []
