"""Where results go: the plan of output files, made before any work, and writing them whole or not at all."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.audio import display_name
from asr.errors import OutputError
from ggml._files import replacing

STDIN = "-"


class OutputConflictError(OutputError):
    """Two inputs would write the same file, or an output would overwrite an input."""


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """The files that one input will write: format name -> path."""

    source: str
    paths: Mapping[str, Path]


def plan_outputs(
    inputs: Sequence[str], formats: Sequence[str], output_dir: str | os.PathLike[str]
) -> tuple[PlannedOutput, ...]:
    """Name the output files: the input's name with its suffix replaced by the format's, in ``output_dir``.

    ``-`` (standard input) becomes ``stdin``. Nothing is created. Names that differ only in case or in
    Unicode normalisation count as the same, since many file systems hold them for the same.

    :raises OutputConflictError: two inputs would write one file, or an output would overwrite an input.
    """
    folder = Path(output_dir)
    taken: dict[str, str] = {}
    sources = {_key(Path(source)): source for source in inputs if source != STDIN}
    plan = []
    for source in inputs:
        paths = {name: folder / f"{_stem(source)}.{name}" for name in formats}
        for path in paths.values():
            key = _key(path)
            if key in taken:
                raise OutputConflictError(
                    f"{display_name(taken[key])} and {display_name(source)} would both write "
                    f"{display_name(path)}; rename one, or use a folder of its own for each"
                )
            if key in sources:
                raise OutputConflictError(
                    f"the output {display_name(path)} would overwrite the input "
                    f"{display_name(sources[key])}; choose another folder with --output-dir"
                )
            taken[key] = source
        plan.append(PlannedOutput(source, paths))
    return tuple(plan)


def make_folder(path: str | os.PathLike[str]) -> None:
    """Create the folder and its parents where they are missing.

    :raises OutputError: a file is in the way, or the folder cannot be created.
    """
    name = display_name(path)
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise OutputError(
            f"cannot use {name} as a folder: a file is in the way; choose another one"
        ) from error
    except OSError as error:
        raise OutputError(f"cannot create the folder {name}: {error.strerror or error}") from error


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write the file whole or not at all: a temporary file in the same folder takes its name at the end.

    Text is written as UTF-8 with ``\\n``. Missing folders are created. A symbolic link is followed, an
    existing file is replaced and its permissions are kept.

    :raises OutputError: naming the path and the system's reason; the temporary file is removed.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    make_folder(os.path.dirname(os.path.realpath(path)))
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"cannot write {display_name(path)}: {error.strerror or error}") from error


def _stem(source: str) -> str:
    if source == STDIN:
        return "stdin"
    return Path(source).stem or "output"


def _key(path: Path) -> str:
    """One text for all spellings of a path that a case-insensitive file system takes for the same file."""
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()
