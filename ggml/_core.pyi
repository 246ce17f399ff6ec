"""The extension module; use it through the package :mod:`ggml`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as SupportsBuffer
from typing_extensions import Self

from ggml.devices import DeviceProps
from ggml.enums import BufferUsage, DeviceType

class _Closing:
    """What can be closed: twice is harmless, using it afterwards raises :class:`ggml.GgmlError`."""

    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

class Tensor:
    """A ``ggml_tensor``. Keeps its context alive; raises :class:`ggml.GgmlError` once that was reset."""

    name: str
    @property
    def type(self) -> int: ...
    @property
    def ne(self) -> tuple[int, int, int, int]:
        """Sizes in ggml's order, fastest running first."""
    @property
    def nb(self) -> tuple[int, int, int, int]:
        """Strides in bytes."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in NumPy's order, without leading dimensions of 1."""
    @property
    def nbytes(self) -> int: ...
    @property
    def is_contiguous(self) -> bool: ...
    @property
    def is_allocated(self) -> bool: ...
    @property
    def is_view(self) -> bool: ...
    @property
    def op(self) -> str:
        """What computes it, ``NONE`` for a leaf (``ggml_op_desc``)."""
    @property
    def flags(self) -> int:
        """``ggml_tensor_flag``: 1 input, 2 output, 4 parameter, 8 loss."""
    @property
    def src(self) -> tuple[Tensor, ...]:
        """The tensors of its own context that it is computed from."""
    def set_input(self) -> None: ...
    def set_output(self) -> None: ...
    def get(self) -> npt.NDArray[Any]:
        """A copy as an array of the tensor's own type."""
    def set(self, values: npt.NDArray[Any]) -> None:
        """Copies an array of the tensor's own type and shape, or a flat one of its memory's order, in."""
    def to_float32(self) -> npt.NDArray[np.float32]:
        """A copy as float32; quantised types through ggml's own conversions."""
    def numpy(self) -> npt.NDArray[Any]:
        """A view of its memory without a copy. Only of a buffer in host memory, which it holds."""

class Context(_Closing):
    """A metadata arena (``ggml_context``, ``no_alloc``) of so many bytes."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def free_bytes(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    def reset(self) -> None:
        """Forgets all tensors and graphs; what is left of them raises when it is used."""
    def new_tensor(self, type: int, ne: list[int]) -> Tensor: ...
    def tensors(self) -> tuple[Tensor, ...]: ...

class Graph:
    """A computation graph in its context's memory."""

    def __init__(self, context: Context, max_nodes: int = 2048) -> None: ...
    def expand(self, result: Tensor) -> None: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def nodes(self) -> tuple[Tensor, ...]:
        """The tensors that it computes, in that order (``ggml_graph_node``)."""

class BufferType:
    """A kind of memory that a device offers (``ggml_backend_buffer_type_t``)."""

    @property
    def name(self) -> str: ...
    @property
    def alignment(self) -> int: ...
    @property
    def max_size(self) -> int: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def device(self) -> Device: ...
    def alloc_size(self, tensor: Tensor) -> int: ...
    def alloc_buffer(self, size: int) -> Buffer: ...

class Device:
    """A compute device (``ggml_backend_dev_t``); equal to another of the same handle."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def type(self) -> DeviceType: ...
    @property
    def memory_free(self) -> int: ...
    @property
    def memory_total(self) -> int: ...
    @property
    def props(self) -> DeviceProps: ...
    @property
    def registry(self) -> Registry | None:
        """None for a meta device."""
    @property
    def parts(self) -> list[Device]:
        """A meta device's devices."""
    @property
    def buffer_type(self) -> BufferType: ...
    @property
    def host_buffer_type(self) -> BufferType | None:
        """Pinned host memory, where the device has it."""
    def supports_op(self, tensor: Tensor) -> bool: ...
    def supports_buffer_type(self, buffer_type: BufferType) -> bool: ...
    def offload_op(self, tensor: Tensor) -> bool: ...
    def init(self, params: str | None = None) -> Backend: ...
    def event(self) -> Event:
        """Raises :class:`ggml.UnsupportedError` on a device without events."""

class Registry:
    """A backend library and its devices (``ggml_backend_reg_t``)."""

    @property
    def name(self) -> str: ...
    @property
    def devices(self) -> tuple[Device, ...]: ...
    @property
    def is_registered(self) -> bool: ...
    def unload(self) -> None:
        """Unregisters it and closes its library. Refused while anything of it lives."""

class Threadpool:
    """Worker threads that several CPU backends may share, one at a time."""

    def __init__(self, n_threads: int) -> None: ...
    @property
    def n_threads(self) -> int: ...

