"""ggml for Python: contexts, tensors, operators, backends and GGUF files, with NumPy at the border.

Sizes of tensors are given in ggml's order (``ne``: the fastest running dimension first); ``Tensor.shape`` is
the same in NumPy's order. Operators take the context of the graph under construction first, as in C.
"""

from __future__ import annotations

from ggml._locate import built_package

__path__ = built_package(__name__, __path__)

from ggml._load import prepare

prepare()

from ggml import _core, ops  # noqa: E402  (only after prepare)
from ggml.errors import GgmlError, UnsupportedProcessorError  # noqa: E402
from ggml.op_enums import (  # noqa: E402
    GluOp,
    Pool,
    Prec,
    RopeMode,
    ScaleFlag,
    ScaleMode,
    SortOrder,
    TriType,
    UnaryOp,
)
from ggml.ops import *  # noqa: E402
from ggml.types import Type, TypeInfo, type_info  # noqa: E402

__all__ = [
    "Backend",
    "Buffer",
    "Context",
    "Device",
    "Gallocr",
    "GgmlError",
    "GgufFile",
    "GluOp",
    "Graph",
    "Pool",
    "Prec",
    "RopeMode",
    "ScaleFlag",
    "ScaleMode",
    "SortOrder",
    "Tensor",
    "TriType",
    "Type",
    "TypeInfo",
    "UnaryOp",
    "UnsupportedProcessorError",
    "alloc_ctx_tensors",
    "can_mul_mat",
    "devices",
    "graph_overhead",
    "quantize",
    "tensor_copy",
    "tensor_overhead",
    "type_info",
]
__all__ += ops.__all__

Backend = _core.Backend
Buffer = _core.Buffer
Context = _core.Context
Device = _core.Device
Gallocr = _core.Gallocr
GgufFile = _core.GgufFile
Graph = _core.Graph
Tensor = _core.Tensor

alloc_ctx_tensors = _core.alloc_ctx_tensors
can_mul_mat = _core.can_mul_mat
devices = _core.devices
graph_overhead = _core.graph_overhead
quantize = _core.quantize
tensor_copy = _core.tensor_copy
tensor_overhead = _core.tensor_overhead
