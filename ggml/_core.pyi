"""The extension module; use it through the package :mod:`ggml`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as SupportsBuffer

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
    def set_input(self) -> None: ...
    def set_output(self) -> None: ...
    def get(self) -> npt.NDArray[Any]:
        """A copy as an array of the tensor's own type."""
    def set(self, values: npt.NDArray[Any]) -> None:
        """Copies an array of the tensor's own type and size in."""
    def to_float32(self) -> npt.NDArray[np.float32]:
        """A copy as float32; quantised types through ggml's own conversions."""

class Context:
    """A metadata arena (``ggml_context``, ``no_alloc``) of so many bytes."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def free_bytes(self) -> int: ...
    def reset(self) -> None:
        """Forgets all tensors and graphs; what is left of them raises when it is used."""
    def new_tensor(self, type: int, ne: list[int]) -> Tensor: ...

class Graph:
    """A computation graph in its context's memory."""

    def __init__(self, context: Context, max_nodes: int = 2048) -> None: ...
    def expand(self, result: Tensor) -> None: ...
    @property
    def n_nodes(self) -> int: ...

class Device:
    """A compute device of ggml's registry."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def memory_free(self) -> int: ...
    @property
    def memory_total(self) -> int: ...

class Backend:
    """A compute stream on a device; a CPU backend has worker threads of its own."""

    def __init__(self, device: str = "CPU", n_threads: int = 1) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def is_cpu(self) -> bool: ...
    @property
    def n_threads(self) -> int: ...
    def set_n_threads(self, n_threads: int) -> None: ...
    def compute(self, graph: Graph) -> None: ...

class Buffer:
    """Device memory that tensors lie in."""

    @property
    def size(self) -> int: ...
    @property
    def is_host(self) -> bool: ...

class Gallocr:
    """A graph allocator with one buffer on a backend's device."""

    def __init__(self, backend: Backend) -> None: ...
    def alloc_graph(self, graph: Graph) -> None: ...
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

def devices() -> list[Device]: ...
def alloc_ctx_tensors(context: Context, backend: Backend) -> Buffer: ...
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
def add(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def sub(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def mul(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def div(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def scale(ctx: Context, a: Tensor, s: float) -> Tensor: ...
def silu(ctx: Context, a: Tensor) -> Tensor: ...
def sigmoid(ctx: Context, a: Tensor) -> Tensor: ...
def relu(ctx: Context, a: Tensor) -> Tensor: ...
def tanh(ctx: Context, a: Tensor) -> Tensor: ...
def norm(ctx: Context, a: Tensor, eps: float) -> Tensor: ...
def soft_max_ext(
    ctx: Context, a: Tensor, mask: Tensor | None, scale: float, max_bias: float = 0.0
) -> Tensor: ...
def mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def get_rows(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor: ...
def cont(ctx: Context, a: Tensor) -> Tensor: ...
def concat(ctx: Context, a: Tensor, b: Tensor, dim: int) -> Tensor: ...
def cast(ctx: Context, a: Tensor, type: int) -> Tensor: ...
def permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor: ...
def transpose(ctx: Context, a: Tensor) -> Tensor: ...
def reshape_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor: ...
def reshape_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor: ...
def reshape_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor: ...
def reshape_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor: ...
def view_1d(ctx: Context, a: Tensor, ne0: int, offset: int) -> Tensor: ...
def view_2d(ctx: Context, a: Tensor, ne0: int, ne1: int, nb1: int, offset: int) -> Tensor: ...
def view_3d(
    ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, nb1: int, nb2: int, offset: int
) -> Tensor: ...
def view_4d(
    ctx: Context,
    a: Tensor,
    ne0: int,
    ne1: int,
    ne2: int,
    ne3: int,
    nb1: int,
    nb2: int,
    nb3: int,
    offset: int,
) -> Tensor: ...
def pad_ext(
    ctx: Context,
    a: Tensor,
    lp0: int,
    rp0: int,
    lp1: int,
    rp1: int,
    lp2: int,
    rp2: int,
    lp3: int,
    rp3: int,
) -> Tensor: ...
def im2col(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    s0: int,
    s1: int,
    p0: int,
    p1: int,
    d0: int,
    d1: int,
    is_2d: bool,
    type: int,
) -> Tensor: ...
def conv_2d_dw_direct(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    stride0: int,
    stride1: int,
    pad0: int,
    pad1: int,
    dilation0: int,
    dilation1: int,
) -> Tensor: ...
