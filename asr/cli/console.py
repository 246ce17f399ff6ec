"""Standard output and standard error: UTF-8, messages, progress."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from asr.errors import AsrError, OutputError

if TYPE_CHECKING:
    from rich.progress import Progress


class StdoutError(OutputError):
    """Standard output cannot be written: nothing that follows could be either."""


class ReaderGoneError(Exception):
    """The reader of standard output has closed its end, as head does: time to stop, but no failure."""


class UsageError(Exception):
    """The command line asks for something that makes no sense: exit status 2."""


def use_utf8() -> None:
    """Write UTF-8 whatever the locale says; messages may name files that are not valid UTF-8."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        reconfigure = getattr(stream, "reconfigure", None)  # absent where a test has replaced the stream
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors)


def print_error(message: str) -> None:
    """One message on standard error: ``asr: error: MESSAGE``."""
    print_message(f"asr: error: {message}")


def print_message(message: str) -> None:
    """A line on standard error; an unusable standard error is no reason to fail."""
    if sys.stderr is None:  # closed: print would take standard output in its place
        return
    with contextlib.suppress(OSError, ValueError):
        print(message, file=sys.stderr, flush=True)


def write_stdout(text: str) -> None:
    """Write text to standard output now.

    :raises ReaderGoneError: the reader has closed its end.
    :raises StdoutError: a full device, a closed output.
    """
    if sys.stdout is None:
        raise StdoutError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except OSError as error:
        raise StdoutError(f"cannot write to standard output: {error.strerror or error}") from error


def discard_stdout() -> None:
    """Send what is still buffered nowhere, so that Python's own flush at exit cannot fail again."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        descriptor = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)


def expected_errors() -> tuple[type[Exception], ...]:
    """The errors that have a message for the user: asr's, and ggml's when that package is in use."""
    ggml_error = getattr(sys.modules.get("ggml"), "GgmlError", None)
    return (AsrError,) if ggml_error is None else (AsrError, ggml_error)


class ProgressBar:
    """A bar on standard error over ``total`` files; nothing when ``shown`` is false."""

    def __init__(self, total: int, shown: bool) -> None:
        self._progress: Progress | None = None
        if shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> ProgressBar:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, name: str) -> None:
        """Show the name of the file that is being worked on."""
        if self._progress is not None:
            self._progress.update(self._task, description=name)

    def advance(self, files: float = 1.0) -> None:
        """Move on by a number of files."""
        if self._progress is not None:
            self._progress.advance(self._task, files)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Take the bar away while something else is written to the terminal."""
        if self._progress is None:
            yield
            return
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


def stderr_is_terminal() -> bool:
    """Whether a progress bar would be seen."""
    return sys.stderr is not None and sys.stderr.isatty()
