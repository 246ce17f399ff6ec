"""A GGUF model file, mapped once, its weights in backend buffers."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import asr._core as _core
import ggml
from asr.convert.tensors import is_matmul
from asr.errors import ModelFormatError, ModelNotFoundError


class ModelLoader:
    """Maps a GGUF file and places its weights.

    ``device`` is where the encoder's weights live: ``"cpu"`` (in the memory map itself, without a copy) or a
    name of :func:`ggml.devices`. The decoders' weights stay on the CPU, where decoding runs.

    Matrices keep the type they are stored in. A type that ggml's CPU cannot multiply by, and every small
    tensor (biases, norms, convolution kernels) that is not float32, is converted to float32 once.

    Raises :class:`asr.ModelNotFoundError` and :class:`asr.ModelFormatError`.
    """

    def __init__(self, path: str | os.PathLike[str], device: str = "cpu") -> None:
        self.path = Path(path)
        self.device = device
        # Do layers over these weights use our own kernels? They compute on the CPU, if it has a set of them.
        self.fused = device.lower() == "cpu" and _core.kernel_sets()[0] != "reference"
        self._file = _map_gguf(self.path)
        self.metadata: Mapping[str, Any] = self._file.metadata()
        self._stored: dict[str, ggml.Tensor] = self._file.tensors()
        self._weights: dict[str, ggml.Tensor] = {}
        self._realized = False
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._stored or name in self._weights

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """PyTorch shape of every stored tensor; leading dimensions of 1 are lost by ggml."""
        return {name: tensor.shape for name, tensor in self._stored.items()}

    @property
    def type_counts(self) -> dict[str, int]:
        """How many tensors are stored in each type."""
        counts: dict[str, int] = {}
        for tensor in self._stored.values():
            name = ggml.type_info(tensor.type).name
            counts[name] = counts.get(name, 0) + 1
        return counts

    def weight(self, name: str) -> ggml.Tensor:
        """The weight in its place; ``KeyError`` when there is none of that name."""
        if not self._realized:
            self.realize_weights()
        return self._weights[name]

    def realize_weights(self) -> None:
        """Gives every weight a backend buffer: the memory map on the CPU, an upload elsewhere. Idempotent."""
        with self._lock:
            if self._realized:
                return
            self._file.map_tensors()
            self._weights |= self._stored
            self._place(
                {
                    name: self._to_float32(name, tensor)
                    for name, tensor in self._stored.items()
                    if not _usable(name, tensor)
                }
            )
            if self.device.lower() != "cpu":
                self._upload([name for name in self._stored if name.startswith("encoder.")])
            self._realized = True

    def add_derived(self, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Adds float32 weights computed from stored ones (folded norms, transposed kernels)."""
        self._place(arrays, self.device)

    def _to_float32(self, name: str, tensor: ggml.Tensor) -> npt.NDArray[np.float32]:
        try:
            return tensor.to_float32()
        except ggml.GgmlError as error:  # q8_1 and q8_K, which are for intermediate results
            raise ModelFormatError(f"{self.path}: the weight {name} cannot be used: {error}") from None

    def _place(self, arrays: Mapping[str, npt.NDArray[np.float32]], device: str = "cpu") -> None:
        if not arrays:
            return
        context = ggml.Context(len(arrays) * ggml.tensor_overhead())
        tensors = {}
        for name, array in arrays.items():
            tensors[name] = context.new_tensor(ggml.Type.F32, list(reversed(array.shape)))
            tensors[name].name = name[-63:]
        ggml.alloc_ctx_tensors(context, ggml.Backend(device))
        for name, tensor in tensors.items():
            tensor.set(np.ascontiguousarray(arrays[name], dtype=np.float32))
        self._weights |= tensors

    def _upload(self, names: list[str]) -> None:
        context = ggml.Context(len(names) * ggml.tensor_overhead())
        copies = {}
        for name in names:
            source = self._weights[name]
            copies[name] = context.new_tensor(source.type, list(source.ne))
            copies[name].name = name[-63:]
        ggml.alloc_ctx_tensors(context, ggml.Backend(self.device))
        for name, copy in copies.items():
            ggml.tensor_copy(self._weights[name], copy)
        self._weights |= copies


def _usable(name: str, tensor: ggml.Tensor) -> bool:
    """Whether the computation can use a tensor as it is stored."""
    return tensor.type == ggml.Type.F32 or (is_matmul(name) and ggml.can_mul_mat(tensor.type))


def _map_gguf(path: Path) -> ggml.GgufFile:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise ModelFormatError(f"{path} is empty; it should be a GGUF model file")
            magic = file.read(4)
            if magic != b"GGUF":
                raise ModelFormatError(
                    f"{path} is not a GGUF model file (it begins with {magic!r}); "
                    "NeMo checkpoints (.nemo) are converted with `asr convert`"
                )
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelNotFoundError(f"there is no model file {path}") from None
    except IsADirectoryError:
        raise ModelNotFoundError(f"{path} is a folder, not a model file") from None
    except OSError as error:
        raise ModelNotFoundError(f"cannot read the model file {path}: {error.strerror or error}") from None
    try:
        return ggml.GgufFile(memory)
    except ggml.GgmlError as error:
        raise ModelFormatError(f"{path}: {error}") from None
