"""Output files: planned without collisions, written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from asr import output
from asr.errors import OutputError
from asr.output import OutputConflictError, make_folder, plan_outputs, write_atomic

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")


def test_a_plan_names_a_file_for_each_input_and_format(tmp_path: Path) -> None:
    plan = plan_outputs(["a/x.wav", "-", "y.tar.flac"], ["txt", "srt"], tmp_path)
    assert [planned.source for planned in plan] == ["a/x.wav", "-", "y.tar.flac"]
    assert plan[0].paths == {"txt": tmp_path / "x.txt", "srt": tmp_path / "x.srt"}
    assert plan[1].paths["txt"] == tmp_path / "stdin.txt"
    assert plan[2].paths["srt"] == tmp_path / "y.tar.srt"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "inputs",
    [
        ["a/x.wav", "b/x.wav"],
        ["x.wav", "x.flac"],
        ["x.wav", "X.wav"],
        ["x.wav", "x.wav"],
        ["é.wav", "e\u0301.wav"],
        ["stdin.wav", "-"],
    ],
)
def test_two_inputs_for_one_file_are_refused(inputs: list[str], tmp_path: Path) -> None:
    with pytest.raises(OutputConflictError) as caught:
        plan_outputs(inputs, ["txt"], tmp_path)
    assert all(name in str(caught.value) for name in inputs if name != "-")


def test_an_output_over_an_input_is_refused(tmp_path: Path) -> None:
    source = str(tmp_path / "x.txt")
    with pytest.raises(OutputConflictError, match="overwrite the input"):
        plan_outputs([source], ["srt", "txt"], tmp_path)
    assert plan_outputs([source], ["srt"], tmp_path)[0].paths == {"srt": tmp_path / "x.srt"}


@posix_only
def test_an_output_over_an_input_is_found_through_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    with pytest.raises(OutputConflictError):
        plan_outputs([str(real / "x.txt")], ["txt"], tmp_path / "link")


def test_writing_makes_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "naïve.txt"
    write_atomic(target, "é\n")
    assert target.read_bytes() == "é\n".encode()
    assert os.listdir(target.parent) == ["naïve.txt"]
    write_atomic(target, b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 251 + ".txt")
    write_atomic(target, "x")
    assert target.read_text() == "x"


@posix_only
def test_permissions_follow_the_umask_and_then_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    old = os.umask(0o027)
    try:
        write_atomic(target, "1")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        target.chmod(0o604)
        write_atomic(target, "2")
        assert stat.S_IMODE(target.stat().st_mode) == 0o604
    finally:
        os.umask(old)


@posix_only
def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_atomic(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_a_failure_while_writing_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.os, "fsync", full)
    with pytest.raises(OutputError, match=r"x\.txt: No space left on device"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.txt"]


def test_an_interrupt_while_writing_removes_the_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "x.txt", "new")
    assert os.listdir(tmp_path) == []


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="a file is in the way"):
            make_folder(folder)
        with pytest.raises(OutputError, match="a file is in the way"):
            write_atomic(folder / "x.txt", "x")


def test_a_folder_where_the_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "x.txt").mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*x\.txt"):
        write_atomic(tmp_path / "x.txt", "x")
    assert os.listdir(tmp_path) == ["x.txt"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        write_atomic(folder / "x.txt", "x")
