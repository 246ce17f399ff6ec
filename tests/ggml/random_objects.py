"""Makes, derives, closes and drops objects of all classes in random order: ``SEED STEPS``."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable

import numpy as np

import ggml
from ggml import GgmlError, Type


class Pool:
    """Objects by kind, of which any may be closed, stale or gone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects: dict[str, list[object]] = {}

    def add(self, kind: str, thing: object) -> None:
        self.objects.setdefault(kind, []).append(thing)

    def any(self, kind: str):  # type: ignore[no-untyped-def]
        some = self.objects.get(kind)
        if not some:
            raise GgmlError(f"no {kind} yet")
        return self.random.choice(some)


def new_tensor(p: Pool) -> None:
    sizes = [p.random.choice((1, 4, 32, 64)) for _ in range(p.random.randint(1, 3))]
    p.add("tensor", p.any("context").new_tensor(p.random.choice((Type.F32, Type.F16, Type.I32)), sizes))


def operator(p: Pool) -> None:
    a = p.any("tensor")
    made = p.random.choice(
        (
            lambda c: ggml.scale(c, a, 2.0),
            lambda c: ggml.relu(c, a),
            lambda c: ggml.view_1d(c, a, 1, 0),
            lambda c: ggml.add(c, a, a),
            lambda c: ggml.mul_mat(c, a, a),
            lambda c: ggml.add(c, a, p.any("tensor")),
        )
    )(p.any("context"))
    p.add("tensor", made)


def graph(p: Pool) -> None:
    made = ggml.Graph(p.any("context"), 32)
    made.expand(p.any("tensor"))
    p.add("graph", made)


def compute(p: Pool) -> None:
    backend, made = p.any("backend"), p.any("graph")
    p.random.choice((backend.compute, backend.compute_async))(made)


def values(p: Pool) -> None:
    t = p.any("tensor")
    t.set(np.zeros(t.shape, t.get().dtype))
    p.add("array", t.get())
    p.add("array", t.numpy())


def copies(p: Pool) -> None:
    a, b = p.any("tensor"), p.any("tensor")
    backend = p.any("backend")
    p.add("array", backend.get_async(a))
    backend.set_async(a, a.get())
    ggml.tensor_copy(a, b)
    ggml.copy_async(backend, p.any("backend"), a, b)
    backend.synchronize()


def meta_backend(p: Pool) -> None:
    p.add("backend", ggml.Backend(META))


def describe(p: Pool) -> None:
    t = p.any("tensor")
    p.add("tensor", p.random.choice((t, *t.src)))
    p.add("device", p.any("backend").device)
    p.add("buffer_type", p.any("backend").buffer_type)
    for known in p.any("context").tensors():
        p.add("tensor", known)


def scheduler(p: Pool) -> None:
    p.add("sched", ggml.Sched([p.any("backend"), ggml.Backend()]))


def schedule(p: Pool) -> None:
    p.random.choice((p.any("sched").compute, p.any("sched").alloc_graph, p.any("sched").reserve))(
        p.any("graph")
    )


def allocator(p: Pool) -> None:
    p.random.choice((p.any("gallocr").alloc_graph, p.any("gallocr").reserve))(p.any("graph"))


def multi(p: Pool) -> None:
    p.add("buffer", ggml.MultiBuffer([p.any("buffer") for _ in range(p.random.randint(1, 3))]))


def close(p: Pool) -> None:
    kind = p.random.choice(("context", "buffer", "backend", "plan", "gallocr", "sched"))
    thing = p.any(kind)
    p.random.choice(
        (thing.close, thing.close, thing.reset if kind in ("context", "sched") else thing.close)
    )()


def drop(p: Pool) -> None:
    kind = p.random.choice(sorted(p.objects) or ["context"])
    p.any(kind)
    p.objects[kind].pop(p.random.randrange(len(p.objects[kind]))) if p.objects[kind] else None
    if p.random.random() < 0.3:
        gc.collect()


def cycle(p: Pool) -> None:
    """Garbage that only the collector finds."""
    ring: list[object] = [p.any(kind) for kind in p.objects if p.objects[kind]]
    ring.append(ring)
    drop(p)


ACTIONS: tuple[Callable[[Pool], None], ...] = (
    lambda p: p.add("context", ggml.Context(p.random.choice((4096, 1 << 16, 1 << 18)))),
    lambda p: p.add("backend", ggml.Backend("CPU", p.random.randint(1, 2))),
    lambda p: p.add("buffer", p.any("backend").alloc_buffer(p.random.choice((0, 64, 4096)))),
    lambda p: p.add("buffer", ggml.alloc_ctx_tensors(p.any("context"), p.any("backend"))),
    lambda p: p.add("gallocr", ggml.Gallocr(p.any("backend"))),
    lambda p: p.add("plan", p.any("backend").plan(p.any("graph"))),
    lambda p: p.any("plan").compute(),
    lambda p: p.any("buffer").place(p.any("tensor"), p.random.choice((0, 32, 64))),
    lambda p: p.any("buffer").clear(0),
    lambda p: p.any("backend").set_threadpool(ggml.Threadpool(2)),
    lambda p: p.any("graph").expand(p.any("tensor")),
    *(new_tensor, operator, graph, compute, values, copies, describe, scheduler, schedule, allocator, multi)
    * 2,
    *(new_tensor, operator, graph, compute, close, drop, meta_backend, cycle),
)
CPU = ggml.device("CPU")
META = ggml.meta_device([CPU, CPU], lambda info, n: ggml.SplitAxis.MIRRORED)

if __name__ == "__main__":
    pool = Pool(int(sys.argv[1]))
    done = 0
    for _ in range(int(sys.argv[2])):
        try:
            pool.random.choice(ACTIONS)(pool)
            done += 1
        except (GgmlError, ValueError, TypeError):
            pass
    print(done)  # what is left in `pool` goes at the interpreter's exit
