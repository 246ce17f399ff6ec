"""Engines measured in turn, each run a process of its own on a quiet machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = dict[str, Any]
SCRIPTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Engine:
    """What is measured: a program, ``kind`` as in :mod:`peers.engines`, with the model in one type."""

    name: str
    kind: str
    type: str
    python: str
    model: Path
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class Plan:
    """How each run goes: calls, seconds of calls at most, and seconds to wait for a quiet machine."""

    repeats: int
    seconds: float
    patience: float


def run_module(python: str, module: str, arguments: Sequence[str], threads: int | None = None) -> str:
    """Runs a module of this package in a Python that need not have it; its standard output."""
    environment = dict(os.environ)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = str(threads)
    done = subprocess.run(
        [python, "-m", module, *arguments], cwd=SCRIPTS, env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"{python} -m {module} {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def _busy() -> float | None:
    """Seconds of processor time used by all processes since the machine started; None if not known."""
    if not Path("/proc/stat").exists():
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    ticks: int = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / ticks


def _wait_until_quiet(patience: float) -> None:
    """Returns once all processors together have been idle for 2 s but for 0.1 of one."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        before = _busy()
        time.sleep(2.0)
        after = _busy()
        if before is None or after is None or after - before < 0.2:
            return


def run_once(engine: Engine, clip: Path, threads: int, states: Path, plan: Plan) -> Result:
    """One run; "others" in the result is how many processors other processes kept busy meanwhile."""
    arguments = [engine.kind, str(clip), "--model", str(engine.model), "--type", engine.type]
    arguments += ["--threads", str(threads), "--states", str(states)]
    arguments += ["--repeats", str(plan.repeats), "--seconds", str(plan.seconds), *engine.options]
    _wait_until_quiet(plan.patience)
    start, busy, own = time.monotonic(), _busy(), os.times()
    output = run_module(engine.python, "peers.engines", arguments, threads)
    taken, busy_after, own_after = time.monotonic() - start, _busy(), os.times()
    result: Result = json.loads(output.splitlines()[-1])
    result["others"] = None
    if busy is not None and busy_after is not None:
        used = sum(own_after[:4]) - sum(own[:4])
        result["others"] = max(0.0, (busy_after - busy - used) / taken)
    return result


def run_rounds(
    engines: Sequence[Engine],
    rounds: int,
    clip: Path,
    threads: int,
    folder: Path,
    plan: Plan,
    progress: Callable[[Engine, Result], None],
) -> list[list[Result]]:
    """All engines in turn, ``rounds`` times: results by round and engine.

    The last encoder output of ``engines[i]`` is left in ``folder/i.npy``.
    """
    table: list[list[Result]] = []
    for _ in range(rounds):
        table.append([])
        for index, engine in enumerate(engines):
            result = run_once(engine, clip, threads, folder / f"{index}.npy", plan)
            progress(engine, result)
            table[-1].append(result)
    return table
