"""``asr convert``: a NeMo checkpoint to GGUF."""

from __future__ import annotations

import os

from asr.audio import display_name
from asr.cli.console import UsageError, print_message
from asr.output import make_folder


def run(source: str, output: str, weight_type: str, quiet: bool) -> int:
    """Convert ``source`` and say what was written."""
    if os.path.realpath(source) == os.path.realpath(output):
        raise UsageError("the output would overwrite the checkpoint; choose another name")
    if output.lower().endswith(".nemo"):
        raise UsageError("the output is a GGUF file; give it a name that ends in .gguf")
    make_folder(os.path.dirname(output) or ".")

    from asr.convert import convert_nemo

    convert_nemo(source, output, type=weight_type)
    if not quiet:
        print_message(f"wrote {display_name(output)} ({os.path.getsize(output) / 2**20:.1f} MiB)")
    return 0
