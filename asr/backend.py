"""The persistent backend: one ggml backend, one graph allocator, one thread pool for the life of a model.

A computation is a function that builds a graph in an empty context and returns its result tensor::

    def build(ctx):
        x = graph_input_tensor(ctx, ggml.Type.F32, (d_model, n), frames)
        return ggml.mul_mat(ctx, clone_weight(ctx, loader, "encoder.layers.0..."), x)

    output = backend.compute(build)

Inside ``build`` no tensor has memory yet. Host arrays are therefore registered with :func:`add_graph_input`
and copied after the graph was allocated; intermediate results are asked for with
:func:`capture_graph_output`. The names and promises are those of parakeet.cpp's ``backend.hpp``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.errors import DeviceError, ForkedProcessError

if TYPE_CHECKING:
    from asr.loader import ModelLoader

Build = Callable[[ggml.Context], ggml.Tensor]

# Parakeet's deepest encoder (42 layers) has about 2,300 nodes.
_MAX_NODES = 4096

_DTYPES = {ggml.Type.F32: np.float32, ggml.Type.F16: np.float16, ggml.Type.I32: np.int32}


class CancelSignal(Protocol):
    """Anything that says whether work should stop, such as ``threading.Event``; asked every 20 ms."""

    def is_set(self) -> bool: ...


class Capture:
    """A tensor to be read back; ``array`` is there after :meth:`Backend.compute` (float32, NumPy order)."""

    def __init__(self, tensor: ggml.Tensor) -> None:
        self.tensor = tensor
        self._array: npt.NDArray[np.float32] | None = None

    @property
    def array(self) -> npt.NDArray[np.float32]:
        if self._array is None:
            raise RuntimeError("the captured tensor was not computed yet")
        return self._array

    def read(self) -> None:
        """Copies the value out; called by the backend after the graph has run."""
        self._array = self.tensor.to_float32()


class _Session:
    """What a graph under construction has registered."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.inputs: list[tuple[ggml.Tensor, npt.NDArray[np.generic]]] = []
        self.captures: list[Capture] = []


class _Building(threading.local):
    session: _Session | None = None


_building = _Building()


class Backend:
    """Computes graphs on one device, one at a time; a second thread waits for its turn.

    ``n_threads`` below 1 means 1; it is ignored on devices other than the CPU. ``device`` is ``"cpu"`` or a
    name of :func:`ggml.devices`; an unknown one raises :class:`asr.DeviceError`.
    """

    def __init__(self, n_threads: int = 1, device: str = "cpu") -> None:
        try:
            found = ggml.device(device)
        except KeyError as error:
            raise DeviceError(error.args[0]) from None
        self._core = _core.PersistentBackend(ggml.Backend(found, n_threads), _MAX_NODES)
        self._device = device
        self._lock = threading.RLock()  # who computes again from within is told so, and does not wait
        self._pid = os.getpid()

    @property
    def core(self) -> _core.PersistentBackend:
        """The C++ object, for decoding loops that run graphs of their own."""
        return self._core

    @property
    def handle(self) -> ggml.Backend:
        """The underlying ggml backend."""
        return self._core.handle

    @property
    def device_name(self) -> str:
        """``"cpu"`` or the device's name in ggml's registry, as given."""
        return self._device

    @property
    def n_threads(self) -> int:
        return self.handle.n_threads

    def set_n_threads(self, n_threads: int) -> None:
        """Another number of threads; costs nothing when it is the same. Below 1 means 1."""
        self.check_process()
        self.handle.set_n_threads(n_threads)

    @property
    def graphs_run(self) -> int:
        """How many graphs this backend has computed so far."""
        return self._core.graphs_run

    @property
    def compute_buffer_size(self) -> int:
        """Bytes of the buffer for intermediate results: as large as the largest graph so far needed."""
        return self._core.compute_buffer_size

    @property
    def compute_buffer_address(self) -> int:
        """Where that buffer begins, 0 before the first compute; constant once the largest graph was seen."""
        return self._core.compute_buffer_address

    def compute(self, build: Build, *, cancel: CancelSignal | None = None) -> npt.NDArray[np.float32]:
        """Builds a graph, allocates it, copies the inputs, runs it and returns the result as float32.

        The result has NumPy's order of dimensions (ggml's reversed), without leading dimensions of 1.
        Raises what ``build`` raises, :class:`ggml.GgmlError`, :class:`asr.Cancelled` when ``cancel`` was set
        or :meth:`cancel` called, and :class:`asr.ForkedProcessError` in a forked child.
        """
        self.check_process()
        if _building.session is not None:
            raise RuntimeError("compute() was called while a graph is being built: graphs do not nest")
        with self._lock:
            session = _Session(self)
            context = self._core.begin()
            _building.session = session
            try:
                output = build(context)
            finally:
                _building.session = None
            self._core.allocate([*(capture.tensor for capture in session.captures), output])
            for tensor, array in session.inputs:
                if not tensor.is_allocated:
                    raise ValueError(
                        f"the graph does not use the input {tensor!r} that was registered for it"
                    )
                tensor.set(array)
            self._core.run(cancel)
            for capture in session.captures:
                capture.read()
            return output.to_float32()

    def cancel(self) -> None:
        """Stops the computation that is running now, from any thread; it raises :class:`asr.Cancelled`."""
        self._core.cancel()

    def register_input(self, tensor: ggml.Tensor, array: npt.NDArray[np.generic]) -> None:
        """Copy ``array`` into ``tensor`` once the graph being built on this backend has memory."""
        session = self._session()
        tensor.set_input()
        session.inputs.append((tensor, array))

    def register_capture(self, tensor: ggml.Tensor) -> Capture:
        """Also read ``tensor`` back when the graph being built on this backend has run."""
        capture = Capture(tensor)
        self._session().captures.append(capture)
        return capture

    def check_process(self) -> None:
        """Raises :class:`asr.ForkedProcessError` in a process forked after this backend was made."""
        if os.getpid() != self._pid:
            raise ForkedProcessError(
                "this model was loaded before os.fork(): its threads do not exist in the child process; "
                "load it in the child, or start workers with the 'spawn' method"
            )

    def _session(self) -> _Session:
        session = _building.session
        if session is None or session.backend is not self:
            raise RuntimeError("this backend is not building a graph: call this inside build() only")
        return session


