"""``asr bench`` and ``asr.bench``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import asr
import asr._core as _core
from asr.bench import STAGES, measure
from asr.cli import main

CLIP = Path(__file__).resolve().parents[2] / "data" / "wer"
MODEL = "tiny-commands-en"


@pytest.fixture(scope="module")
def clip() -> str:
    return str(sorted(CLIP.rglob("*.flac"))[0])


def test_the_table(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", MODEL, clip, "--passes", "2", "--threads", "1"]) == 0
    title, header, row = capsys.readouterr().out.splitlines()
    assert f"cpu ({_core.kernels()} kernels), 1 threads" in title
    assert "median / best of 2 passes" in title
    assert header.split() == ["FILE", "LENGTH", *(stage.upper() for stage in STAGES), "TOTAL", "RTF"]
    assert row.startswith(clip)
    assert row.count(" / ") == len(STAGES) + 1


def test_json(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", MODEL, clip, clip, "--json", "--passes", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["device"] == "cpu"
    assert report["kernels"] in _core.kernel_sets()
    assert len(report["measurements"]) == 2
    for row in report["measurements"]:
        assert row["file"] == clip
        assert row["passes"] == 3
        assert set(row["stages"]) == set(STAGES)
        medians = [times["median"] for times in row["stages"].values()]
        assert all(0 < times["best"] <= times["median"] for times in row["stages"].values())
        assert row["total"]["median"] == pytest.approx(sum(medians), rel=0.5)
        assert row["real_time_factor"] == pytest.approx(row["total"]["median"] / row["duration"])


def test_noise_when_no_file_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", MODEL, "--passes", "1", "--decoder", "ctc"]) == 0
    assert "(10 s of noise)" in capsys.readouterr().out


def test_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", MODEL, str(tmp_path / "none.wav")]) == 1
    assert "none.wav" in capsys.readouterr().err
    assert main(["bench", MODEL, "--passes", "0"]) == 2
    with pytest.raises(ValueError, match="at least one pass"):
        measure(asr.load_model(MODEL), passes=0)
