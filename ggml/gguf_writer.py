"""Writing GGUF files: values of every type of the format, tensors streamed from where they are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from ggml import _core
from ggml._files import replacing
from ggml.enums import Named
from ggml.errors import GgmlError
from ggml.types import Type

if TYPE_CHECKING:
    from typing_extensions import Buffer as SupportsBuffer

_PART = 1 << 22  # bytes of a tensor that are in memory at once


class GgufType(Named):
    """``gguf_type``: the types of a GGUF file's values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


_DTYPES: dict[GgufType, np.dtype[Any]] = {
    GgufType.UINT8: np.dtype(np.uint8),
    GgufType.INT8: np.dtype(np.int8),
    GgufType.UINT16: np.dtype(np.uint16),
    GgufType.INT16: np.dtype(np.int16),
    GgufType.UINT32: np.dtype(np.uint32),
    GgufType.INT32: np.dtype(np.int32),
    GgufType.FLOAT32: np.dtype(np.float32),
    GgufType.BOOL: np.dtype(np.bool_),
    GgufType.UINT64: np.dtype(np.uint64),
    GgufType.INT64: np.dtype(np.int64),
    GgufType.FLOAT64: np.dtype(np.float64),
}
# Kinds of NumPy that a value may have, by the kind that it becomes.
_ACCEPTED = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}
_GGUF_TYPES = {dtype: type for type, dtype in _DTYPES.items()}
_TENSOR_TYPES: dict[np.dtype[Any], Type] = {
    np.dtype(np.float32): Type.F32,
    np.dtype(np.float16): Type.F16,
    np.dtype(np.float64): Type.F64,
    np.dtype(np.int8): Type.I8,
    np.dtype(np.int16): Type.I16,
    np.dtype(np.int32): Type.I32,
    np.dtype(np.int64): Type.I64,
}

Scalar: TypeAlias = "bool | int | float | str | np.generic"
Value: TypeAlias = "Scalar | Sequence[Scalar] | npt.NDArray[Any]"
Data: TypeAlias = "SupportsBuffer | Callable[[], Iterable[SupportsBuffer]]"


