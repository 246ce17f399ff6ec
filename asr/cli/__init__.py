"""The command line ``asr``: its entry point, exit statuses and the handling of what goes wrong.

Exit status: 0 done; 1 something failed (the other files are still done); 2 wrong usage; 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from asr.cli.console import (
    ReaderGoneError,
    StdoutError,
    UsageError,
    discard_stdout,
    expected_errors,
    print_error,
    print_message,
    use_utf8,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with ``argv`` (by default the process's arguments) and give the exit status."""
    use_utf8()
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        discard_stdout()
        return 130
    except (ReaderGoneError, BrokenPipeError):
        discard_stdout()
        return 0
    except StdoutError as error:
        print_error(str(error))
        discard_stdout()
        return 1
    except OSError as error:
        if error.filename is not None:
            raise
        # Help, the version and the final flush write to standard output directly.
        print_error(f"cannot write to standard output: {error.strerror or error}")
        discard_stdout()
        return 1


def _run(argv: list[str]) -> int:
    import typer

    from asr.cli.app import app

    # typer carries its own copy of click since 0.26 and used click's before: find the class in either.
    click_error: type[Exception] = next(
        base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
    )
    command = " ".join(["asr", *argv[:1]])
    try:
        status = app(args=argv or ["--help"], prog_name="asr", standalone_mode=False)
    except typer.Abort:
        return 130
    except SystemExit as error:  # how typer ends when help meets a closed pipe, in this mode too
        raise ReaderGoneError from error
    except StdoutError:
        raise
    except UsageError as error:
        return _wrong_usage(str(error), command)
    except click_error as error:
        context = getattr(error, "ctx", None)
        message = getattr(error, "format_message", error.__str__)()
        message = message.replace("Value error, ", "").rstrip(".")
        return _wrong_usage(message, command if context is None else context.command_path)
    except expected_errors() as error:
        print_error(str(error))
        return 1
    return int(status or 0) if argv else 2


def _wrong_usage(message: str, command: str) -> int:
    print_error(message)
    print_message(f"Try '{command} --help' for help.")
    return 2
