"""Find the built package when Python has picked the source folder of a clone in its place.

The extension modules are installed beside the Python files, not built into the source folder. In a clone the
current folder comes first on ``sys.path``, so ``import ggml`` there finds ``./ggml`` without them. The
package's ``__path__`` is then pointed at the installed copy: what runs is what was installed.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence


def built_package(name: str, path: Sequence[str]) -> list[str]:
    """The folders to load ``name``'s submodules from: ``path``, or the installed package's.

    Raises ``ImportError`` when the package was not built and installed anywhere.
    """
    if _has_extension(path[0]):
        return list(path)
    source = os.path.realpath(path[0])
    for entry in sys.path:
        folder = os.path.join(entry or os.curdir, name)
        if os.path.realpath(folder) != source and _has_extension(folder):
            return [os.path.abspath(folder)]
    raise ImportError(
        f"the package '{name}' is here as source only ({path[0]}) and is not installed: "
        "run `pip install .` in the folder of the project"
    )


def _has_extension(folder: str) -> bool:
    return any(
        os.path.exists(os.path.join(folder, "_core" + suffix))
        for suffix in importlib.machinery.EXTENSION_SUFFIXES
    )
