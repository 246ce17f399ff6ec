"""What only a process of its own shows: exit statuses, signals, pipes, full devices, encodings.

The model is a stub, so that each of these takes no longer than starting Python.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[bytes]]
MakeWav = Callable[..., str]

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and devices")


@pytest.mark.parametrize(
    "locale", [{"LANG": "C"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_utf8_whatever_the_locale(
    locale: dict[str, str],
    run_process: Run,
    stub_command: list[str],
    environment: dict[str, str],
    make_wav: MakeWav,
) -> None:
    done = run_process(
        [*stub_command, "transcribe", make_wav("ünï.wav"), "gone ü.wav"], env=environment | locale
    )
    assert done.returncode == 1
    assert "ünï.wav <==\nheard 8000 é.\n" in done.stdout.decode("utf-8")
    assert "asr: error: gone ü.wav: no such file" in done.stderr.decode("utf-8")


@posix_only
def test_names_that_are_not_utf8(
    run_process: Run, stub_command: list[str], tmp_path: Path, make_wav: MakeWav
) -> None:
    good = os.fsencode(tmp_path) + b"/\xff.wav"
    os.rename(make_wav("x.wav"), good)
    command = [*map(os.fsencode, stub_command), b"transcribe", b"-f", b"json", good, b"gone\xfe.wav"]
    done = run_process(command)
    assert done.returncode == 1
    assert b"heard 8000 \xc3\xa9." in done.stdout
    assert "\\xff.wav" in done.stdout.decode("utf-8")
    assert "gone\\xfe.wav: no such file" in done.stderr.decode("utf-8")
    assert b"Traceback" not in done.stderr


def test_standard_input_is_a_pipe(run_process: Run, stub_command: list[str], make_wav: MakeWav) -> None:
    content = Path(make_wav("a.wav")).read_bytes()
    done = run_process([*stub_command, "transcribe", "--quiet", "-"], input=content)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard 8000 é.\n".encode(), b"")
    done = run_process([*stub_command, "transcribe", "--quiet", "-"], input=content[:1000])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"asr: error: standard input is truncated")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["transcribe", "-q", "a.wav", "a.wav"], ["--help"]])
def test_a_full_device(
    arguments: list[str], run_process: Run, stub_command: list[str], make_wav: MakeWav
) -> None:
    make_wav("a.wav")
    with open("/dev/full", "wb") as full:
        done = run_process([*stub_command, *arguments], stdout=full)
    assert done.returncode == 1
    assert done.stderr == b"asr: error: cannot write to standard output: No space left on device\n"


@posix_only
@pytest.mark.parametrize("arguments", [["transcribe", "-q", "-f", "csv", "a.wav"], ["--help"]])
def test_a_reader_that_has_seen_enough(
    arguments: list[str],
    run_process: Run,
    stub_command: list[str],
    environment: dict[str, str],
    make_wav: MakeWav,
) -> None:
    make_wav("a.wav")
    reading, writing = os.pipe()
    os.close(reading)  # as when head has ended already
    try:
        env = environment | {"STUB_SEGMENTS": "20000"}
        done = run_process([*stub_command, *arguments], env=env, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@posix_only
def test_ctrl_c_ends_at_once_with_130(
    stub_command: list[str], environment: dict[str, str], make_wav: MakeWav, tmp_path: Path
) -> None:
    command = [*stub_command, "transcribe", make_wav("a.wav"), "-o", "out"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment | {"STUB_SECONDS": "600"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"no model was named")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err) == (b"", b"")
    assert os.listdir(tmp_path / "out") == []
