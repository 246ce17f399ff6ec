"""``asr info`` and ``asr devices``."""

from __future__ import annotations

from collections.abc import Sequence

from asr.cli.console import write_stdout
from asr.formats import dump_json


def show_model(name: str, as_json: bool) -> int:
    """Print what ``Model.info()`` says, as an aligned table or as JSON."""
    import asr

    facts = asr.load_model(name).info()
    if as_json:
        write_stdout(dump_json(facts) + "\n")
    else:
        write_stdout(table([(key, _plain(value)) for key, value in facts.items()]))
    return 0


def show_devices() -> int:
    """Print ggml's devices; the names are what ``--device`` takes."""
    import ggml

    rows = [("NAME", "TYPE", "MEMORY", "FREE", "DESCRIPTION")]
    for device in ggml.devices():
        total, free = _mebibytes(device.memory_total), _mebibytes(device.memory_free)
        rows.append((device.name, device.type.name, total, free, device.description))
    write_stdout(table(rows))
    return 0


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text with their columns aligned, two spaces apart; line breaks go on under the last column."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    indent = " " * sum(width + 2 for width in widths)
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1].replace("\n", "\n" + indent)]).rstrip())
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_plain(item) for item in value) or "-"
    return str(value)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB" if size else "-"