class GgufWriter:
    """A GGUF file (version 3) to be written: first values and tensors, then :meth:`write`.

    Tensors are not copied: their data is read when the file is written, a few megabytes at a time.
    ``alignment`` is that of the tensors' data in the file, a power of two of at least 8.
    """

    def __init__(self, alignment: int = 32) -> None:
        """Raises ValueError for an alignment that the format does not have."""
        if not 0 < alignment < 1 << 32:
            raise ValueError(f"the alignment of a GGUF file is a power of two of at least 8, not {alignment}")
        self._alignment = alignment
        self._header: _core.GgufHeader | None = _core.GgufHeader(alignment)
        self._tensors: list[tuple[str, int, Callable[[], Iterable[SupportsBuffer]]]] = []
        self._lock = threading.RLock()  # header and list change together
        self._unfinished: str | None = None  # what was being added when that was interrupted
        self._writing = False

    @property
    def alignment(self) -> int:
        """Bytes that the place of every tensor's data is a multiple of."""
        return self._alignment

    @property
    def closed(self) -> bool:
        return self._header is None

    def close(self) -> None:
        """Lets go of values and tensors; twice is harmless."""
        self._header = None
        self._tensors = []

    def __enter__(self) -> GgufWriter:
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def set(self, key: str, value: Value, type: GgufType | int | None = None) -> None:
        """Gives ``key`` a value (``gguf_set_val_*``, ``gguf_set_arr_*``); every key has one value only.

        Without ``type``, a NumPy scalar or array has the type of its dtype, ``bool`` is BOOL, ``float``
        FLOAT64 and ``str`` STRING; a Python ``int`` needs a type. A list, tuple or array of one dimension
        becomes an ARRAY of such values, and ``type`` is then that of its elements.

        Raises TypeError for a value that is not of the type; ValueError for one that the type cannot hold, a
        key that has a value already, an empty key and text with a zero byte.
        """
        header = self._open()
        wanted = None if type is None else GgufType(type)
        try:
            name = _encode(key)
            if wanted == GgufType.ARRAY:
                raise TypeError("`type` is that of an array's elements")
            if isinstance(value, str):
                _require(wanted, GgufType.STRING, value)
                header.set_string(name, _encode(value))
            elif isinstance(value, (bool, int, float, np.generic)):
                if wanted == GgufType.STRING:
                    raise TypeError(f"{value!r} is not of type STRING")
                array, found = _numbers([value], wanted)
                header.set_number(name, found, array.tobytes())
            else:
                self._set_array(header, name, value, wanted)
        except TypeError as error:
            raise TypeError(f"key {key!r}: {error}") from None
        except ValueError as error:
            raise ValueError(f"key {key!r}: {error}") from None

    @staticmethod
    def _set_array(header: _core.GgufHeader, name: bytes, value: Value, wanted: GgufType | None) -> None:
        if isinstance(value, np.ndarray):
            if value.ndim != 1:
                raise ValueError(f"an array has one dimension, not {value.ndim}")
            values: list[Any] | npt.NDArray[Any] = value.tolist() if value.dtype.kind == "U" else value
        elif isinstance(value, (list, tuple)):
            values = list(value)
        else:
            raise TypeError(f"{type(value).__name__} is not a type of GGUF")
        if wanted == GgufType.STRING or any(isinstance(v, str) for v in values[:1]):
            _require(wanted, GgufType.STRING, value)
            if not all(isinstance(v, str) for v in values):
                raise TypeError("strings and other values in one array")
            header.set_strings(name, [_encode(v) for v in values])
            return
        array, found = _numbers(values, wanted)
        header.set_numbers(name, found, array.tobytes())

    def add_tensor(self, tensor: _core.Tensor, name: str | None = None) -> None:
        """Adds a tensor that has memory (``gguf_add_tensor``), under its own name or another.

        The writer keeps it alive; :meth:`write` reads the data it has then.

        Raises :class:`ggml.GgmlError` for a tensor that has no memory or is not contiguous; ValueError for a
        name that is empty, longer than 63 bytes or there already.
        """
        self._open()
        _core.check_readable(tensor)
        name = tensor.name if name is None else name
        self._add(name, tensor.type, tensor.ne, lambda size: _parts_of_tensor(tensor, size))

    def add_array(self, name: str, array: npt.NDArray[Any]) -> None:
        """Adds a tensor from an array of one to four dimensions; its ``ne`` is the reversed shape.

        A contiguous array is not copied: what it holds when the file is written counts.

        Raises TypeError for a dtype that no ggml type stands for; ValueError as :meth:`add_tensor`.
        """
        self._open()
        dtype = array.dtype.newbyteorder("=")
        if dtype not in _TENSOR_TYPES:
            raise TypeError(
                f"tensor {name!r}: ggml has no type for {array.dtype}; use add_bytes for other types"
            )
        values = np.ascontiguousarray(array, dtype)
        self._add(
            name, _TENSOR_TYPES[dtype], values.shape[::-1], lambda size: _parts_of_bytes(values.data, size)
        )

    def add_bytes(self, name: str, type: Type | int, ne: Sequence[int], data: Data) -> None:
        """Adds a tensor of any type from its bytes, those of :func:`ggml.quantize` for instance.

        ``ne`` is in ggml's order. ``data`` is a contiguous buffer, which is not copied, or a function that
        gives the bytes in parts when the file is written: so tensors larger than memory can be written.

        Raises ValueError for a buffer of another size than type and ``ne`` ask for, and as
        :meth:`add_tensor`.
        """
        self._open()
        if callable(data):
            self._add(name, type, ne, lambda size: data())
            return
        view = memoryview(data)
        if not view.c_contiguous:
            raise ValueError(f"tensor {name!r}: the data is not contiguous")
        self._add(name, type, ne, lambda size: _parts_of_bytes(view, size), view.nbytes)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file: all of it or, when something fails, nothing.

        It is written beside ``path`` and renamed at the end; a file that was there is replaced and its
        permissions are kept. May be called again.

        Raises OSError as the system does; :class:`ggml.GgmlError` when a tensor's memory is gone; ValueError
        when a function gave more or fewer bytes than its tensor has.
        """
        with self._lock:
            header = self._open().contents()
            if self._unfinished is not None:
                raise GgmlError(
                    f"adding tensor {self._unfinished!r} was interrupted: begin anew with another GgufWriter"
                )
            self._writing = True
            try:
                with replacing(path) as temporary, open(temporary, "wb") as file:
                    file.write(header)
                    for name, size, parts in self._tensors:
                        _write_tensor(file, name, size, parts())
                        file.write(b"\0" * (-size % self._alignment))
            finally:
                self._writing = False

    def _add(
        self,
        name: str,
        type: int,
        ne: Sequence[int],
        parts: Callable[[int], Iterable[SupportsBuffer]],
        given: int | None = None,
    ) -> None:
        """Adds a tensor whose data ``parts(size)`` gives; ``given``: bytes that are known to be there."""
        with self._lock:
            header = self._open()
            if self._writing:
                raise GgmlError("this GgufWriter is writing: a data function cannot add a tensor")
            self._unfinished = name
            try:
                size = header.add_tensor(_encode(name), type, list(ne), given)
            except (ValueError, TypeError, GgmlError) as error:
                self._unfinished = None
                if isinstance(error, TypeError):
                    raise
                raise ValueError(f"tensor {name!r}: {error}") from None
            self._tensors.append((name, size, lambda: parts(size)))
            self._unfinished = None

    def _open(self) -> _core.GgufHeader:
        if self._header is None:
            raise GgmlError("this GgufWriter is closed")
        return self._header


def _encode(value: str) -> bytes:
    """UTF-8; bytes of a file that were not, escaped when it was read, become those bytes again."""
    return value.encode("utf-8", "surrogateescape")


def _require(wanted: GgufType | None, found: GgufType, value: object) -> None:
    if wanted not in (None, found):
        raise TypeError(f"{value!r} is not of type {wanted.name if wanted is not None else ''}")


def _numbers(
    values: Sequence[Any] | npt.NDArray[Any], wanted: GgufType | None
) -> tuple[npt.NDArray[Any], GgufType]:
    """The values as an array of a GGUF type: the wanted one, or the one that they have."""
    found = _type_of(values) if wanted is None else wanted
    dtype = _DTYPES[found]
    if len(values) == 0:
        return np.empty(0, dtype), found
    is_array = isinstance(values, np.ndarray)
    kinds = {values.dtype.kind} if isinstance(values, np.ndarray) else {_kind(v) for v in values}
    if not kinds <= set(_ACCEPTED[dtype.kind]):
        raise TypeError(f"{_shown(values)} is not of type {found.name}")
    if dtype.kind in "iu":
        # NumPy would wrap, or make floats of large integers.
        low, high = (int(f(values)) for f in ((np.min, np.max) if is_array else (min, max)))
        limits = np.iinfo(dtype)
        if low < limits.min or high > limits.max:
            raise ValueError(f"{low if low < limits.min else high} is not in the range of {found.name}")
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype)
        if dtype.kind == "f" and not np.array_equal(np.isinf(array), np.isinf(np.array(values, np.float64))):
            raise OverflowError
    except OverflowError:
        raise ValueError(f"{_shown(values)} is not in the range of {found.name}") from None
    return array, found


def _type_of(values: Sequence[Any] | npt.NDArray[Any]) -> GgufType:
    if isinstance(values, np.ndarray):
        dtypes = {values.dtype.newbyteorder("=")}
    else:
        dtypes = {_dtype(v) for v in values}
    if not dtypes:
        raise TypeError("an empty array needs a type: type=GgufType.UINT32, for instance")
    if len(dtypes) > 1:
        raise TypeError("values of several types in one array need a type")
    dtype = dtypes.pop()
    if dtype not in _GGUF_TYPES:
        raise TypeError(f"{dtype} is not a type of GGUF")
    return _GGUF_TYPES[dtype]


def _dtype(value: object) -> np.dtype[Any]:
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, (bool, float)):
        return np.dtype(np.bool_ if isinstance(value, bool) else np.float64)
    if isinstance(value, int):
        raise TypeError("an int needs a type: type=GgufType.UINT32, for instance")
    raise TypeError(f"{value!r} is not a number")


def _kind(value: object) -> str:
    if isinstance(value, np.generic):
        return value.dtype.kind
    for type, kind in ((bool, "b"), (int, "i"), (float, "f")):
        if isinstance(value, type):
            return kind
    raise TypeError(f"{value!r} is not a number")


def _shown(values: Sequence[Any] | npt.NDArray[Any]) -> str:
    return repr(values[0]) if len(values) == 1 else f"an array like {values[:3]!r}"


def _write_tensor(file: BinaryIO, name: str, size: int, parts: Iterable[SupportsBuffer]) -> None:
    written = 0
    for part in parts:
        view = memoryview(part)
        written += view.nbytes
        if written > size:
            break
        file.write(view)
    if written != size:
        more = "more than that" if written > size else written
        raise ValueError(f"tensor {name!r} takes {size} bytes, the function gave {more}")


def _parts_of_tensor(tensor: _core.Tensor, size: int) -> Iterator[bytes]:
    offset = 0
    while offset < size:
        part = _core.tensor_bytes(tensor, offset, _PART)
        yield part
        offset += len(part)


def _parts_of_bytes(view: memoryview, size: int) -> Iterator[memoryview]:
    if size > 0:  # Python cannot cast a view with a dimension of 0
        yield view.cast("B")
