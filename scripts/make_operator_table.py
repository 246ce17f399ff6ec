"""Writes what follows from ggml/operators.py: docs/ggml-operators.md and the stub ggml/ops.pyi.

Signatures and descriptions are those of the installed extension module. A test compares both files with what
this script makes.
"""

from __future__ import annotations

import re
from pathlib import Path

from ggml import _core
from ggml.operators import OPERATORS, OPTIONAL, SETTERS, SUBJECTS, LeftOut

ROOT = Path(__file__).resolve().parents[1]
DOC = Path("docs/ggml-operators.md")
STUB = Path("ggml/ops.pyi")
WIDTH = 110

_TYPES = {
    r"typing\.Annotated\[collections\.abc\.Sequence\[(.*?)\], \"FixedSize\(\d+\)\"\]": r"Sequence[\1]",
    r"typing\.SupportsFloat \| typing\.SupportsIndex": "float",
    r"typing\.SupportsInt \| typing\.SupportsIndex": "int",
    r"ggml\._core\.": "",
}


def signature_and_text(name: str) -> tuple[str, str]:
    """``(arguments) -> result`` as in a stub, and the description."""
    signature, _, text = getattr(_core, name).__doc__.strip().partition("\n\n")
    for pattern, replacement in _TYPES.items():
        signature = re.sub(pattern, replacement, signature)
    if name in OPTIONAL:
        signature = signature.replace(f"{OPTIONAL[name]}: Tensor,", f"{OPTIONAL[name]}: Tensor | None,")
    return signature.removeprefix(name), " ".join(text.split())


def stub() -> str:
    """The text of ggml/ops.pyi."""
    names = [name for group in SUBJECTS.values() for name in group] + list(SETTERS)
    lines = ['"""Made by scripts/make_operator_table.py from ggml/operators.py."""', ""]
    lines += ["from collections.abc import Sequence", "", "from ggml._core import Context, Tensor", ""]
    lines += ["__all__ = [", *(f'    "{name}",' for name in sorted(names)), "]", ""]
    for name in names:
        signature, text = signature_and_text(name)
        line = f"def {name}{signature}:"
        if len(line) > WIDTH:
            arguments, result = signature[1:].split(") -> ")
            parts = re.split(r", (?=\w+:)", arguments)
            line = f"def {name}(\n    {', '.join(parts)}\n) -> {result}:"
            if max(map(len, line.split("\n"))) > WIDTH:
                line = f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {result}:"
        lines += [*line.split("\n"), *_docstring(text), ""]
    return "\n".join(lines)


def _docstring(text: str) -> list[str]:
    if len(text) + 10 <= WIDTH:
        return [f'    """{text}"""']
    lines, line = [], '    """'
    for word in text.split():
        if len(line) + len(word) > WIDTH - 4:
            lines.append(line.rstrip())
            line = "    "
        line += word + " "
    return [*lines, line.rstrip(), '    """']


def document() -> str:
    """The text of docs/ggml-operators.md."""
    bound = sum(isinstance(value, str) for value in OPERATORS.values())
    left_out = len(OPERATORS) - bound
    lines = [
        "# ggml's operators in Python",
        "",
        "<!-- Made by scripts/make_operator_table.py from ggml/operators.py. -->",
        "",
        f"Of the {len(OPERATORS)} functions of `ggml.h` that return a tensor, {bound} are operators of the",
        f"package `ggml`; the other {left_out} are listed at the end, each with the reason. The",
        "first argument is always the `Context` of the graph. Sizes are in ggml's order, the fastest running",
        "first. An argument that ggml could not compute with raises `GgmlError`, `ValueError` or `TypeError`",
        "before ggml sees it: the types are those of ggml's CPU kernels. What cannot be known before a graph",
        "runs is in [ggml-limits.md](ggml-limits.md); a first program is in [ggml.md](ggml.md).",
        "",
    ]
    for subject, names in SUBJECTS.items():
        lines += [f"## {subject}", "", "| ggml | Python | |", "|---|---|---|"]
        for name in names:
            lines.append(f"| `ggml_{name}` | `ggml.{name}{_short(name)}` | {_description(name)} |")
        lines.append("")
    lines += ["## Settings of a result", "", "| ggml | Python | |", "|---|---|---|"]
    for name in SETTERS:
        lines.append(f"| `ggml_{name}` | `ggml.{name}{_short(name)}` | {_description(name)} |")
    lines += ["", "## Left out", "", "| ggml | instead, or why |", "|---|---|"]
    for name, value in OPERATORS.items():
        if isinstance(value, LeftOut):
            lines.append(f"| `{name}` | {value.reason} |")
    return "\n".join(lines) + "\n"


def _short(name: str) -> str:
    arguments = signature_and_text(name)[0][1:].split(") -> ")[0]
    names = [re.sub(r": [^=]*?(?= =|$)", "", part) for part in re.split(r", (?=\w+:)", arguments)]
    return "(" + ", ".join(part.replace(" = ", "=") for part in names) + ")"


def _description(name: str) -> str:
    return signature_and_text(name)[1].removeprefix(f"ggml_{name}: ").replace("|", "\\|")


def main() -> None:
    (ROOT / DOC).write_text(document(), encoding="utf-8")
    (ROOT / STUB).write_text(stub(), encoding="utf-8")


if __name__ == "__main__":
    main()
