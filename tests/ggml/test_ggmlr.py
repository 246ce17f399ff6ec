"""Every function of ggmlR's backend API has its counterpart: the table of docs/ggmlr.md, called by row."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import libggml
import numpy as np
import pytest

import ggml
from ggml import BufferUsage, DeviceType, Type

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "ggmlr.md"
REFERENCE = (ROOT / ".." / "shared" / "reference" / "ggmlr-functions.txt").resolve()
PREFIX = "ggml_backend_"


class World:
    """One of everything, on the CPU."""

    def __init__(self) -> None:
        self.device = ggml.device("CPU")
        self.registry = ggml.registry("CPU")
        self.backend = ggml.Backend()
        self.ctx = ggml.Context(1 << 20)
        self.x = self.ctx.new_tensor(Type.F32, [4])
        self.y = ggml.scale(self.ctx, self.x, 2.0)
        self.graph = ggml.Graph(self.ctx, 8)
        self.graph.expand(self.y)
        self.buffer = ggml.alloc_ctx_tensors(self.ctx, self.backend)
        self.x.set(np.arange(4, dtype=np.float32))

    def doubled(self) -> bool:
        return bool((self.y.get() == [0, 2, 4, 6]).all())


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    with pytest.raises(error):
        call()
    return True


def in_a_process(*lines: str) -> bool:
    """Runs lines that change what the process has, and must not do so for other tests."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(("import ggml", *lines))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return True


def set_async(w: World) -> bool:
    w.backend.set_async(w.x, np.array([8, 9], np.float32), 4)
    w.backend.synchronize()
    return bool((w.x.get() == [0, 8, 9, 3]).all())


def get_async(w: World) -> bool:
    part = w.backend.get_async(w.x, 8, 4)
    w.backend.synchronize()
    return part.dtype == np.float32 and part.tolist() == [2.0]


def copy_async(w: World) -> bool:
    other = ggml.Backend()
    ggml.copy_async(w.backend, other, w.x, w.y)
    other.synchronize()
    return bool((w.y.get() == w.x.get()).all())


def plan(w: World) -> bool:
    made = w.backend.plan(w.graph)
    made.compute()
    made.close()
    made.close()
    return w.doubled() and made.closed


def compute_async(w: World) -> bool:
    w.backend.compute_async(w.graph)
    w.backend.synchronize()
    return w.doubled()


def clear(w: World) -> bool:
    w.buffer.clear(0)
    return bool((w.x.get() == 0).all())


def usage(buffer: ggml.Buffer) -> bool:
    buffer.usage = BufferUsage.WEIGHTS
    return buffer.usage is BufferUsage.WEIGHTS


def multi(w: World) -> ggml.MultiBuffer:
    return ggml.MultiBuffer([w.backend.alloc_buffer(64), w.backend.alloc_buffer(128)])


def meta_device(w: World) -> bool:
    meta = ggml.meta_device([w.device, w.device], lambda info, n: ggml.SplitAxis.MIRRORED)
    backend = ggml.Backend(meta)
    ctx = ggml.Context(1 << 20)
    x = ctx.new_tensor(Type.F32, [4])
    buffer = ggml.alloc_ctx_tensors(ctx, backend)
    x.set(np.ones(4, np.float32))
    return meta.type is DeviceType.META and not buffer.is_host and bool((x.get() == 1).all())


def no_events(w: World) -> bool:
    """The CPU has none, and without one there is nothing to record, wait for or close."""
    methods = [getattr(ggml.Event, name) for name in ("record", "wait", "synchronize", "close")]
    return all(callable(method) for method in methods) and raises(ggml.UnsupportedError, w.device.event)


