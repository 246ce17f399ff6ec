"""ggml for Python: devices, backends, tensors, operators and GGUF files, with NumPy at the border.

Sizes of tensors are given in ggml's order (``ne``: the fastest running dimension first); ``Tensor.shape`` is
the same in NumPy's order. Operators take the context of the graph under construction first, as in C.
"""

from __future__ import annotations

from ggml._locate import built_package

__path__ = built_package(__name__, __path__)

from ggml._load import prepare

prepare()

# Only after prepare().
from ggml import ops  # noqa: E402
from ggml._core import (  # noqa: E402
    Backend,
    Buffer,
    BufferType,
    Context,
    Device,
    Event,
    Gallocr,
    GgufFile,
    GgufTensorInfo,
    Graph,
    GraphPlan,
    MultiBuffer,
    Registry,
    Sched,
    Tensor,
    Threadpool,
    alloc_ctx_tensors,
    can_mul_mat,
    copy_async,
    cpu_features,
    cpu_vector_bytes,
    dequantize,
    graph_overhead,
    quantize,
    quantize_requires_imatrix,
    tensor_copy,
    tensor_overhead,
)
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
from ggml.errors import (  # noqa: E402
    Cancelled,
    GgmlError,
    OutOfMemoryError,
    UnsupportedError,
    UnsupportedProcessorError,
)
from ggml.gguf_writer import GgufType, GgufWriter  # noqa: E402
from ggml.meta import Split, SplitInfo, meta_device  # noqa: E402
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
    "GluOp",
    "Graph",
    "GraphPlan",
    "MultiBuffer",
    "OutOfMemoryError",
    "Pool",
    "Prec",
    "Registry",
    "RopeMode",
    "ScaleFlag",
    "ScaleMode",
    "Sched",
    "SortOrder",
    "Split",
    "SplitAxis",
    "SplitInfo",
    "Tensor",
    "Threadpool",
    "TriType",
    "Type",
    "TypeInfo",
    "UnaryOp",
    "UnsupportedError",
    "UnsupportedProcessorError",
    "alloc_ctx_tensors",
    "best_backend",
    "can_mul_mat",
    "copy_async",
    "cpu_features",
    "cpu_vector_bytes",
    "dequantize",
    "device",
    "devices",
    "graph_overhead",
    "load_all_backends",
    "load_backend",
    "meta_device",
    "quantize",
    "quantize_requires_imatrix",
    "register",
    "register_device",
    "registries",
    "registry",
    "tensor_copy",
    "tensor_overhead",
    "type_info",
]
__all__ += ops.__all__
