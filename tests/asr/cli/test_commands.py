"""``asr info``, ``asr devices``, ``asr convert``, ``asr --version`` and help."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asr
from asr.cli import main
from asr.cli.info import table
from asr.errors import ModelFormatError
from ggml import DeviceType

Capture = pytest.CaptureFixture[str]


def test_info_is_an_aligned_table(stub: Any, capsys: Capture) -> None:
    assert main(["info", "model.gguf"]) == 0
    assert capsys.readouterr() == (
        "name       stub\nheads      tdt, ctc\nlayers     2\nlicence    -\nstreaming  no\n",
        "",
    )
    assert stub.loaded[0][0] == "model.gguf"


def test_info_as_json(stub: Any, capsys: Capture) -> None:
    assert main(["info", "model.gguf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == stub.info()


def test_info_of_a_missing_model(stub: Any, capsys: Capture) -> None:
    assert main(["info", "missing"]) == 1
    assert capsys.readouterr().err.startswith("asr: error: there is no model 'missing'")


def test_devices(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def device(name: str, kind: DeviceType, total: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            name=name, type=kind, description=f"the {name}", memory_total=total, memory_free=total // 2
        )

    fake = types.SimpleNamespace(
        devices=lambda: [device("CPU", DeviceType.CPU, 0), device("CUDA0", DeviceType.GPU, 2**33)]
    )
    monkeypatch.setitem(sys.modules, "ggml", fake)
    assert main(["devices"]) == 0
    assert capsys.readouterr().out == (
        "NAME   TYPE  MEMORY    FREE      DESCRIPTION\n"
        "CPU    CPU   -         -         the CPU\n"
        "CUDA0  GPU   8192 MiB  4096 MiB  the CUDA0\n"
    )


def test_a_table_goes_on_under_its_last_column() -> None:
    assert table([("a", "1\n2"), ("long", "3")]) == "a     1\n      2\nlong  3\n"
    assert table([]) == ""


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """A stand-in for the converter that writes a small file; gives the list of its calls."""
    calls: list[tuple[object, ...]] = []

    def convert_nemo(source: str, destination: str, type: str = "f32", progress: object = None) -> None:
        calls.append((source, destination, type))
        if source == "foreign.nemo":
            raise ModelFormatError("foreign.nemo holds a Conformer of another family; give a Parakeet")
        Path(destination).write_bytes(bytes(2**20))

    fake = types.ModuleType("asr.convert")
    fake.convert_nemo = convert_nemo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "asr.convert", fake)
    monkeypatch.setattr(asr, "convert", fake, raising=False)
    return calls


def test_convert(converter: list[tuple[object, ...]], tmp_path: Path, capsys: Capture) -> None:
    target = str(tmp_path / "m.gguf")
    assert main(["convert", "m.nemo", "-o", target]) == 0
    assert main(["convert", "m.nemo", "-o", target, "--type", "q8_0", "--quiet"]) == 0
    assert converter == [("m.nemo", target, "f32"), ("m.nemo", target, "q8_0")]
    assert capsys.readouterr() == ("", f"wrote {target} (1.0 MiB)\n")


def test_convert_reports_what_it_found(converter: list[tuple[object, ...]], capsys: Capture) -> None:
    assert main(["convert", "foreign.nemo", "-o", "m.gguf"]) == 1
    assert capsys.readouterr().err.startswith("asr: error: foreign.nemo holds")


@pytest.mark.parametrize(
    "arguments",
    [["m.nemo"], ["m.nemo", "-o", "./m.nemo"], ["m.nemo", "-o", "m.gguf", "--type", "q3"], ["-o", "m.gguf"]],
)
def test_convert_used_wrongly(
    arguments: list[str], converter: list[tuple[object, ...]], capsys: Capture
) -> None:
    assert main(["convert", *arguments]) == 2
    assert "Try 'asr convert --help' for help." in capsys.readouterr().err
    assert converter == []


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(asr, "__version__", "1.2.3", raising=False)
    assert main(["--version"]) == 0
    assert capsys.readouterr() == ("asr 1.2.3\n", "")


def test_help_names_every_command_and_loads_nothing_heavy(
    run_process: Callable[..., Any], asr_command: list[str]
) -> None:
    code = "import sys; from asr.cli import main; main(['--help']); print(sorted(sys.modules))"
    done = run_process([asr_command[0], "-c", code])
    assert done.stderr == b""
    text, modules = done.stdout.decode().rsplit("\n", 2)[:2]
    for command in ("transcribe", "convert", "info", "devices"):
        assert f"\n  {command} " in text
    for module in ("soxr", "soundfile", "yaml", "gguf", "rich"):
        assert f"'{module}'" not in modules


@pytest.mark.parametrize(
    ("arguments", "message"), [(["sing"], "No such command 'sing'"), (["--loud"], "No such option: --loud")]
)
def test_an_unknown_command_or_option(arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"asr: error: {message}\nTry 'asr --help' for help.\n")


def test_no_command_shows_the_help(capsys: Capture) -> None:
    assert main([]) == 2
    assert "Usage: asr" in capsys.readouterr().out