class Backend(_Closing):
    """A compute stream on a device, given by name (``KeyError`` when unknown), type or as a Device.

    A CPU backend has ``n_threads`` worker threads of its own, which live as long as it does.
    """

    def __init__(
        self, device: str | DeviceType | Device = "CPU", n_threads: int = 1, params: str | None = None
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def device(self) -> Device: ...
    @property
    def is_cpu(self) -> bool: ...
    @property
    def n_threads(self) -> int: ...
    @property
    def buffer_type(self) -> BufferType: ...
    def set_n_threads(self, n_threads: int) -> None: ...
    def set_threadpool(self, pool: Threadpool | None) -> None: ...
    def compute(self, graph: Graph, cancel: object = None) -> None:
        """Runs a graph whose tensors have memory; the GIL is released. ``cancel``: anything with is_set()."""
    def compute_async(self, graph: Graph) -> None: ...
    def synchronize(self) -> None: ...
    def plan(self, graph: Graph) -> GraphPlan:
        """Raises :class:`ggml.UnsupportedError` on any but a CPU backend."""
    def set_async(
        self, tensor: Tensor, values: npt.NDArray[Any], offset: int = 0, size: int | None = None
    ) -> None:
        """``offset`` and ``size`` in bytes; the array is held until ``synchronize``."""
    def get_async(self, tensor: Tensor, offset: int = 0, size: int | None = None) -> npt.NDArray[Any]:
        """The array's values are there after ``synchronize``."""
    def supports_op(self, tensor: Tensor) -> bool: ...
    def alloc_buffer(self, size: int) -> Buffer: ...

class Buffer(_Closing):
    """Device memory that tensors lie in; closing it takes their memory away."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def is_multi(self) -> bool: ...
    @property
    def base(self) -> int | None: ...
    @property
    def buffer_type(self) -> BufferType: ...
    @property
    def usage(self) -> BufferUsage: ...
    @usage.setter
    def usage(self, value: int) -> None: ...
    def clear(self, value: int = 0) -> None: ...
    def reset(self) -> None: ...
    def place(self, tensor: Tensor, offset: int = 0) -> None: ...

class MultiBuffer(Buffer):
    """Several buffers as one, which takes them over: they can be used only through it from then on."""

    def __init__(self, buffers: list[Buffer]) -> None: ...
    @property
    def buffers(self) -> tuple[Buffer, ...]: ...

class Event(_Closing):
    """A point in a backend's stream of work (``ggml_backend_event_t``)."""

    def record(self, backend: Backend) -> None: ...
    def wait(self, backend: Backend) -> None: ...
    def synchronize(self) -> None: ...

class GraphPlan(_Closing):
    """A graph prepared for computing again (``ggml_backend_graph_plan_t``)."""

    def compute(self) -> None: ...

class Gallocr(_Closing):
    """A graph allocator with one buffer, on a backend's device or of a buffer type."""

    def __init__(self, where: Backend | BufferType) -> None: ...
    def alloc_graph(self, graph: Graph) -> None: ...
    def reserve(self, graph: Graph) -> None: ...
    @property
    def buffer_size(self) -> int: ...

class GgufTensorInfo:
    """What a GGUF file says of a tensor."""

    @property
    def type(self) -> int:
        """``ggml_type``."""
    @property
    def ne(self) -> tuple[int, int, int, int]:
        """Sizes in ggml's order."""
    @property
    def offset(self) -> int:
        """Bytes from :attr:`GgufFile.data_offset` to the tensor's data (``gguf_get_tensor_offset``)."""
    @property
    def size(self) -> int:
        """Bytes of the tensor's data (``gguf_get_tensor_size``)."""

class Sched(_Closing):
    """Computes a graph over several backends, the last of them a CPU (``ggml_backend_sched_t``).

    A graph is rewritten by it: after another allocation or ``reset`` it has to be built anew. Its memory is
    used again within a graph: all inputs have to be set before each ``compute``.
    """

    def __init__(
        self,
        backends: list[Backend],
        graph_size: int = 2048,
        parallel: bool = False,
        op_offload: bool = True,
    ) -> None: ...
    def reserve(self, graph: Graph) -> None: ...
    def alloc_graph(self, graph: Graph) -> None: ...
    def compute(self, graph: Graph, cancel: object = None) -> None: ...
    def synchronize(self) -> None: ...
    def reset(self) -> None: ...
    def set_tensor_backend(self, tensor: Tensor, backend: Backend) -> None:
        """A wish about the next graph: ggml moves a node to an earlier backend of the list that uses the same
        memory, so that between two CPU backends it has no effect.
        """
    def tensor_backend(self, tensor: Tensor) -> Backend | None: ...
    @property
    def n_splits(self) -> int: ...
    @property
    def n_copies(self) -> int: ...
    def buffer_size(self, backend: Backend) -> int: ...
    @property
    def backends(self) -> tuple[Backend, ...]: ...

class GgufFile:
    """A GGUF file in memory (a memory map, for instance), its tensors in place.

    Raises :class:`ggml.GgmlError` for memory that is no whole GGUF file, and for use after :meth:`close`.
    """

    def __init__(self, buffer: SupportsBuffer) -> None: ...
    @property
    def version(self) -> int: ...
    @property
    def alignment(self) -> int:
        """Bytes that the place of every tensor's data is a multiple of."""
    @property
    def data_offset(self) -> int:
        """Bytes before the tensors' data."""
    def __contains__(self, key: str) -> bool: ...
    def __getitem__(self, key: str) -> Any:
        """The value of a key, as in :meth:`metadata`. Raises KeyError."""
    def key_type(self, key: str) -> int:
        """The :class:`ggml.GgufType` of a key's value (``gguf_get_kv_type``). Raises KeyError."""
    def element_type(self, key: str) -> int | None:
        """That of an array's elements (``gguf_get_arr_type``), else None. Raises KeyError."""
    def metadata(self) -> dict[str, Any]:
        """All keys and values; arrays of numbers are NumPy arrays, arrays of strings lists."""
    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, in the file's order; without memory before :meth:`map_tensors`."""
    def tensor_infos(self) -> dict[str, GgufTensorInfo]: ...
    def map_tensors(self) -> Buffer:
        """Gives the tensors the memory of the file, without a copy. Twice is harmless."""
    def close(self) -> None:
        """Lets go of the file. Tensors taken from it keep its memory as long as they live."""
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> GgufFile: ...
    def __exit__(self, *args: object) -> None: ...

class GgufHeader:
    """What :class:`ggml.GgufWriter` has of a file before it is written."""

    def __init__(self, alignment: int) -> None: ...
    def set_number(self, key: bytes, type: int, value: bytes) -> None: ...
    def set_numbers(self, key: bytes, type: int, values: bytes) -> None: ...
    def set_string(self, key: bytes, value: bytes) -> None: ...
    def set_strings(self, key: bytes, values: list[bytes]) -> None: ...
    def add_tensor(self, name: bytes, type: int, ne: list[int], given: int | None = None) -> int: ...
    def contents(self) -> bytes: ...

def check_readable(tensor: Tensor) -> None: ...
def tensor_bytes(tensor: Tensor, offset: int, most: int) -> bytes: ...
def start_log(receiver: Callable[[list[tuple[int, float, int, str]], int], None]) -> None: ...
def stop_log() -> None: ...
def cpu_features() -> dict[str, bool]:
    """``ggml_cpu_has_*`` by name: what ggml's CPU library was built with and the processor has."""

def cpu_vector_bytes() -> dict[str, int]:
    """``sve_cnt`` and ``rvv_vlen``: bytes of a vector of SVE and of RISC-V's V, 0 without them."""

def devices() -> tuple[Device, ...]: ...
def device_by_name(name: str) -> Device | None: ...
def device_by_type(type: int) -> Device | None: ...
def registries() -> tuple[Registry, ...]: ...
def registry_by_name(name: str) -> Registry | None: ...
def load_backend(path: str) -> Registry: ...
def register(registry: Registry) -> None: ...
def register_device(device: Device) -> None: ...
def meta_device(
    devices: list[Device], split_fn: Callable[[dict[str, Any], int], tuple[int, list[int], list[int]]]
) -> Device:
    """Internal. The public one is :func:`ggml.meta_device` (``ggml/meta.py``), whose split function takes a
    :class:`ggml.SplitInfo` and returns a :class:`ggml.Split` or ``SplitAxis.MIRRORED``.
    """

def alloc_ctx_tensors(context: Context, where: Backend | BufferType) -> Buffer:
    """Memory for every tensor of a context that has none; the context keeps it."""

def copy_async(src_backend: Backend, dst_backend: Backend, src: Tensor, dst: Tensor) -> None: ...
def type_table() -> list[tuple[int, str, int, int]]: ...
def quantize(
    values: npt.NDArray[np.float32],
    type: int,
    imatrix: npt.NDArray[np.float32] | None = None,
    n_threads: int = 1,
) -> bytes:
    """The rows (last axis) of an array as bytes of a ggml type (``ggml_quantize_chunk``).

    ``imatrix`` weighs the error of each column: one finite, non-negative value for each. The rows are shared
    among ``n_threads`` threads. The first use of an IQ1, IQ2 or IQ3 type builds a table, which takes seconds.

    Raises ValueError for rows that are not whole blocks, values that are not finite (float types store them)
    and a missing importance matrix; :class:`ggml.GgmlError` for a type that ggml does not quantise to.
    """

def dequantize(data: SupportsBuffer, type: int, ne: Sequence[int]) -> npt.NDArray[np.float32]:
    """Bytes of a ggml type (``ggml_type_traits.to_float``) as an array of shape ``reversed(ne)``.

    Raises ValueError when the data has another size than type and ``ne`` ask for; :class:`ggml.GgmlError` for
    a type that ggml cannot convert.
    """

def quantize_requires_imatrix(type: int) -> bool:
    """Whether :func:`quantize` needs an importance matrix for this type."""

def tensor_copy(source: Tensor, destination: Tensor) -> None: ...
def tensor_overhead() -> int: ...
def graph_overhead(max_nodes: int) -> int: ...
def can_mul_mat(type: int) -> bool: ...
