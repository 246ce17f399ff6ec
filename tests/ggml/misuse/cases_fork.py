"""What was made before ``os.fork()`` and is used in the child: its threads and locks do not exist there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
from harness import case, context, doubling, meanwhile, slow_graph

import ggml
from ggml import GgmlError


class InChild(GgmlError):
    """What the child raised."""


def in_child(action: Callable[[], object]) -> None:
    """Raises here what the action raises in a forked child."""
    if not hasattr(os, "fork"):
        raise InChild("made before os.fork() (there is none here)")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            os.write(writing, b"nothing was raised")
        except GgmlError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    for _ in range(200):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise AssertionError("the child hangs")
    with os.fdopen(reading, "rb") as pipe:
        raise InChild(pipe.read().decode())


@case(match="made before os.fork")
def thread_pool_in_a_forked_child() -> None:
    pool = ggml.Threadpool(2)
    in_child(lambda: ggml.Backend().set_threadpool(pool))


def with_a_busy_backend(action: Callable[[ggml.Backend, ggml.Context], object]) -> None:
    backend, ctx, graph, _ = slow_graph()
    meanwhile(backend, graph, lambda: in_child(lambda: action(backend, ctx)))


@case(match="made before os.fork")
def busy_backend_synchronized_in_a_forked_child() -> None:
    with_a_busy_backend(lambda backend, ctx: backend.synchronize())


@case(match="nothing was raised")
def busy_backend_closed_in_a_forked_child() -> None:
    with_a_busy_backend(lambda backend, ctx: backend.close())


@case(match="nothing was raised")
def computed_context_closed_in_a_forked_child() -> None:
    with_a_busy_backend(lambda backend, ctx: ctx.close())


@case(match="made before os.fork")
def scheduler_in_a_forked_child() -> None:
    sched = ggml.Sched([ggml.Backend()])
    in_child(sched.synchronize)


@case(match="nothing was raised")
def new_backend_in_a_forked_child() -> None:
    d = doubling()
    in_child(lambda: ggml.Backend().compute(d.graph))


@case(match="forked in the middle of a computation")
def fork_from_within_a_computation() -> None:
    backend, _, graph, _ = slow_graph()
    asked: list[int] = []

    class Cancel:
        def is_set(self) -> bool:
            asked.append(1)
            if len(asked) == 2:
                in_child_later()
            return len(asked) > 3

    reading, writing = os.pipe()
    parent = os.getpid()

    def in_child_later() -> None:
        os.fork()

    try:
        backend.compute(graph, Cancel())
    except GgmlError as error:
        if os.getpid() != parent:
            os.write(writing, str(error).encode())
            os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading, "rb") as pipe:
        raise InChild(pipe.read().decode())


@case(match="nothing was raised")
def fork_while_ggml_makes_a_table() -> None:
    # ggml's tables of IQ types are made under a lock of its own.
    rows = np.zeros((1, 256), np.float32)
    ones = np.ones(256, np.float32)
    thread = threading.Thread(target=ggml.quantize, args=(rows, ggml.Type.IQ2_XS, ones))
    thread.start()
    try:
        in_child(lambda: context(4096))
    finally:
        thread.join()
