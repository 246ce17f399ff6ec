"""``asr transcribe`` in one process, with a stub in place of the model."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr.cli import main

MakeWav = Callable[..., str]
Capture = pytest.CaptureFixture[str]


def test_one_file_to_standard_output(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    assert main(["transcribe", make_wav("a.wav")]) == 0
    out, err = capsys.readouterr()
    assert out == "heard 8000 é.\n"
    assert err == stub.notice + "\n"


def test_the_notice_is_for_those_who_named_no_model(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    path = make_wav("a.wav")
    assert main(["transcribe", "-m", "model.gguf", path]) == 0
    assert main(["transcribe", "--quiet", path]) == 0
    assert capsys.readouterr().err == ""
    assert [name for name, _ in stub.loaded] == ["model.gguf", None]


def test_options_reach_the_library(stub: Any, make_wav: MakeWav) -> None:
    path = make_wav("a.wav")
    options = [
        "--decoder",
        "ctc",
        "--threads",
        "3",
        "--device",
        "Vulkan0",
        "--channel",
        "1",
        "--min-duration",
        "0",
    ]
    assert main(["transcribe", path, *options]) == 0
    assert stub.loaded == [(None, {"device": "Vulkan0", "n_threads": 3})]
    assert stub.calls == [(path, {"decoder": "ctc", "min_duration": 0.0, "channel": 1})]


def test_several_files_each_under_its_name(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    a, b = make_wav("a.wav"), make_wav("b.flac", 1.0)
    assert main(["transcribe", a, b]) == 0
    assert capsys.readouterr().out == f"==> {a} <==\nheard 8000 é.\n\n==> {b} <==\nheard 16000 é.\n"


def test_one_json_is_an_object_and_several_are_an_array(
    stub: Any, make_wav: MakeWav, capsys: Capture
) -> None:
    a, b = make_wav("a.wav"), make_wav("b.wav")
    assert main(["transcribe", "-f", "json", a]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "heard 8000 é."
    assert main(["transcribe", "-f", "json", a, "gone.wav", b]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(item["file"], item["text"]) for item in found] == [(a, "heard 8000 é."), (b, "heard 8000 é.")]
    assert main(["transcribe", "-f", "json", "gone1.wav", "gone2.wav"]) == 1
    assert json.loads(capsys.readouterr().out) == []


def test_timestamps_in_text(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    assert main(["transcribe", make_wav("a.wav"), "--timestamps", "word"]) == 0
    assert capsys.readouterr().out == "[00:00:00.000 --> 00:00:00.080] heard\n"


@pytest.mark.parametrize("arguments", [["-f", "txt,srt", "-f", "JSON,txt"], ["-f", "txt, srt,json"]])
def test_several_formats_to_a_folder(
    arguments: list[str], stub: Any, make_wav: MakeWav, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "new" / "out"
    assert main(["transcribe", make_wav("a.wav"), make_wav("b.wav"), "-o", str(out), *arguments]) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["a.json", "a.srt", "a.txt", "b.json", "b.srt", "b.txt"]
    assert (out / "a.txt").read_text(encoding="utf-8") == "heard 8000 é.\n"
    assert (out / "b.srt").read_text(encoding="utf-8").startswith("1\n00:00:00,000 --> ")
    assert capsys.readouterr().out == ""


def test_standard_input(
    stub: Any, make_wav: MakeWav, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = Path(make_wav("a.wav")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["transcribe", "-", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "stdin.txt").read_text(encoding="utf-8") == "heard 8000 é.\n"


def test_closed_standard_input(stub: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["transcribe", "-"]) == 1
    assert "asr: error: standard input is closed" in capsys.readouterr().err


def test_every_unusable_file_is_named_and_the_others_are_done(
    stub: Any, make_wav: MakeWav, bad_files: dict[str, str], tmp_path: Path, capsys: Capture
) -> None:
    files = [make_wav("first.wav"), *bad_files.values(), make_wav("last.wav")]
    out = tmp_path / "out"
    assert main(["transcribe", *files, "-o", str(out), "-f", "txt,json"]) == 1
    assert sorted(p.name for p in out.iterdir()) == ["first.json", "first.txt", "last.json", "last.txt"]
    notice, *errors = capsys.readouterr().err.splitlines()
    assert notice == stub.notice
    assert len(errors) == len(bad_files)
    for line, (what, path) in zip(errors, bad_files.items(), strict=True):
        assert line.startswith("asr: error: ")
        assert path in line
        assert what in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.wav", "-f", "txt,srt"], "--output-dir"),
        (["a.wav", "-f", "pdf"], "there is no format 'pdf'; choose from txt, srt"),
        (["a.wav", "-f", ""], "there is no format ''"),
        (["a.wav", "-f", "srt", "--timestamps", "word"], "--timestamps"),
        (["a.wav", "--timestamps", "line"], "--timestamps"),
        (["a.wav", "--decoder", "lstm"], "--decoder"),
        (["a.wav", "--threads", "0"], "--threads"),
        (["a.wav", "--channel", "0"], "--channel"),
        (["a.wav", "--min-duration", "-1"], "--min-duration"),
        (["a.wav", "--min-duration", "nan"], "--min-duration"),
        (["-", "-"], "once"),
        ([], "FILE"),
        (["a.wav", "--unknown"], "--unknown"),
        (["x/a.wav", "y/a.wav", "-o", "out"], "x/a.wav and y/a.wav would both write"),
        (["a.wav", "A.flac", "-o", "out"], "would both write"),
        (["a.txt", "-o", "."], "overwrite the input a.txt"),
    ],
)
def test_wrong_usage_is_refused_before_any_work(
    arguments: list[str],
    message: str,
    stub: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["transcribe", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("asr: error: ")
    assert message in err
    assert err.endswith("Try 'asr transcribe --help' for help.\n")
    assert stub.loaded == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_should_be(
    stub: Any, make_wav: MakeWav, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "out").write_text("kept")
    assert main(["transcribe", make_wav("a.wav"), "-o", str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("asr: error: cannot use ")
    assert "a file is in the way" in err
    assert stub.loaded == []
    assert (tmp_path / "out").read_text() == "kept"


def test_one_output_that_cannot_be_written(
    stub: Any, make_wav: MakeWav, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out"
    (out / "a.txt").mkdir(parents=True)
    a, b = make_wav("a.wav"), make_wav("b.wav")
    assert main(["transcribe", "--quiet", a, b, "-o", str(out)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"asr: error: {a}: cannot write {out / 'a.txt'}: ")
    assert sorted(p.name for p in out.iterdir()) == ["a.txt", "b.txt"]


def test_a_head_that_the_model_lacks_is_said_once(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    files = [make_wav("a.wav"), make_wav("b.wav")]
    assert main(["transcribe", "--quiet", *files, "--decoder", "rnnt"]) == 1
    assert capsys.readouterr() == ("", "asr: error: the model stub has no rnnt head; it has tdt, ctc\n")


def test_a_model_that_is_missing(stub: Any, make_wav: MakeWav, capsys: Capture) -> None:
    assert main(["transcribe", make_wav("a.wav"), "-m", "missing"]) == 1
    assert capsys.readouterr().err.startswith("asr: error: there is no model 'missing'")


def test_errors_of_ggml_are_errors_with_a_message(
    stub: Any, make_wav: MakeWav, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    class GgmlError(Exception):
        pass

    class FakeGgml:
        pass

    FakeGgml.GgmlError = GgmlError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ggml", FakeGgml)

    def fail(*_: object, **__: object) -> None:
        raise GgmlError("out of device memory")

    monkeypatch.setattr(stub, "transcribe", fail)
    path = make_wav("a.wav")
    assert main(["transcribe", "--quiet", path]) == 1
    assert capsys.readouterr().err == f"asr: error: {path}: out of device memory\n"


def test_an_error_of_the_program_itself_is_not_hidden(
    stub: Any, make_wav: MakeWav, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(stub, "transcribe", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["transcribe", make_wav("a.wav")])


def test_ctrl_c_while_transcribing(
    stub: Any, make_wav: MakeWav, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stub, "transcribe", interrupted)
    assert main(["transcribe", "--quiet", make_wav("a.wav"), "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr() == ("", "")
    assert list((tmp_path / "out").iterdir()) == []


def test_channel_that_does_not_exist(stub: Any, tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "stereo.wav")
    soundfile.write(path, np.zeros((8000, 2)), 16000)
    assert main(["transcribe", "--quiet", path, "--channel", "2"]) == 0
    assert main(["transcribe", "--quiet", path, "--channel", "3"]) == 1
    assert capsys.readouterr().err == (
        f"asr: error: {path} has 2 channels, numbered from 1; there is no channel 3\n"
    )


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_and_not_for_quiet(
    stub: Any, make_wav: MakeWav, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    paths = [make_wav("a.wav"), make_wav("b.wav")]
    monkeypatch.setenv("TERM", "xterm")
    for quiet in (False, True):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        assert main(["transcribe", *paths, "gone.wav", *(["--quiet"] if quiet else [])]) == 1
        assert ("2/3" in screen.getvalue()) is not quiet
        assert "asr: error: gone.wav: no such file" in screen.getvalue()
    out = capsys.readouterr().out
    assert out.count("heard 8000 é.\n") == 4
    assert "\x1b" not in out  # the bar never reaches standard output


def test_standard_output_that_is_closed(
    stub: Any, make_wav: MakeWav, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["transcribe", "--quiet", make_wav("a.wav")]) == 1
    assert capsys.readouterr().err == "asr: error: cannot write to standard output: it is closed\n"


class Broken(io.StringIO):
    """A stream on which writing fails."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, errno.errorcode[self._number])


@pytest.mark.parametrize(("number", "status"), [(errno.EPIPE, 0), (errno.ENOSPC, 1), (errno.EIO, 1)])
def test_standard_output_that_fails_ends_the_work(
    number: int,
    status: int,
    stub: Any,
    make_wav: MakeWav,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    paths = [make_wav("a.wav"), make_wav("b.wav")]
    monkeypatch.setattr(sys, "stdout", Broken(number))
    assert main(["transcribe", "--quiet", *paths]) == status
    assert len(stub.calls) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == status
    assert all(line.startswith("asr: error: cannot write to standard output: ") for line in errors)
