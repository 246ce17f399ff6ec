"""Load the extension module, after asking whether this processor can run ggml at all."""

from __future__ import annotations

import os
import sys

from ggml import _cpu
from ggml.errors import UnsupportedProcessorError

_missing = [] if os.environ.get("GGML_ALLOW_ANY_CPU") == "1" else _cpu.missing()
if _missing:
    raise UnsupportedProcessorError(
        f"this processor lacks {', '.join(_missing)}, which the prebuilt ggml libraries use. Build ggml for it: "
        "CMAKE_ARGS='-DGGML_NATIVE=ON' "
        "pip install --no-cache-dir --no-binary libggml-python libggml-python==0.20.2.post1, "
        "then set GGML_ALLOW_ANY_CPU=1"
    )

# ggml would otherwise start a debugger on an abort, which hangs a process without a terminal.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

if sys.platform == "win32":
    import importlib.util

    _spec = importlib.util.find_spec("libggml")
    if _spec is not None and _spec.submodule_search_locations:
        for _folder in ("bin", "lib"):
            _path = os.path.join(_spec.submodule_search_locations[0], _folder)
            if os.path.isdir(_path):
                os.add_dll_directory(_path)

from ggml import _core as core  # noqa: E402  (the checks above come first)

__all__ = ["core"]