def _building_backend() -> Backend:
    if _building.session is None:
        raise RuntimeError("no graph is being built: call this inside the build function of compute() only")
    return _building.session.backend


def add_graph_input(tensor: ggml.Tensor, array: npt.ArrayLike) -> None:
    """Marks ``tensor`` as an input and has ``array`` copied into it after the graph was allocated.

    The array is converted to the tensor's type and kept alive until then. Its elements are taken in C order,
    which is ggml's order of the reversed shape. Raises ``ValueError`` when the numbers of elements differ.
    """
    backend = _building_backend()
    dtype = _DTYPES.get(ggml.Type(tensor.type))
    if dtype is None:
        raise TypeError(f"a graph input cannot be of type {ggml.type_info(tensor.type).name}")
    values = np.ascontiguousarray(array, dtype=dtype)
    if values.nbytes != tensor.nbytes:
        raise ValueError(f"an input of sizes {tensor.ne} was given an array of shape {values.shape}")
    backend.register_input(tensor, values)


def graph_input_tensor(ctx: ggml.Context, type: int, ne: Sequence[int], array: npt.ArrayLike) -> ggml.Tensor:
    """A new tensor of sizes ``ne`` (ggml's order) that takes its value from ``array``."""
    tensor = ctx.new_tensor(type, list(ne))
    add_graph_input(tensor, array)
    return tensor


def capture_graph_output(tensor: ggml.Tensor) -> Capture:
    """Has an intermediate tensor read back too; any number of them in a graph."""
    return _building_backend().register_capture(tensor)


def clone_weight(ctx: ggml.Context, loader: ModelLoader, name: str) -> ggml.Tensor:
    """The loader's tensor itself as a leaf of the graph, without a copy; realises the weights on first use.

    Raises ``KeyError`` when the model has no such tensor. (``ctx`` keeps the weights alive from the first
    operator that uses them.)
    """
    return loader.weight(name)


def clone_weight_opt(ctx: ggml.Context, loader: ModelLoader, name: str) -> ggml.Tensor | None:
    """Like :func:`clone_weight`, None when the model has no such tensor."""
    return loader.weight(name) if name in loader else None


def ensure_weights_realized(loader: ModelLoader) -> None:
    """Gives the loader's weights memory on their device, once."""
    loader.realize_weights()


def weight_to_host_f32(loader: ModelLoader, name: str) -> npt.NDArray[np.float32]:
    """Any weight, of any type, on any device, as float32 in PyTorch's shape. Raises ``KeyError``."""
    return loader.weight(name).to_float32()
