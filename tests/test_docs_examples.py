"""The examples of README.md and docs/ run, and print what the page says that they print.

A page's blocks run in order, in one process and in a folder of its own, as a reader would type them. A block
of the language ``text`` that follows one is its output.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

import asr.bench
import ggml

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = {"devices.md": "needs a device other than the CPU"}

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<output>.*?)^```$)?", re.M | re.S)

# Line numbers are those of the page.
PROGRAM = """
import contextlib, io, json, sys

page, blocks = json.load(sys.stdin)
names = {"__name__": "__main__"}
for line, code, expected in blocks:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\\n" * line + code, page, "exec"), names)
    if expected is not None and printed.getvalue() != expected:
        sys.exit(f"{page}:{line}: printed {printed.getvalue()!r}, the page says {expected!r}")
"""

Block = tuple[int, str, "str | None"]


def blocks(page: Path) -> list[Block]:
    """(line, code, output or None) of each Python block."""
    text = page.read_text("utf-8")
    return [(text.count("\n", 0, m.start("code")), m["code"], m["output"]) for m in BLOCK.finditer(text)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that the pages name: recordings, a checkpoint of random weights, the bundled model."""
    shutil.copy(ROOT / "tests" / "data" / "wer" / "piper-02.flac", tmp_path / "talk.mp3")
    shutil.copytree(ROOT / "tests" / "data" / "wer", tmp_path / "tests" / "data" / "wer")
    shutil.copy(
        ROOT / "tests" / "fixtures" / "tdt-ctc" / "model.nemo", tmp_path / "parakeet-tdt_ctc-110m.nemo"
    )
    shutil.copy(ROOT / "models" / "tiny-commands-en.gguf", tmp_path / "parakeet-q8_0.gguf")
    return tmp_path


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in NOT_RUN and blocks(page)], ids=lambda page: page.name
)
def test_examples(page: Path, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([page.name, blocks(page)]),
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs sh")
def test_commands_of_the_readme(folder: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^asr .*$", text, re.M)
    assert len(commands) >= 5
    soundfile.write(folder / "talk.wav", *soundfile.read(folder / "talk.mp3"))
    script = f'asr() {{ {shlex.quote(sys.executable)} -m asr "$@"; }}; set -e\n' + "\n".join(commands)
    done = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "subtitles").iterdir()) == ["talk.json", "talk.srt"]


@pytest.mark.parametrize("name", NOT_RUN)
def test_the_others_are_python(name: str) -> None:
    assert blocks(ROOT / "docs" / name)
    for line, code, _ in blocks(ROOT / "docs" / name):
        compile("\n" * line + code, name, "exec")


def test_every_link_leads_somewhere() -> None:
    headings = {page: _anchors(page.read_text("utf-8")) for page in PAGES}
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = target.partition("#")
            if ":" in path:
                continue
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in headings[found], f"{page.name}: {target}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "ggml-operators.md"], ids=lambda p: p.name
)
def test_every_name_exists(page: Path) -> None:
    """``ggml.name``, ``asr.name`` and ``Class.name`` in code. (The operators' table has tests of its own.)"""
    for code in re.findall(r"`([^`\n]+)`", page.read_text("utf-8")):
        for module, name in re.findall(r"(?<![\w/.])(ggml|asr)\.([A-Za-z_]\w*)", code):
            assert hasattr({"ggml": ggml, "asr": asr}[module], name), code
        for owner, name in re.findall(r"(?<![\w/])([A-Z]\w+)\.(\w+)", code):
            holder = getattr(ggml, owner, None) or getattr(asr, owner, None)
            assert holder is None or hasattr(holder, name), code


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
