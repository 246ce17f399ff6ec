"""The persistent backend under threads, cancelling, signals and fork."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import numpy as np
import numpy.typing as npt
import pytest

import asr
import ggml
from asr.backend import Backend, graph_input_tensor
from ggml import Type

Array = npt.NDArray[np.float32]

ROWS = np.random.default_rng(3).standard_normal((7, 16)).astype(np.float32)
MATRIX = np.random.default_rng(4).standard_normal((5, 16)).astype(np.float32)


def product(backend: Backend, rows: Array = ROWS) -> Array:
    def build(ctx: ggml.Context) -> ggml.Tensor:
        w = graph_input_tensor(ctx, Type.F32, MATRIX.shape[::-1], MATRIX)
        x = graph_input_tensor(ctx, Type.F32, rows.shape[::-1], rows)
        return ggml.mul_mat(ctx, w, x)

    return backend.compute(build)


def works(backend: Backend) -> bool:
    return np.allclose(product(backend), ROWS @ MATRIX.T, atol=1e-5)


def endless(ctx: ggml.Context) -> ggml.Tensor:
    """A graph that takes half a minute and can be stopped after each of its thousands of nodes."""
    w = graph_input_tensor(ctx, Type.F32, (512, 512), np.eye(512, dtype=np.float32))
    x = w
    for _ in range(4000):
        x = ggml.mul_mat(ctx, w, x)
    return x


def test_compute_from_several_threads() -> None:
    backend = Backend(2)
    good: list[bool] = []

    def work(seed: int) -> None:
        for n in range(1, 40):
            rows = np.random.default_rng(seed * 100 + n).standard_normal((n, 16)).astype(np.float32)
            good.append(np.allclose(product(backend, rows), rows @ MATRIX.T, atol=1e-5))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(good) == 4 * 39
    assert all(good)
    assert backend.graphs_run == 4 * 39


@pytest.mark.parametrize("n_threads", [1, 2])
def test_cancel_from_another_thread(n_threads: int) -> None:
    backend = Backend(n_threads)
    timer = threading.Timer(0.1, backend.cancel)
    timer.start()
    with pytest.raises(asr.Cancelled):
        backend.compute(endless)
    timer.join()
    assert works(backend)


def test_cancel_while_the_graph_is_built() -> None:
    backend = Backend(1)

    def build(ctx: ggml.Context) -> ggml.Tensor:
        backend.cancel()
        return endless(ctx)

    with pytest.raises(asr.Cancelled):
        backend.compute(build)
    assert works(backend)


def test_cancel_when_nothing_runs_is_forgotten() -> None:
    backend = Backend(1)
    backend.cancel()
    assert works(backend)


def test_cancel_event() -> None:
    backend = Backend(2)
    event = threading.Event()
    timer = threading.Timer(0.1, event.set)
    timer.start()
    with pytest.raises(asr.Cancelled):
        backend.compute(endless, cancel=event)
    timer.join()
    with pytest.raises(asr.Cancelled):
        backend.compute(endless, cancel=event)
    assert works(backend)


def test_cancel_signal_that_raises() -> None:
    class Broken:
        def is_set(self) -> bool:
            raise OSError("the line is dead")

    backend = Backend(1)
    with pytest.raises(OSError, match="the line is dead"):
        backend.compute(endless, cancel=Broken())
    assert works(backend)


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60
    )


SCRIPT = """
import os, signal, sys, threading
import numpy as np
import ggml, asr
from asr.backend import Backend, graph_input_tensor
def build(n, size=512):
    def f(ctx):
        w = graph_input_tensor(ctx, ggml.Type.F32, (size, size), np.eye(size, dtype=np.float32))
        x = w
        for _ in range(n):
            x = ggml.mul_mat(ctx, w, x)
        return x
    return f
backend = Backend(2)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_ctrl_c_stops_a_computation() -> None:
    run = python(
        SCRIPT
        + """
# Ignored where pytest runs in the background of a shell script, and then inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *a: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    backend.compute(build(4000, 1024))  # runs for minutes, longer than this process may
except KeyboardInterrupt:
    print("stopped", backend.compute(build(1)).trace())
"""
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "stopped 512.0\n", "")


needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="needs a safe fork")


@needs_fork
def test_use_after_fork_raises() -> None:
    run = python(
        SCRIPT
        + """
backend.compute(build(1))
model = asr.load_model(sys.argv[1], n_threads=2)
model.encode(np.random.default_rng(1).standard_normal(16000).astype(np.float32))
pid = os.fork()
if pid == 0:
    noise = np.random.default_rng(1).standard_normal(16000).astype(np.float32)
    uses = [lambda: backend.compute(build(1)), lambda: backend.set_n_threads(1),
            lambda: model.encode(noise), lambda: model.transcribe(noise)]
    for use in uses:
        try:
            use()
        except asr.ForkedProcessError as error:
            assert "os.fork" in str(error)
        else:
            os._exit(1)
    sys.exit(3)  # an orderly end: what the child inherited is destroyed
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), backend.compute(build(1)).trace())
""",
        MODEL_NAME,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "3 512.0\n", "")


MODEL_NAME = "tiny-commands-en"


@needs_fork
def test_transcribe_in_a_forked_worker() -> None:
    run = python(
        """
import multiprocessing, sys
import numpy as np
import asr
noise = 0.1 * np.random.default_rng(1).standard_normal(16000).astype(np.float32)
def work(seed, n_threads=1):
    return asr.transcribe(noise, n_threads=n_threads).text
expected = work(0, n_threads=2)
with multiprocessing.get_context("fork").Pool(2) as pool:
    texts = pool.map(work, range(4))
print(texts == [expected] * 4)
"""
    )
    assert (run.returncode, run.stdout) == (0, "True\n"), run.stderr


@pytest.mark.parametrize("what", ["close", "reset", "compute"])
def test_a_cancel_object_cannot_take_the_graph_away(what: str) -> None:
    backend = Backend(1)
    kept: list[ggml.Context] = []

    def build(ctx: ggml.Context) -> ggml.Tensor:
        kept.append(ctx)
        x = y = graph_input_tensor(ctx, ggml.Type.F32, (256, 256), np.zeros((256, 256), np.float32))
        for _ in range(20):
            y = ggml.mul_mat(ctx, x, y)
        return y

    class Cancel:
        def is_set(self) -> bool:
            if what == "compute":
                backend.compute(build)
            else:
                getattr(kept[0], what)()
            return False

    with pytest.raises(ggml.GgmlError, match="being computed"):
        backend.compute(build, cancel=Cancel())
    assert not backend.compute(build).any()
