"""Devices and registries: what can compute, and the libraries that bring it."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

import ggml._core as core
from ggml.enums import DeviceType
from ggml.errors import GgmlError

Device = core.Device
Registry = core.Registry


@dataclass(frozen=True, slots=True)
class DeviceCaps:
    """``ggml_backend_dev_caps``."""

    async_: bool
    host_buffer: bool
    buffer_from_host_ptr: bool
    events: bool
    mmap_support: bool


@dataclass(frozen=True, slots=True)
class DeviceProps:
    """``ggml_backend_dev_props``; memory in bytes, ``device_id`` (a PCI address) where the device has one."""

    name: str
    description: str
    memory_free: int
    memory_total: int
    type: DeviceType
    device_id: str | None
    caps: DeviceCaps


def device(which: str | DeviceType) -> Device:
    """The first device of that name (in any case) or type. Raises ``KeyError`` when there is none.

    ``ggml_backend_dev_by_name``, ``ggml_backend_dev_by_type``.
    """
    by_type = isinstance(which, DeviceType)
    found = core.device_by_type(int(which)) if by_type else core.device_by_name(str(which))
    if found is None:
        names = ", ".join(known.name for known in core.devices()) or "none"
        raise KeyError(f"there is no device {which!r}; there are: {names}")
    return found


def devices() -> tuple[Device, ...]:
    """All devices, in ggml's order (``ggml_backend_dev_count``, ``ggml_backend_dev_get``)."""
    return core.devices()


def registries() -> tuple[Registry, ...]:
    """All registries, in ggml's order (``ggml_backend_reg_count``, ``ggml_backend_reg_get``)."""
    return core.registries()


def registry(name: str) -> Registry:
    """The registry of that name, in any case (``ggml_backend_reg_by_name``). Raises ``KeyError``."""
    found = core.registry_by_name(name)
    if found is None:
        names = ", ".join(known.name for known in core.registries()) or "none"
        raise KeyError(f"there is no registry {name!r}; there are: {names}")
    return found


def load_backend(path: str | os.PathLike[str]) -> Registry:
    """Loads a backend library and registers its devices (``ggml_backend_load``).

    The same library gives the same registry. Raises :class:`ggml.GgmlError` with what ggml logged when the
    file is missing or is no backend that can be loaded (the libraries inside ``libggml`` are none).
    """
    if not os.path.isfile(path):
        raise GgmlError(f"cannot load a ggml backend from {os.fspath(path)}: there is no such file")
    # Only an absolute path is sure to be opened as it is: a bare name would be searched for.
    return core.load_backend(os.path.abspath(path))


def load_all_backends(folder: str | os.PathLike[str]) -> tuple[Registry, ...]:
    """Loads the backend libraries (``libggml-*`` or ``ggml-*``) of one folder; returns those that are new.

    Of several for one kind of device (``libggml-cpu-haswell.so``, ``libggml-cpu-skylakex.so``) the one that
    says that it fits this machine best. What ``ggml_backend_load_all_from_path`` does, without its search in
    the folder of the program and the current folder: nothing is loaded that was not asked for. A library that
    cannot be loaded is passed over. Raises :class:`ggml.GgmlError` when there is no such folder.
    """
    if not os.path.isdir(folder):
        raise GgmlError(f"there is no folder {os.fspath(folder)} to load ggml backends from")
    suffixes = (".dll",) if os.name == "nt" else (".so", ".dylib")
    prefix = "ggml-" if os.name == "nt" else "libggml-"
    before = set(core.registries())
    kinds: dict[str, list[str]] = {}
    for name in sorted(os.listdir(folder)):
        if not name.startswith(prefix) or not name.endswith(suffixes) or name.startswith(prefix + "base"):
            continue
        kind = name.removeprefix(prefix).split(".")[0].split("-")[0]
        kinds.setdefault(kind, []).append(os.path.abspath(os.path.join(folder, name)))
    for paths in kinds.values():
        for path in sorted(paths, key=_score, reverse=True) if len(paths) > 1 else paths:
            try:
                load_backend(path)
            except GgmlError:
                continue
            break
    return tuple(found for found in core.registries() if found not in before)


def _score(path: str) -> int:
    """How well a library says that it fits this machine; 0 is not at all."""
    try:
        return int(ctypes.CDLL(path).ggml_backend_score())
    except (OSError, AttributeError):
        return 0


def register(registry: Registry) -> None:
    """Registers a registry again after :meth:`Registry.unload` (``ggml_backend_register``)."""
    core.register(registry)


def register_device(device: Device) -> None:
    """Adds a device, such as a meta device, to ``devices()`` (``ggml_backend_device_register``)."""
    core.register_device(device)


def best_backend(n_threads: int = 1) -> core.Backend:
    """A backend on the first GPU, else on the first integrated one, else on the CPU.

    ``ggml_backend_init_best``. Raises ``KeyError`` when no device is registered.
    """
    for kind in (DeviceType.GPU, DeviceType.IGPU, DeviceType.CPU):
        found = core.device_by_type(int(kind))
        if found is not None:
            return core.Backend(found, n_threads)
    raise KeyError("there is no device to compute on")
