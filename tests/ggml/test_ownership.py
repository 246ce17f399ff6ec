"""Objects may go in any order, by the collector or at the interpreter's exit, without a word of complaint."""

from __future__ import annotations

import os
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
    "globals": """
kept = doubling()
kept[0].compute(kept[4])
""",
    "cycle": """
ring = [doubling()]
ring.append(ring)
del ring
""",
    "cycle_without_the_collector": """
gc.disable()
ring = [doubling()]
ring.append(ring)
del ring
""",
    "class_attribute": """
class Keeper:
    kept = doubling()
    def __del__(self): self.kept[0].compute(self.kept[4])
keeper = Keeper()
""",
    "module": """
import sys, types
module = types.ModuleType('held')
module.kept = doubling()
sys.modules['held'] = module
""",
    "scheduler": """
kept = doubling()
sched = ggml.Sched([kept[0], ggml.Backend()])
sched.reset()
""",
    "multi_buffer": """
b = ggml.Backend()
multi = ggml.MultiBuffer([b.alloc_buffer(64), b.alloc_buffer(64)])
""",
    "meta": """
cpu = ggml.device('CPU')
meta = ggml.Backend(ggml.meta_device([cpu, cpu], lambda info, n: ggml.SplitAxis.MIRRORED))
ctx = ggml.Context(4096)
x = ctx.new_tensor(0, [4])
buffer = ggml.alloc_ctx_tensors(ctx, meta)
""",
    "pending_copy": """
kept = doubling()
array = kept[0].get_async(kept[2])
""",
    "daemon_thread": """
def work():
    kept = doubling(128)
    while True:
        kept[0].compute(kept[4])
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
""",
    "daemon_thread_that_allocates": """
def work():
    while True:
        doubling()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
""",
    "daemon_thread_over_shared_objects": """
kept = doubling(128)
def work():
    while True:
        kept[0].compute(kept[4])
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
""",
    "thread": """
def work():
    kept = doubling(128)
    kept[0].compute(kept[4])
threading.Thread(target=work).start()
""",
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


AT_EXIT = """
import atexit, threading, time

def close():
    try:
        backend.{method}()
    except Exception as error:  # ggml's own classes may be gone
        assert "exiting in the middle of a computation" in str(error), error

atexit.register(close)  # before ggml registers its own, so after it
import ggml

backend, ctx = ggml.Backend(), ggml.Context(1 << 20)
y = x = ctx.new_tensor(ggml.Type.F32, [1024, 1024])
for _ in range(100):
    y = ggml.mul_mat(ctx, x, y)
graph = ggml.Graph(ctx, 512)
graph.expand(y)
ggml.alloc_ctx_tensors(ctx, backend).clear()
def work():
    while True:
        backend.compute(graph)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("method", ["close", "synchronize"])
def test_a_backend_used_at_exit_while_a_daemon_thread_computes(method: str) -> None:
    run("-c", AT_EXIT.replace("{method}", method))


@pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12)), reason="needs Python's test module")
def test_a_sub_interpreter_is_refused() -> None:
    code = """
import _xxsubinterpreters as interpreters, sys
one = interpreters.create()
interpreters.run_string(one, '''
import sys
sys.path = {path!r}
try:
    import ggml
except ImportError as error:
    print(error)
'''.format(path=sys.path))
interpreters.destroy(one)
"""
    assert "main interpreter only" in run("-c", code)


DROPPED = """
import gc, sys
from pathlib import Path
import ggml

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def once(how):
    backend, ctx = ggml.Backend(), ggml.Context(1 << 18)
    y = ggml.relu(ctx, ctx.new_tensor(ggml.Type.F32, [1 << 18]))
    graph = ggml.Graph(ctx, 64)
    graph.expand(y)
    if how == "sched":
        ggml.Sched([backend], graph_size=64).compute(graph)
    elif how == "gallocr":
        allocator = ggml.Gallocr(backend)
        allocator.alloc_graph(graph)
        backend.compute(graph)
    else:
        ggml.alloc_ctx_tensors(ctx, backend)
        backend.plan(graph).compute()
    backend.synchronize()

how = sys.argv[1]
for _ in range(20):
    once(how)
gc.collect()
before = resident()
for _ in range(100):
    once(how)
gc.collect()
assert resident() - before < 20 << 20, resident() - before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(os.environ.get("ASAN_TESTS") == "1", reason="AddressSanitizer keeps what is freed")
@pytest.mark.parametrize("how", ["sched", "gallocr", "plan"])
def test_what_is_dropped_without_being_closed_is_freed(how: str) -> None:
    # Each has a megabyte or more.
    run("-c", DROPPED, how)


@pytest.mark.parametrize("name", EXITS)
def test_interpreter_exit(name: str) -> None:
    run("-c", COMMON + EXITS[name])
