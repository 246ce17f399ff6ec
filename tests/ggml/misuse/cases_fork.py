"""What was made before ``os.fork()`` and is used in the child: its threads and locks do not exist there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from harness import case, context, doubling, f32

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
    backend = ggml.Backend()
    ctx = context()
    a = f32(ctx, 512, 512)
    y = a
    for _ in range(400):
        y = ggml.mul_mat(ctx, a, y)
    graph = ggml.Graph(ctx, 512)
    graph.expand(y)
    ggml.alloc_ctx_tensors(ctx, backend).clear()
    stop, started = threading.Event(), threading.Event()

    class Cancel:
        def is_set(self) -> bool:
            started.set()
            return stop.is_set()

    def compute() -> None:
        try:
            backend.compute(graph, Cancel())
        except ggml.Cancelled:
            return

    thread = threading.Thread(target=compute)
    thread.start()
    started.wait(20)
    try:
        in_child(lambda: action(backend, ctx))
    finally:
        stop.set()
        thread.join()


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
