"""Objects that were never made: pickled ones, and instances that have not been through ``__init__``."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from harness import case, context, doubling, f32

import ggml

PICKLED: dict[str, Callable[[], object]] = {
    "protocol_0": lambda: pickle.dumps(ggml.Backend(), protocol=0),
    "protocol_1": lambda: pickle.dumps(doubling().x, protocol=1),
    "protocol_2": lambda: pickle.dumps(context(), protocol=2),
    "reduce": lambda: ggml.device("CPU").__reduce__(),
    "copy": lambda: copy.copy(doubling().graph),
    "deepcopy": lambda: copy.deepcopy(doubling().buffer),
    "base_class": lambda: ggml.Backend.__base__(),
}
for key, action in PICKLED.items():
    case(TypeError, name=f"pickled_{key}")(action)


def unmade(cls: type) -> Any:
    return cls.__new__(cls)


def used(cls: type) -> Callable[[], object]:
    def use() -> None:
        # Everything that can be asked of it without arguments.
        thing = unmade(cls)
        for name in dir(cls):
            if name.startswith("__") and name not in ("__repr__", "__enter__", "__hash__", "__eq__"):
                continue
            try:
                value = getattr(thing, name)
                if callable(value):
                    value()
            except (TypeError, RuntimeError, NotImplementedError):
                continue
        repr(thing)

    return use


UNMADE: dict[str, type] = {
    "Backend": ggml.Backend,
    "Buffer": ggml.Buffer,
    "BufferType": ggml.BufferType,
    "Context": ggml.Context,
    "Device": ggml.Device,
    "Event": ggml.Event,
    "Gallocr": ggml.Gallocr,
    "GgufFile": ggml.GgufFile,
    "Graph": ggml.Graph,
    "GraphPlan": ggml.GraphPlan,
    "MultiBuffer": ggml.MultiBuffer,
    "Registry": ggml.Registry,
    "Sched": ggml.Sched,
    "Tensor": ggml.Tensor,
    "Threadpool": ggml.Threadpool,
}
for key, cls in UNMADE.items():
    case(TypeError, match="incompatible", name=f"unmade_{key}")(used(cls))


@case(TypeError)
def operator_of_an_unmade_tensor() -> None:
    ctx = context()
    ggml.add(ctx, f32(ctx, 4), unmade(ggml.Tensor))


@case(TypeError)
def operator_in_an_unmade_context() -> None:
    ggml.relu(unmade(ggml.Context), doubling().x)


@case(TypeError)
def graph_in_an_unmade_context() -> None:
    ggml.Graph(unmade(ggml.Context))


@case(TypeError)
def compute_of_an_unmade_graph() -> None:
    ggml.Backend().compute(unmade(ggml.Graph))


@case(TypeError)
def sched_of_an_unmade_backend() -> None:
    ggml.Sched([unmade(ggml.Backend)])


@case(TypeError)
def init_that_failed_and_was_kept() -> None:
    kept: list[ggml.Context] = []

    class Mine(ggml.Context):
        def __init__(self) -> None:
            kept.append(self)
            super().__init__(-1)

    try:
        Mine()
    except TypeError:
        kept[0].new_tensor(ggml.Type.F32, [4])
