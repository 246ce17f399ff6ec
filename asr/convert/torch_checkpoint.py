"""PyTorch's checkpoint file (the zip format of ``torch.save``), read one tensor at a time without PyTorch."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt

from asr.convert.checkpoint_pickle import Storage, TensorView, load_state_dict
from asr.errors import ModelFormatError

# 700 tensors need about 100 kB; more than this is no state dict.
_INDEX_LIMIT = 64 << 20

_DAMAGED = (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError, OSError)

# bfloat16 has no numpy type: the upper half of a float32.
_NUMPY = {
    "float32": "f4",
    "float64": "f8",
    "float16": "f2",
    "bfloat16": "u2",
    "int64": "i8",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint8": "u1",
    "bool": "u1",
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An open checkpoint: ``tensors`` says what is there, :meth:`read` fetches one."""

    label: str
    tensors: dict[str, TensorView]
    _zip: zipfile.ZipFile
    _prefix: str
    _byteorder: str

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """One tensor as float32, C-contiguous, whatever its type and strides in the file.

        Only the bytes that the tensor spans are held in memory.

        :raises KeyError: no tensor of that name.
        :raises ModelFormatError: its bytes are damaged or missing.
        """
        view = self.tensors[name]
        if 0 in view.shape:
            return np.zeros(view.shape, np.float32)
        dtype = _dtype(view.storage, self._byteorder)
        span = 1 + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
        data = self._read_bytes(name, view.storage, view.offset * dtype.itemsize, span * dtype.itemsize)
        flat = np.frombuffer(data, dtype)
        strided = np.lib.stride_tricks.as_strided(
            flat, view.shape, [step * dtype.itemsize for step in view.strides], writeable=False
        )
        if view.storage.dtype == "bfloat16":
            widened: npt.NDArray[np.uint32] = strided.astype(np.uint32, order="C") << np.uint32(16)
            return widened.view(np.float32)
        return np.array(strided, np.float32, order="C")

    def _read_bytes(self, name: str, storage: Storage, start: int, count: int) -> bytes:
        try:
            with self._zip.open(f"{self._prefix}data/{storage.key}") as stream:
                # Read from its beginning to its end, a storage has its checksum verified by zipfile.
                if start:
                    stream.seek(start)
                data = stream.read(count)
                stream.read(1)
        except (*_DAMAGED, KeyError) as error:
            raise ModelFormatError(f"{self.label}: the values of {name} are damaged: {error}") from error
        if len(data) != count:
            raise ModelFormatError(f"{self.label}: {name} has {len(data)} bytes where {count} should be")
        return data


def open_checkpoint(stream: IO[bytes], label: str) -> Checkpoint:
    """Reads the index of a checkpoint from a seekable stream, which has to stay open while tensors are read.

    :param label: names the file in messages.
    :raises ModelFormatError: no zip checkpoint, damaged, something in it that is no tensor, or a tensor
        that is larger than the bytes stored for it.
    """
    try:
        magic = stream.read(4)
        stream.seek(0)
        if magic != b"PK\x03\x04":
            raise ModelFormatError(_not_zip(magic, label))
        archive = zipfile.ZipFile(stream)
        entries = {entry.filename: entry for entry in archive.infolist()}
        roots = [name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise ModelFormatError(
                f"{label} is a zip file but no PyTorch checkpoint: there is no data.pkl in it"
            )
        prefix = roots[0].removesuffix("data.pkl")
        if entries[roots[0]].file_size > _INDEX_LIMIT:
            raise ModelFormatError(
                f"{label}: its index has {entries[roots[0]].file_size} bytes: no state dict"
            )
        index = archive.read(roots[0])
        order = archive.read(f"{prefix}byteorder") if f"{prefix}byteorder" in entries else b"little"
    except _DAMAGED as error:
        raise ModelFormatError(f"{label} is damaged or truncated: {error}; download it again") from error
    tensors = load_state_dict(index, label)
    for name, view in tensors.items():
        _check_storage(entries.get(f"{prefix}data/{view.storage.key}"), name, view.storage, label)
    return Checkpoint(label, tensors, archive, prefix, ">" if order.strip() == b"big" else "<")


def _dtype(storage: Storage, byteorder: str) -> np.dtype[np.generic]:
    return np.dtype(byteorder + _NUMPY[storage.dtype])


def _check_storage(entry: zipfile.ZipInfo | None, name: str, storage: Storage, label: str) -> None:
    """Every storage is there, uncompressed (as torch writes them), with the bytes that it claims.

    So no tensor can be larger than the file, and memory is bounded by what is on the disk.
    """
    if entry is None:
        raise ModelFormatError(f"{label}: the values of {name} are missing (storage {storage.key!r})")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ModelFormatError(f"{label}: the values of {name} are compressed, which torch.save never does")
    need = storage.count * _dtype(storage, "<").itemsize
    if entry.file_size < need:
        raise ModelFormatError(
            f"{label}: the storage of {name} should have {need} bytes ({storage.count} {storage.dtype} "
            f"values) and has {entry.file_size}"
        )


def _not_zip(magic: bytes, label: str) -> str:
    if magic.startswith(b"\x80\x02"):
        return (
            f"{label} is in PyTorch's format from before version 1.6, which is not read; load it with "
            "torch.load and save it again with torch.save of a newer PyTorch (in NeMo: restore_from, save_to)"
        )
    return f"{label} is no PyTorch checkpoint (it begins with {magic!r})"
