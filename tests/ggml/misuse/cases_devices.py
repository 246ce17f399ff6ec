"""Devices and registries: indices and names, None for a handle, loading and unloading."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import case, context, doubling

import ggml
from ggml import GgmlError

# Indices and names


@case(IndexError)
def device_index_out_of_range() -> None:
    ggml.devices()[len(ggml.devices())]


@case(IndexError)
def registry_index_out_of_range() -> None:
    ggml.registries()[len(ggml.registries())]


@case(IndexError)
def device_of_registry_out_of_range() -> None:
    registry = ggml.registry("CPU")
    registry.devices[len(registry.devices)]


@case(KeyError, match="there are: CPU")
def device_of_unknown_name() -> None:
    ggml.device("no such device")


@case(KeyError)
def device_of_a_type_that_is_not_there() -> None:
    ggml.device(ggml.DeviceType.META)


@case(KeyError)
def registry_of_unknown_name() -> None:
    ggml.registry("no such registry")


# None where ggml takes a handle: NULL aborts or crashes

X = doubling()
NULLS: dict[str, Callable[[], object]] = {
    "register": lambda: ggml.register(None),  # type: ignore[arg-type]
    "register_device": lambda: ggml.register_device(None),  # type: ignore[arg-type]
    "meta_device": lambda: ggml.meta_device([None], lambda info, n: ggml.SplitAxis.MIRRORED),  # type: ignore[list-item]
    "supports_op": lambda: ggml.device("CPU").supports_op(None),  # type: ignore[arg-type]
    "offload_op": lambda: ggml.device("CPU").offload_op(None),  # type: ignore[arg-type]
    "supports_buffer_type": lambda: ggml.device("CPU").supports_buffer_type(None),  # type: ignore[arg-type]
    "alloc_size": lambda: ggml.device("CPU").buffer_type.alloc_size(None),  # type: ignore[arg-type]
    "compute": lambda: X.backend.compute(None),  # type: ignore[arg-type]
    "compute_async": lambda: X.backend.compute_async(None),  # type: ignore[arg-type]
    "plan": lambda: X.backend.plan(None),  # type: ignore[arg-type]
    "set_async": lambda: X.backend.set_async(None, np.zeros(4, np.float32)),  # type: ignore[arg-type]
    "get_async": lambda: X.backend.get_async(None),  # type: ignore[arg-type]
    "copy_async_backend": lambda: ggml.copy_async(None, X.backend, X.x, X.y),  # type: ignore[arg-type]
    "copy_async_tensor": lambda: ggml.copy_async(X.backend, X.backend, None, X.y),  # type: ignore[arg-type]
    "tensor_copy": lambda: ggml.tensor_copy(X.x, None),  # type: ignore[arg-type]
    "graph": lambda: ggml.Graph(None),  # type: ignore[arg-type]
    "expand": lambda: X.graph.expand(None),  # type: ignore[arg-type]
    "operator_context": lambda: ggml.add(None, X.x, X.y),  # type: ignore[arg-type]
    "operator_tensor": lambda: ggml.add(X.ctx, None, X.y),  # type: ignore[arg-type]
    "mul_mat_context": lambda: ggml.mul_mat(None, X.x, X.y),  # type: ignore[arg-type]
    "soft_max_ext_context": lambda: ggml.soft_max_ext(None, X.x, None, 1.0),  # type: ignore[arg-type]
    "view_context": lambda: ggml.view_1d(None, X.x, 1, 0),  # type: ignore[arg-type]
    "alloc_ctx_tensors_context": lambda: ggml.alloc_ctx_tensors(None, X.backend),  # type: ignore[arg-type]
    "alloc_ctx_tensors_where": lambda: ggml.alloc_ctx_tensors(context(), None),  # type: ignore[arg-type]
    "multi_buffer": lambda: ggml.MultiBuffer([None]),  # type: ignore[list-item]
    "place": lambda: X.buffer.place(None),  # type: ignore[arg-type]
    "gallocr": lambda: ggml.Gallocr(None),  # type: ignore[arg-type]
    "gallocr_alloc": lambda: ggml.Gallocr(X.backend).alloc_graph(None),  # type: ignore[arg-type]
    "gallocr_reserve": lambda: ggml.Gallocr(X.backend).reserve(None),  # type: ignore[arg-type]
    "sched": lambda: ggml.Sched([None]),  # type: ignore[list-item]
    "sched_alloc": lambda: ggml.Sched([X.backend]).alloc_graph(None),  # type: ignore[arg-type]
    "sched_compute": lambda: ggml.Sched([X.backend]).compute(None),  # type: ignore[arg-type]
    "sched_reserve": lambda: ggml.Sched([X.backend]).reserve(None),  # type: ignore[arg-type]
    "sched_tensor": lambda: ggml.Sched([X.backend]).set_tensor_backend(None, X.backend),  # type: ignore[arg-type]
    "sched_backend": lambda: ggml.Sched([X.backend]).set_tensor_backend(X.x, None),  # type: ignore[arg-type]
    "new_tensor": lambda: X.ctx.new_tensor(None, [4]),  # type: ignore[arg-type]
    "gguf": lambda: ggml.GgufFile(None),  # type: ignore[arg-type]
}
for key, action in NULLS.items():
    case(TypeError, name=f"null_{key}")(action)


# Loading and unloading


@case(match="no such file")
def library_that_is_missing() -> None:
    ggml.load_backend("/no/such/libggml-nothing.so")


@case(match="cannot load a ggml backend")
def library_that_is_none() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "libggml-none.so")
        path.write_bytes(b"no library")
        ggml.load_backend(path)


@case(match="cannot load a ggml backend")
def library_that_cannot_be_loaded() -> None:
    import libggml

    found = next(Path(libggml.__path__[0]).rglob("libggml-cpu.so"))
    ggml.load_backend(found)


@case(match="no folder")
def folder_that_is_missing() -> None:
    ggml.load_all_backends("/no/such/folder")


@case(match="in use")
def registry_unloaded_while_a_backend_lives() -> None:
    backend = ggml.Backend()
    try:
        ggml.registry("CPU").unload()
    finally:
        backend.synchronize()


@case(match="in use")
def registry_unloaded_while_a_buffer_lives() -> None:
    buffer = ggml.device("CPU").buffer_type.alloc_buffer(64)
    try:
        ggml.registry("CPU").unload()
    finally:
        buffer.clear(0)


@case(match="not registered")
def registry_unloaded_twice() -> None:
    import subprocess
    import sys

    script = (
        "import ggml\n"
        "registry = ggml.registry('CPU')\n"
        "registry.unload()\n"
        "assert ggml.devices() == ()\n"
        "try:\n    registry.unload()\n"
        "except ggml.GgmlError as error:\n    print(error)\n"
        "try:\n    ggml.best_backend()\n"
        "except KeyError:\n    ggml.register(registry)\n"
        "ggml.best_backend()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    raise GgmlError(done.stdout)
