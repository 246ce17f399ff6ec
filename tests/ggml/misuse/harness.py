"""Runs the cases of one module of this folder by name, in a process of its own, and reports each as JSON.

``python harness.py MODULE CASE...`` prints a line before each case and one after it: which exception it
raised and whether ggml still computes. A case that takes the process down therefore leaves its name behind.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ggml
from ggml import Type


@dataclass(frozen=True)
class Case:
    """Misuse that must raise one of ``errors`` with a message that ``match`` is found in."""

    action: Callable[[], object]
    errors: tuple[type[BaseException], ...]
    match: str


CASES: dict[str, Case] = {}


def case(
    *errors: type[BaseException], match: str = "", name: str = ""
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Registers a function that ends with the misuse."""

    def register(action: Callable[[], object]) -> Callable[[], object]:
        key = name or action.__name__
        assert key not in CASES, key
        CASES[key] = Case(action, errors or (ggml.GgmlError,), match)
        return action

    return register


def context(bytes: int = 1 << 20) -> ggml.Context:
    return ggml.Context(bytes)


def f32(ctx: ggml.Context, *ne: int) -> ggml.Tensor:
    return ctx.new_tensor(Type.F32, list(ne))


def graph_of(ctx: ggml.Context, *results: ggml.Tensor) -> ggml.Graph:
    graph = ggml.Graph(ctx, 64)
    for result in results:
        graph.expand(result)
    return graph


@dataclass
class Doubling:
    """A graph of x -> 2 x with memory on a CPU backend, and everything that it is made of."""

    backend: ggml.Backend
    ctx: ggml.Context
    x: ggml.Tensor
    y: ggml.Tensor
    graph: ggml.Graph
    buffer: ggml.Buffer


def doubling(n: int = 4) -> Doubling:
    backend = ggml.Backend()
    ctx = context()
    x = f32(ctx, n)
    y = ggml.scale(ctx, x, 2.0)
    graph = graph_of(ctx, y)
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    x.set(np.arange(n, dtype=np.float32))
    return Doubling(backend, ctx, x, y, graph, buffer)


def slow_graph() -> tuple[ggml.Backend, ggml.Context, ggml.Graph, ggml.Buffer]:
    """Something that computes for a few seconds unless it is cancelled."""
    backend = ggml.Backend("CPU", 2)
    ctx = context()
    y = a = f32(ctx, 512, 512)
    for _ in range(400):
        y = ggml.mul_mat(ctx, a, y)
    graph = ggml.Graph(ctx, 512)
    graph.expand(y)
    return backend, ctx, graph, ggml.alloc_ctx_tensors(ctx, backend)


def meanwhile(
    backend: ggml.Backend, graph: ggml.Graph, action: Callable[[], object], wait_after: bool = True
) -> None:
    """Does something while another thread computes, then stops that."""
    stop, started = threading.Event(), threading.Event()

    class Cancel:
        def is_set(self) -> bool:
            started.set()
            return stop.is_set()

    def compute() -> None:
        with contextlib.suppress(ggml.Cancelled):
            backend.compute(graph, Cancel())

    thread = threading.Thread(target=compute)
    thread.start()
    started.wait(20)
    timer = threading.Timer(0.3, stop.set)  # where the action waits for the computation
    timer.start()
    try:
        action()
    finally:
        stop.set()
        thread.join(60)
        timer.join()


def computes() -> bool:
    """A matrix product on two threads, right to the last element."""
    backend = ggml.Backend("CPU", 2)
    ctx = context()
    a, b = f32(ctx, 32, 16), f32(ctx, 32, 8)
    y = ggml.mul_mat(ctx, a, b)
    graph = graph_of(ctx, y)
    ggml.alloc_ctx_tensors(ctx, backend)
    left = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) / 512
    right = np.arange(8 * 32, dtype=np.float32).reshape(8, 32) / 256
    a.set(left)
    b.set(right)
    backend.compute(graph)
    return bool(np.allclose(y.get(), right @ left.T, rtol=1e-5))


def run(name: str) -> dict[str, object]:
    found = CASES[name]
    raised, message, expected = "", "", False
    try:
        found.action()
    except Exception as error:
        raised, message = type(error).__name__, str(error)
        expected = isinstance(error, found.errors) and re.search(found.match, message) is not None
    gc.collect()
    return {"raised": raised, "message": message, "expected": expected, "alive": computes()}


def main(module: str, names: list[str]) -> None:
    # The cases say `from harness import case`: to them this file is the module of that name.
    sys.modules["harness"] = sys.modules["__main__"]
    sys.path.insert(0, str(Path(__file__).parent))
    importlib.import_module(module)
    for name in names or list(CASES):
        print(json.dumps({"begin": name}), flush=True)
        print(json.dumps({"end": name, **run(name)}), flush=True)
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