CALLS: dict[str, Callable[[World], object]] = {
    "device_type_cpu": lambda w: DeviceType.CPU == 0,
    "device_type_gpu": lambda w: DeviceType.GPU == 1,
    "device_type_igpu": lambda w: DeviceType.IGPU == 2,
    "device_type_accel": lambda w: DeviceType.ACCEL == 3,
    "buffer_usage_any": lambda w: BufferUsage.ANY == 0,
    "buffer_usage_weights": lambda w: BufferUsage.WEIGHTS == 1,
    "buffer_usage_compute": lambda w: BufferUsage.COMPUTE == 2,
    "dev_count": lambda w: len(ggml.devices()) >= 1,
    "dev_get": lambda w: w.device in ggml.devices() and raises(IndexError, lambda: ggml.devices()[999]),
    "dev_by_name": lambda w: ggml.device("cpu") == w.device and raises(KeyError, lambda: ggml.device("no")),
    "dev_by_type": lambda w: ggml.device(DeviceType.CPU).type is DeviceType.CPU,
    "dev_name": lambda w: w.device.name == "CPU",
    "dev_description": lambda w: w.device.description,
    "dev_memory": lambda w: 0 < w.device.memory_free <= w.device.memory_total,
    "dev_type": lambda w: w.device.type is DeviceType.CPU,
    "dev_get_props": lambda w: w.device.props.name == "CPU" and not w.device.props.caps.events,
    "dev_supports_op": lambda w: w.device.supports_op(w.y),
    "dev_supports_buft": lambda w: w.device.supports_buffer_type(w.device.buffer_type),
    "dev_offload_op": lambda w: w.device.offload_op(w.y) is False,
    "dev_init": lambda w: w.device.init().is_cpu,
    "reg_count": lambda w: len(ggml.registries()) >= 1,
    "reg_get": lambda w: (
        w.registry in ggml.registries() and raises(IndexError, lambda: ggml.registries()[999])
    ),
    "reg_by_name": lambda w: (
        ggml.registry("cpu") == w.registry and raises(KeyError, lambda: ggml.registry("no"))
    ),
    "reg_name": lambda w: w.registry.name == "CPU",
    "reg_dev_count": lambda w: len(w.registry.devices) == 1,
    "reg_dev_get": lambda w: (
        w.registry.devices[0] == w.device and raises(IndexError, lambda: w.registry.devices[1])
    ),
    "load": lambda w: raises(ggml.GgmlError, lambda: ggml.load_backend("/no/such/libggml-none.so")),
    "unload": lambda w: raises(ggml.GgmlError, w.registry.unload),  # w.backend lives
    "load_all": lambda w: raises(ggml.GgmlError, lambda: ggml.load_all_backends("/no/such/folder")),
    "event_new": no_events,
    "event_free": no_events,
    "event_record": no_events,
    "event_synchronize": no_events,
    "event_wait": no_events,
    "graph_plan_create": plan,
    "graph_plan_free": plan,
    "graph_plan_compute": plan,
    "tensor_set_async": set_async,
    "tensor_get_async": get_async,
    "tensor_copy_async": copy_async,
    "buffer_clear": clear,
    "buffer_set_usage": lambda w: usage(w.buffer),
    "buffer_get_usage": lambda w: w.backend.alloc_buffer(8).usage is BufferUsage.ANY,
    "buffer_reset": lambda w: w.buffer.reset() is None and w.x.is_allocated,
    "buffer_is_host": lambda w: w.buffer.is_host,
    "init_by_name": lambda w: ggml.Backend("CPU").is_cpu,
    "init_by_type": lambda w: ggml.Backend(DeviceType.CPU).is_cpu,
    "init_best": lambda w: ggml.best_backend().name,
    "synchronize": lambda w: w.backend.synchronize() is None,
    "get_device": lambda w: w.backend.device == w.device,
    "graph_compute_async": compute_async,
    "multi_buffer_alloc_buffer": lambda w: (
        multi(w).size == 192 and raises(ValueError, lambda: ggml.MultiBuffer([]))
    ),
    "buffer_is_multi_buffer": lambda w: multi(w).is_multi and not w.buffer.is_multi,
    "multi_buffer_set_usage": lambda w: usage(multi(w)),
    "register": lambda w: in_a_process(
        "cpu = ggml.registry('CPU')",
        "cpu.unload()",
        "assert ggml.devices() == () and not cpu.is_registered",
        "ggml.register(cpu)",
        "assert ggml.best_backend().is_cpu and cpu.is_registered",
    ),
    "device_register": lambda w: in_a_process(
        "meta = ggml.meta_device([ggml.device('CPU')], lambda info, n: ggml.SplitAxis.MIRRORED)",
        "ggml.register_device(meta)",
        "assert ggml.devices()[-1].parts == [ggml.device('CPU')]",
        "assert meta in ggml.devices() and ggml.device(ggml.DeviceType.META) == meta",
    ),
    "meta_device": meta_device,
}


def rows() -> list[tuple[str, str]]:
    """(ggmlR's name, what the table says of it in Python)."""
    found = re.findall(r"^\| `(ggml_backend_\w+)` \| (.+?) \|", TABLE.read_text("utf-8"), re.M)
    return [(name, python) for name, python in found]


def test_the_table_has_every_function_once_and_each_is_called() -> None:
    names = [name for name, _ in rows()]
    assert len(names) == len(set(names)) == 57
    assert set(names) == {PREFIX + name for name in CALLS}
    if REFERENCE.exists():  # ggmlR's own list, which is not in the repository
        assert set(names) == set(REFERENCE.read_text("utf-8").split())


def test_the_names_are_ggmls() -> None:
    """ggmlR has C's names (constants in lower case). Three functions are in no header that is installed."""
    headers = (Path(libggml.__file__).parent / "include").glob("*.h")
    known = set(re.findall(r"\w+", " ".join(path.read_text("utf-8") for path in headers)))
    assert {name for name, _ in rows() if not {name, name.upper()} & known} == {
        PREFIX + "multi_buffer_alloc_buffer",
        PREFIX + "buffer_is_multi_buffer",
        PREFIX + "multi_buffer_set_usage",
    }


@pytest.mark.parametrize("name", CALLS)
def test_it_works(name: str) -> None:
    assert CALLS[name](World())


@pytest.mark.parametrize(("name", "python"), rows())
def test_what_the_table_names_exists(name: str, python: str) -> None:
    owners = {"Device", "Backend", "Buffer", "MultiBuffer", "Registry", "Event", "GraphPlan", "DeviceType"}
    for expression in re.findall(r"`([^`]+)`", python):
        for owner, attribute in re.findall(r"\b([A-Z]\w+)\.(\w+)", expression):
            holder = getattr(ggml, owner if owner in owners | {"BufferUsage"} else "missing")
            assert hasattr(holder, attribute), expression
        for function in re.findall(r"ggml\.(\w+)", expression):
            assert hasattr(ggml, function), expression
