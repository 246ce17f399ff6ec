"""Objects may go in any order, by the collector or at the interpreter's exit, without a word on standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "random_objects.py"
COMMON = """
import gc, threading, time
import numpy as np
import ggml
def doubling(n=4):
    backend = ggml.Backend("CPU", 2)
    ctx = ggml.Context(1 << 20)
    x = ctx.new_tensor(0, [n, n])
    y = x
    for _ in range(32):
        y = ggml.mul_mat(ctx, x, y)
    graph = ggml.Graph(ctx, 64)
    graph.expand(y)
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    return backend, ctx, x, y, graph, buffer, backend.plan(graph), x.numpy()
"""
EXITS = {
    "globals": "kept = doubling()\nkept[0].compute(kept[4])",
    "cycle": "ring = [doubling()]\nring.append(ring)\ndel ring",
    "cycle_without_the_collector": "gc.disable()\nring = [doubling()]\nring.append(ring)\ndel ring",
    "class_attribute": "class Keeper:\n    kept = doubling()\n    def __del__(self): self.kept[0].compute(self.kept[4])\n"
    "keeper = Keeper()",
    "module": "import sys, types\nmodule = types.ModuleType('held')\nmodule.kept = doubling()\nsys.modules['held'] = module",
    "scheduler": "kept = doubling()\nsched = ggml.Sched([kept[0], ggml.Backend()])\nsched.reset()",
    "multi_buffer": "b = ggml.Backend()\nmulti = ggml.MultiBuffer([b.alloc_buffer(64), b.alloc_buffer(64)])",
    "meta": "cpu = ggml.device('CPU')\n"
    "meta = ggml.Backend(ggml.meta_device([cpu, cpu], lambda info, n: ggml.SplitAxis.MIRRORED))\n"
    "ctx = ggml.Context(4096)\nx = ctx.new_tensor(0, [4])\nbuffer = ggml.alloc_ctx_tensors(ctx, meta)",
    "pending_copy": "kept = doubling()\narray = kept[0].get_async(kept[2])",
    "daemon_thread": "def work():\n    kept = doubling(128)\n    while True:\n        kept[0].compute(kept[4])\n"
    "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.5)",
    "daemon_thread_that_allocates": "def work():\n    while True:\n        doubling()\n"
    "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.5)",
    "daemon_thread_over_shared_objects": "kept = doubling(128)\ndef work():\n    while True:\n        kept[0].compute(kept[4])\n"
    "for _ in range(2):\n    threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.5)",
    "thread": "def work():\n    kept = doubling(128)\n    kept[0].compute(kept[4])\n"
    "threading.Thread(target=work).start()",
}


def run(*arguments: str) -> str:
    command = [sys.executable, "-X", "dev", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


@pytest.mark.parametrize("seed", range(6))
def test_random_order(seed: int) -> None:
    assert int(run(str(SCRIPT), str(seed), "800")) > 200


@pytest.mark.parametrize("name", EXITS)
def test_interpreter_exit(name: str) -> None:
    run("-c", COMMON + EXITS[name])
