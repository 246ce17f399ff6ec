"""``asr transcribe``: check the request, load the model, then one file after the other."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from asr.audio import display_name
from asr.cli.console import (
    ProgressBar,
    StdoutError,
    UsageError,
    expected_errors,
    print_error,
    print_message,
    stderr_is_terminal,
    write_stdout,
)
from asr.errors import AudioError, DecoderError
from asr.formats import FORMATS, dump_json, to_dict, to_txt
from asr.output import STDIN, OutputConflictError, PlannedOutput, make_folder, plan_outputs, write_atomic
from asr.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Request:
    """The command's options as given; ``formats`` may still hold lists with commas."""

    files: tuple[str, ...]
    model: str | None
    formats: tuple[str, ...]
    output_dir: str | None
    timestamps: str | None
    decoder: str | None
    threads: int | None
    device: str
    channel: int | None
    min_duration: float
    quiet: bool


def run(request: Request) -> int:
    """Transcribe the files of a request; 0 when all were done, 1 when one failed."""
    formats = _formats(request)
    plan = _plan(request, formats)
    if request.output_dir is not None:
        make_folder(request.output_dir)

    import asr

    if request.model is None and not request.quiet:
        from asr.models import default_notice

        print_message(default_notice())
    model = asr.load_model(request.model, device=request.device, n_threads=request.threads)

    def transcribe(name: str) -> Transcript:
        return model.transcribe(
            _stdin() if name == STDIN else name,
            decoder=request.decoder,
            min_duration=request.min_duration,
            channel=request.channel,
        )

    show_progress = not request.quiet and stderr_is_terminal()
    with ProgressBar(len(request.files), show_progress) as bar:
        if plan is not None:
            return _to_files(plan, transcribe, request.timestamps, bar)
        return _to_stdout(request.files, formats[0], transcribe, request.timestamps, bar)


def _formats(request: Request) -> tuple[str, ...]:
    """The formats asked for, each once, in order; wrong combinations are wrong usage."""
    listed = [name.strip().lower() for item in request.formats for name in item.split(",")]
    formats = tuple(dict.fromkeys(listed or ["txt"]))
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise UsageError(f"there is no format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    if len(formats) > 1 and request.output_dir is None:
        raise UsageError("several formats need a folder to write to: add --output-dir")
    if request.timestamps is not None and "txt" not in formats:
        raise UsageError("--timestamps is for the txt format; the others have times already")
    if not math.isfinite(request.min_duration):
        raise UsageError("--min-duration must be a number of seconds")
    if request.files.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read once only")
    return formats


def _plan(request: Request, formats: Sequence[str]) -> tuple[PlannedOutput, ...] | None:
    if request.output_dir is None:
        return None
    try:
        return plan_outputs(request.files, formats, request.output_dir)
    except OutputConflictError as error:
        raise UsageError(str(error)) from error


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise AudioError("standard input is closed; name a file")
    return sys.stdin.buffer


def _render(transcript: Transcript, name: str, timestamps: str | None) -> str:
    return to_txt(transcript, timestamps) if name == "txt" else FORMATS[name](transcript)


def _report(error: Exception, source: str) -> None:
    """Print an error about one file, naming the file unless the message does already."""
    name = "standard input" if source == STDIN else display_name(source)
    message = str(error)
    print_error(message if name in message else f"{name}: {message}")


def _each(
    files: Sequence[str],
    transcribe: Callable[[str], Transcript],
    use: Callable[[int, Transcript], None],
    bar: ProgressBar,
) -> int:
    """Transcribe and use the files in order; one that fails is reported and the others still done."""
    status = 0
    for index, source in enumerate(files):
        bar.begin(display_name(source))
        try:
            use(index, transcribe(source))
        except (DecoderError, StdoutError):
            raise  # the same for every file
        except expected_errors() as error:
            status = 1
            with bar.hidden():
                _report(error, source)
        bar.advance()
    return status


def _to_files(
    plan: Sequence[PlannedOutput],
    transcribe: Callable[[str], Transcript],
    timestamps: str | None,
    bar: ProgressBar,
) -> int:
    def write(index: int, transcript: Transcript) -> None:
        for name, path in plan[index].paths.items():
            write_atomic(path, _render(transcript, name, timestamps))

    return _each([planned.source for planned in plan], transcribe, write, bar)


def _to_stdout(
    files: Sequence[str],
    name: str,
    transcribe: Callable[[str], Transcript],
    timestamps: str | None,
    bar: ProgressBar,
) -> int:
    several = len(files) > 1
    written = 0

    def write(index: int, transcript: Transcript) -> None:
        nonlocal written
        if not several:
            text = _render(transcript, name, timestamps)
        elif name == "json":
            record = {"file": display_name(files[index])} | to_dict(transcript)
            text = (",\n" if written else "[\n") + dump_json(record)
        else:
            heading = f"==> {display_name(files[index])} <==\n"
            text = ("\n" if written else "") + heading + _render(transcript, name, timestamps)
        with bar.hidden():
            write_stdout(text)
        written += 1

    status = _each(files, transcribe, write, bar)
    if several and name == "json":
        write_stdout("\n]\n" if written else "[]\n")
    return status
