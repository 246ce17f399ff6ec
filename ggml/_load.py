"""What has to be right before the extension module may be loaded."""

from __future__ import annotations

import importlib
import os
import sys

from ggml.errors import UnsupportedProcessorError


def prepare() -> None:
    """Refuses a processor that cannot run the prebuilt ggml, and finds its libraries on Windows.

    Raises :class:`ggml.UnsupportedProcessorError`.
    """
    if _in_sub_interpreter():
        raise ImportError("ggml can be used in Python's main interpreter only")
    from ggml import _cpu

    missing = [] if os.environ.get("GGML_ALLOW_ANY_CPU") == "1" else _cpu.missing()
    if missing:
        raise UnsupportedProcessorError(
            f"this processor lacks {', '.join(missing)}, which the prebuilt ggml libraries use. "
            "Build ggml for it: CMAKE_ARGS='-DGGML_NATIVE=ON' "
            "pip install --no-cache-dir --no-binary libggml-python libggml-python==0.20.2.post1, "
            "then set GGML_ALLOW_ANY_CPU=1"
        )
    # ggml would otherwise start a debugger on an abort, which hangs a process without a terminal.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    if sys.platform == "win32":
        _add_library_folders()


def _in_sub_interpreter() -> bool:
    """The extension modules would wait there for a lock that they cannot get."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        current, main = module.get_current(), module.get_main()
        # Newer ones give (id, whence).
        return bool(
            (current[0] if isinstance(current, tuple) else current)
            != (main[0] if isinstance(main, tuple) else main)
        )
    return False


def _add_library_folders() -> None:
    """Windows looks for DLLs in registered folders only; elsewhere the extension knows where they are."""
    import importlib.util

    spec = importlib.util.find_spec("libggml")
    for location in (spec.submodule_search_locations or []) if spec is not None else []:
        for name in ("bin", "lib"):
            folder = os.path.join(location, name)
            if sys.platform == "win32" and os.path.isdir(folder):
                os.add_dll_directory(folder)
