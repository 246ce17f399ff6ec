"""ggml for Python: contexts, tensors, operators, backends and GGUF files, with NumPy at the border.

Sizes of tensors are given in ggml's order (``ne``: the fastest running dimension first); ``Tensor.shape`` is
the same in NumPy's order. Operators take the context of the graph under construction first, as in C.
"""

from __future__ import annotations

from ggml._locate import built_package

__path__ = built_package(__name__, __path__)

from ggml._load import prepare

prepare()

from ggml import _core  # noqa: E402  (only after prepare)
from ggml._log import route  # noqa: E402
from ggml.devices import (  # noqa: E402
    DeviceCaps,
    DeviceProps,
    best_backend,
    device,
    devices,
    load_all_backends,
    load_backend,
    register,
    register_device,
    registries,
    registry,
)
from ggml.enums import BufferUsage, DeviceType, SplitAxis  # noqa: E402
from ggml.errors import Cancelled, GgmlError, UnsupportedError, UnsupportedProcessorError  # noqa: E402
from ggml.gguf_writer import GgufType, GgufWriter  # noqa: E402
from ggml.meta import Split, SplitInfo, meta_device  # noqa: E402
from ggml.types import Type, TypeInfo, type_info  # noqa: E402

route()

__all__ = [
    "Backend",
    "Buffer",
    "BufferType",
    "BufferUsage",
    "Cancelled",
    "Context",
    "Device",
    "DeviceCaps",
    "DeviceProps",
    "DeviceType",
    "Event",
    "Gallocr",
    "GgmlError",
    "GgufFile",
    "GgufTensorInfo",
    "GgufType",
    "GgufWriter",
    "Graph",
    "GraphPlan",
    "MultiBuffer",
    "Registry",
    "Sched",
    "Split",
    "SplitAxis",
    "SplitInfo",
    "Tensor",
    "Threadpool",
    "Type",
    "TypeInfo",
    "UnsupportedError",
    "UnsupportedProcessorError",
    "add",
    "alloc_ctx_tensors",
    "best_backend",
    "can_mul_mat",
    "cast",
    "concat",
    "cont",
    "conv_2d_dw_direct",
    "copy_async",
    "cpu_features",
    "cpu_vector_bytes",
    "cpy",
    "dequantize",
    "device",
    "devices",
    "div",
    "get_rows",
    "graph_overhead",
    "im2col",
    "load_all_backends",
    "load_backend",
    "meta_device",
    "mul",
    "mul_mat",
    "norm",
    "pad_ext",
    "permute",
    "quantize",
    "quantize_requires_imatrix",
    "register",
    "register_device",
    "registries",
    "registry",
    "relu",
    "reshape_1d",
    "reshape_2d",
    "reshape_3d",
    "reshape_4d",
    "scale",
    "sigmoid",
    "silu",
    "soft_max_ext",
    "sub",
    "tanh",
    "tensor_copy",
    "tensor_overhead",
    "transpose",
    "type_info",
    "view_1d",
    "view_2d",
    "view_3d",
    "view_4d",
]

Backend = _core.Backend
Buffer = _core.Buffer
Context = _core.Context
Device = _core.Device
Gallocr = _core.Gallocr
GgufFile = _core.GgufFile
GgufTensorInfo = _core.GgufTensorInfo
Graph = _core.Graph
Tensor = _core.Tensor
copy_async = _core.copy_async
Threadpool = _core.Threadpool
Sched = _core.Sched
Registry = _core.Registry
MultiBuffer = _core.MultiBuffer
GraphPlan = _core.GraphPlan
Event = _core.Event
BufferType = _core.BufferType

add = _core.add
alloc_ctx_tensors = _core.alloc_ctx_tensors
can_mul_mat = _core.can_mul_mat
cast = _core.cast
concat = _core.concat
cont = _core.cont
conv_2d_dw_direct = _core.conv_2d_dw_direct
cpu_features = _core.cpu_features
cpu_vector_bytes = _core.cpu_vector_bytes
cpy = _core.cpy
dequantize = _core.dequantize
div = _core.div
get_rows = _core.get_rows
graph_overhead = _core.graph_overhead
im2col = _core.im2col
mul = _core.mul
mul_mat = _core.mul_mat
norm = _core.norm
pad_ext = _core.pad_ext
permute = _core.permute
quantize = _core.quantize
quantize_requires_imatrix = _core.quantize_requires_imatrix
relu = _core.relu
reshape_1d = _core.reshape_1d
reshape_2d = _core.reshape_2d
reshape_3d = _core.reshape_3d
reshape_4d = _core.reshape_4d
scale = _core.scale
sigmoid = _core.sigmoid
silu = _core.silu
soft_max_ext = _core.soft_max_ext
sub = _core.sub
tanh = _core.tanh
tensor_copy = _core.tensor_copy
tensor_overhead = _core.tensor_overhead
transpose = _core.transpose
view_1d = _core.view_1d
view_2d = _core.view_2d
view_3d = _core.view_3d
view_4d = _core.view_4d
