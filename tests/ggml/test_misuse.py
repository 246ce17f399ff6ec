"""Misuse that ggml answers with an abort or a segmentation fault raises, and the process goes on computing.

The cases are the functions of ``misuse/cases_*.py``; each module runs in one subprocess, and goes on in
another one after a case that took the first down.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "misuse"
MODULES = sorted(path.stem for path in FOLDER.glob("cases_*.py"))


def run_once(module: str, names: list[str]) -> tuple[dict[str, dict[str, Any]], str | None]:
    """The results of the cases that ran, and the one that took the process down or hung it."""
    command = [sys.executable, "-X", "faulthandler", str(FOLDER / "harness.py"), module, *names]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        out, err, code = done.stdout, done.stderr, str(done.returncode)
    except subprocess.TimeoutExpired as stuck:
        out = stuck.stdout.decode() if isinstance(stuck.stdout, bytes) else (stuck.stdout or "")
        err, code = "", "timeout"
    results: dict[str, dict[str, Any]] = {}
    begun: str | None = None
    for line in out.splitlines():
        entry = json.loads(line)
        if "begin" in entry:
            begun = entry["begin"]
        elif "end" in entry:
            results[entry["end"]] = entry
    finished = out.endswith(json.dumps({"done": True}) + "\n") and code == "0"
    if finished:
        return results, None
    assert begun is not None, f"{module} cannot run: {err[-2000:]}"
    results[begun] = {"raised": "", "message": f"the process ended with {code}: {err[-1500:]}"}
    results[begun] |= {"expected": False, "alive": False}
    return results, begun


@cache
def results_of(module: str) -> dict[str, dict[str, Any]]:
    names = list(case_names(module))
    results: dict[str, dict[str, Any]] = {}
    while names:
        some, crashed = run_once(module, names)
        results.update(some)
        if crashed is None:
            break
        names = names[names.index(crashed) + 1 :]
    return results


@cache
def case_names(module: str) -> tuple[str, ...]:
    """The cases in the source, without running it: ``@case`` functions, and tables registered in a loop."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))
    names: list[str] = []
    tables: dict[str, list[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "case":
                    names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
            tables[getattr(node.target, "id", "")] = [str(key) for key in keys]
        elif isinstance(node, ast.For):
            # for key, ... in TABLE.items(): case(..., name=f"prefix_{key}")
            prefixes = [
                part.value
                for inner in ast.walk(node)
                if isinstance(inner, ast.JoinedStr)
                for part in inner.values[:1]
                if isinstance(part, ast.Constant)
            ]
            table = next(name.id for name in ast.walk(node.iter) if isinstance(name, ast.Name))
            names += [f"{prefixes[0]}{key}" for key in tables[table]]
    return tuple(names)


CASES = [(module, name) for module in MODULES for name in case_names(module)]


@pytest.mark.parametrize(("module", "name"), CASES, ids=[f"{m[6:]}-{n}" for m, n in CASES])
def test_misuse_raises(module: str, name: str) -> None:
    result = results_of(module)[name]
    assert result["expected"], f"raised {result['raised'] or 'nothing'}: {result['message']}"
    assert result["alive"], "ggml no longer computes"
