"""Writes the GGUF: header first, then one tensor after the other, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from asr.convert.metadata import Entry
from asr.convert.tensors import StoredTensor
from asr.errors import ModelFormatError, OutputError
from ggml import _files

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter


def write_gguf(
    path: Path,
    entries: Sequence[Entry],
    tensors: Sequence[StoredTensor],
    read: Callable[[str], npt.NDArray[np.float32]],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Writes a GGUF file of architecture ``parakeet``; one tensor is in memory at a time.

    :param read: gives a tensor of the checkpoint as float32 by its name there.
    :param progress: called with the number of tensors written and their total.
    :raises OSError: the file cannot be written.
    :raises ModelFormatError: a value does not fit the type (or what ``read`` raises).
    """
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "parakeet")
    for entry in entries:
        _add_entry(writer, entry)
    for tensor in tensors:
        kind = _type(tensor)
        writer.add_tensor_info(
            tensor.name, tensor.shape, np.dtype(np.float32), _size(tensor.shape, kind), raw_dtype=kind
        )
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for done, tensor in enumerate(tensors):
            if progress is not None:
                progress(done, len(tensors))
            writer.write_tensor_data(_encode(read(tensor.source).reshape(tensor.shape), tensor))
        if progress is not None:
            progress(len(tensors), len(tensors))
        writer.flush()
    finally:
        # Closing flushes, which fails where writing failed; the first error is the one to report.
        for file in writer.fout or []:
            file.close()


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A path beside ``destination`` to write to; it becomes ``destination`` at the end, or is removed.

    :raises OutputError: ``destination`` is a folder or a device, its folder is missing, or an OSError came
        from inside.
    """
    try:
        with _files.replacing(destination) as temporary:
            yield Path(temporary)
    except OSError as error:
        # numpy, which writes the tensors, does not pass the system's reason on.
        reason = error.strerror or f"{error} (is the disk full?)"
        raise OutputError(f"{destination} cannot be written: {reason}") from error


def _type(tensor: StoredTensor) -> GGMLQuantizationType:
    from gguf import GGMLQuantizationType

    return GGMLQuantizationType[tensor.type.upper()]


def _size(shape: tuple[int, ...], kind: GGMLQuantizationType) -> int:
    from gguf import GGML_QUANT_SIZES

    block, size = GGML_QUANT_SIZES[kind]
    count = 1
    for n in shape:
        count *= n
    return count // block * size


def _encode(values: npt.NDArray[np.float32], tensor: StoredTensor) -> npt.NDArray[Any]:
    """The values in the tensor's type: float32, float16, or rows of Q8_0 blocks as bytes."""
    if tensor.type == "f32":
        return values
    if tensor.type == "f16":
        with np.errstate(over="ignore"):
            halves = values.astype(np.float16)
        if np.isinf(halves).any() and not np.isinf(values).any():
            raise ModelFormatError(f"{tensor.source} has values over 65504, which f16 cannot hold; use f32")
        return halves
    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    return quantize(values, GGMLQuantizationType.Q8_0)


def _add_entry(writer: GGUFWriter, entry: Entry) -> None:
    from gguf import GGUFValueType

    scalars = {
        "str": GGUFValueType.STRING,
        "u32": GGUFValueType.UINT32,
        "i32": GGUFValueType.INT32,
        "f32": GGUFValueType.FLOAT32,
        "bool": GGUFValueType.BOOL,
    }
    items = {"str[]": GGUFValueType.STRING, "i32[]": GGUFValueType.INT32, "u8[]": GGUFValueType.UINT8}
    if entry.kind in scalars:
        writer.add_key_value(entry.key, entry.value, scalars[entry.kind])
    else:
        writer.add_key_value(entry.key, entry.value, GGUFValueType.ARRAY, sub_type=items[entry.kind])
