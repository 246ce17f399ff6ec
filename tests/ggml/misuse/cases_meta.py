"""The meta device: bad splits, split functions that raise, and memory whose addresses are made up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import case, context, doubling, f32, graph_of

import ggml
from ggml import GgmlError, Split, SplitAxis, SplitInfo, Type, UnsupportedError

CPU = ggml.device("CPU")
X = doubling()


def mirrored(info: SplitInfo, n: int) -> SplitAxis:
    return SplitAxis.MIRRORED


def on_meta(answer: object, type: Type = Type.F32, ne: tuple[int, ...] = (64, 8)) -> ggml.Tensor:
    """A tensor with memory on two CPUs, split as `answer` says."""
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], lambda info, n: answer))  # type: ignore[arg-type,return-value]
    ctx = context()
    x = ctx.new_tensor(type, list(ne))
    ggml.alloc_ctx_tensors(ctx, backend)
    return x


@case(ValueError, match="1 to 16")
def meta_device_of_none() -> None:
    ggml.meta_device([], mirrored)


@case(ValueError, match="1 to 16")
def meta_device_of_17() -> None:
    ggml.meta_device([CPU] * 17, mirrored)


SPLITS: dict[str, Callable[[], object]] = {
    "sum_too_small": lambda: on_meta(Split(1, [4, 3])),
    "sum_too_large": lambda: on_meta(Split(1, [8, 8])),
    "negative": lambda: on_meta(Split(1, [-1, 9])),
    "axis_4": lambda: on_meta(Split(4, [4, 4])),
    "axis_minus_1": lambda: on_meta(Split(-1, [4, 4])),
    "axis_partial": lambda: on_meta(Split(11, [4, 4])),
    "axis_none": lambda: on_meta(Split(98, [4, 4])),
    "axis_unknown": lambda: on_meta(Split(99, [4, 4])),
    "axis_without_sizes": lambda: on_meta(SplitAxis.AXIS_1),
    "one_size_for_two_devices": lambda: on_meta(Split(1, [8])),
    "three_sizes_for_two_devices": lambda: on_meta(Split(1, [4, 2, 2])),
    "sizes_for_mirrored": lambda: on_meta(Split(10, [4, 4])),
    "17_segments": lambda: on_meta(Split(0, [2, 2] * 16 + [0, 0])),
    "no_repeats_for_a_segment": lambda: on_meta(Split(1, [2, 2, 2, 2], [1])),
    "repeat_of_zero": lambda: on_meta(Split(1, [4, 4], [0])),
    "repeat_too_large": lambda: on_meta(Split(1, [4, 4], [2])),
    "cut_block": lambda: on_meta(Split(0, [16, 48]), Type.Q8_0),
    "product_that_wraps": lambda: on_meta(Split(1, [1 << 62, 8], [4])),
}
for key, action in SPLITS.items():
    case(ValueError, name=f"split_{key}")(action)


@case(TypeError, match="Split")
def split_that_is_none() -> None:
    on_meta(None)


@case(TypeError, ValueError, RuntimeError)
def split_size_beyond_64_bits() -> None:
    on_meta(Split(1, [1 << 70, 8]))


@case(TypeError, ValueError, RuntimeError)
def split_repeat_that_is_negative() -> None:
    on_meta(Split(1, [4, 4], [-1]))


@case(ZeroDivisionError)
def split_function_that_raises_at_allocation() -> None:
    def split(info: SplitInfo, n: int) -> SplitAxis:
        raise ZeroDivisionError

    ctx = context()
    x = f32(ctx, 4)
    try:
        ggml.alloc_ctx_tensors(ctx, ggml.Backend(ggml.meta_device([CPU, CPU], split)))
    finally:
        assert not x.is_allocated


def raising_later() -> tuple[ggml.Backend, ggml.Graph, ggml.Tensor, list[bool]]:
    armed = [False]

    def split(info: SplitInfo, n: int) -> SplitAxis:
        if armed[0]:
            raise ZeroDivisionError
        return SplitAxis.MIRRORED

    backend = ggml.Backend(ggml.meta_device([CPU, CPU], split))
    weights, ctx = context(), context()
    x = f32(weights, 4)
    graph = graph_of(ctx, ggml.scale(ctx, x, 2.0))
    ggml.alloc_ctx_tensors(weights, backend)
    ggml.Gallocr(backend).alloc_graph(graph)
    armed[0] = True
    return backend, graph, x, armed


def split_then_raising() -> tuple[ggml.Backend, ggml.Tensor, list[bool]]:
    armed = [False]

    def split(info: SplitInfo, n: int) -> Split:
        if armed[0]:
            raise ZeroDivisionError
        return Split(1, [4, 4])

    backend = ggml.Backend(ggml.meta_device([CPU, CPU], split))
    ctx = context()
    x = f32(ctx, 4, 8)
    ggml.alloc_ctx_tensors(ctx, backend)
    armed[0] = True
    return backend, x, armed


COUNT = np.arange(32, dtype=np.float32).reshape(8, 4)


@case(ZeroDivisionError)
def split_function_that_raises_when_a_tensor_is_written() -> None:
    _, x, armed = split_then_raising()
    try:
        x.set(COUNT)
    finally:  # the tensor is as it was split
        armed[0] = False
        x.set(COUNT)
        assert (x.get() == COUNT).all()


@case(ZeroDivisionError)
def split_function_that_raises_when_a_tensor_is_read() -> None:
    _, x, _ = split_then_raising()
    x.get()


@case(ZeroDivisionError)
def split_function_that_raises_in_an_asynchronous_copy() -> None:
    backend, x, _ = split_then_raising()
    backend.set_async(x, COUNT)


@case(ZeroDivisionError)
def split_function_that_raises_when_a_graph_is_computed() -> None:
    backend, x, armed = split_then_raising()
    ctx = context()
    y = ggml.scale(ctx, x, 2.0)
    graph = graph_of(ctx, y)
    try:
        ggml.Gallocr(backend).alloc_graph(graph)
        backend.compute(graph)
    finally:
        armed[0] = False
        ggml.Gallocr(backend).alloc_graph(graph)
        x.set(COUNT)
        backend.compute(graph)
        assert (y.get() == 2 * COUNT).all()


@case(match="computing on this thread")
def split_function_that_uses_the_backend_that_asks() -> None:
    made: list[ggml.Backend] = []

    def split(info: SplitInfo, n: int) -> SplitAxis:
        if made:
            made[0].synchronize()
        return SplitAxis.MIRRORED

    weights, ctx = context(), context()
    x = f32(weights, 4)
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], split))
    ggml.alloc_ctx_tensors(weights, backend)
    graph = graph_of(ctx, ggml.scale(ctx, x, 2.0))
    ggml.Gallocr(backend).alloc_graph(graph)
    made.append(backend)
    backend.set_async(x, np.ones(4, np.float32))


@case(ValueError, match="another one than when")
def split_function_that_changes_its_mind() -> None:
    answers = [Split(1, [4, 4])]
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], lambda info, n: answers[-1]))
    ctx = context()
    x = f32(ctx, 64, 8)
    ggml.alloc_ctx_tensors(ctx, backend)
    answers.append(Split(0, [64, 0]))
    x.set(np.zeros((8, 64), np.float32))


@case()
def splits_that_do_not_fit_together() -> None:
    # Both factors of a product split along the summed axis, but at different places.
    def split(info: SplitInfo, n: int) -> Split | SplitAxis:
        if info.name == "w":
            return Split(0, [32, 32])
        return Split(0, [16, 48]) if info.name == "x" else SplitAxis.MIRRORED

    backend = ggml.Backend(ggml.meta_device([CPU, CPU], split))
    weights, ctx = context(), context()
    w, x = f32(weights, 64, 8), f32(weights, 64, 4)
    w.name, x.name = "w", "x"
    ggml.alloc_ctx_tensors(weights, backend)
    graph = graph_of(ctx, ggml.scale(ctx, ggml.mul_mat(ctx, w, x), 1.0))
    ggml.Gallocr(backend).alloc_graph(graph)
    w.set(np.ones((8, 64), np.float32))
    x.set(np.ones((4, 64), np.float32))
    backend.compute(graph)


# Memory of a meta device


@case(match="cannot use")
def cpu_computes_on_a_meta_device() -> None:
    x = on_meta(SplitAxis.MIRRORED)
    ctx = context()
    backend = ggml.Backend()
    graph = graph_of(ctx, ggml.relu(ctx, x))
    ggml.alloc_ctx_tensors(ctx, backend)
    backend.compute(graph)


@case(match="host memory")
def array_over_a_meta_device() -> None:
    on_meta(SplitAxis.MIRRORED).numpy()


@case(UnsupportedError)
def copy_async_into_a_meta_device() -> None:
    x = on_meta(SplitAxis.MIRRORED, ne=(4,))
    ggml.copy_async(X.backend, X.backend, X.x, x)


@case(UnsupportedError)
def copy_async_out_of_a_meta_device() -> None:
    x = on_meta(SplitAxis.MIRRORED, ne=(4,))
    ggml.copy_async(X.backend, X.backend, x, X.x)


@case(match="copied both ways")
def tensor_copy_of_a_meta_device() -> None:
    x = on_meta(SplitAxis.MIRRORED, ne=(4,))
    ggml.tensor_copy(X.x, x)
    X.y.set(np.zeros(4, np.float32))
    ggml.tensor_copy(x, X.y)
    assert (X.y.get() == [0, 1, 2, 3]).all()
    raise GgmlError("copied both ways")


@case(UnsupportedError, match="parts of a tensor")
def part_of_a_tensor_on_a_meta_device() -> None:
    cpu = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    ctx = context()
    x = f32(ctx, 4)
    ggml.alloc_ctx_tensors(ctx, cpu)
    cpu.get_async(x, 4)


@case(GgmlError, ValueError, UnsupportedError)
def start_of_a_tensor_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], lambda info, n: Split(1, [4, 4])))
    ctx = context()
    x = f32(ctx, 64, 8)
    ggml.alloc_ctx_tensors(ctx, backend)
    backend.set_async(x, np.zeros(3, np.float32), 0, 12)


@case(UnsupportedError, match="several buffers")
def tensor_placed_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    backend.alloc_buffer(4096).place(f32(context(), 4))


@case(UnsupportedError, match="meta backend")
def sched_of_a_meta_backend() -> None:
    ggml.Sched([ggml.Backend(ggml.meta_device([CPU, CPU], mirrored)), ggml.Backend()])


@case(UnsupportedError, match="meta device")
def sched_over_memory_of_a_meta_device() -> None:
    x = on_meta(SplitAxis.MIRRORED)
    ctx = context()
    ggml.Sched([ggml.Backend()]).compute(graph_of(ctx, ggml.relu(ctx, x)))


@case(UnsupportedError, match="this context has operators")
def operators_given_memory_with_the_weights_of_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    ctx = context()
    y = ggml.relu(ctx, f32(ctx, 4))
    try:
        ggml.alloc_ctx_tensors(ctx, backend)
    finally:
        assert not y.is_allocated


@case(match="no row 9")
def index_out_of_range_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    ctx = context()
    table, ids = f32(ctx, 8, 4), ctx.new_tensor(Type.I32, [2])
    graph = graph_of(ctx, ggml.get_rows(ctx, table, ids))
    ggml.Gallocr(backend).alloc_graph(graph)
    ids.set(np.array([0, 3], np.int32))
    backend.compute(graph)
    ids.set(np.array([0, 9], np.int32))
    backend.compute(graph)


IN_PLACE: dict[str, Callable[[ggml.Context, ggml.Tensor, ggml.Tensor], ggml.Tensor]] = {
    "scale": lambda ctx, x, y: ggml.scale_inplace(ctx, x, 2.0),
    "clamp": lambda ctx, x, y: ggml.clamp(ctx, x, -1, 1),
    "cpy": lambda ctx, x, y: ggml.cpy(ctx, y, x),
    "dup": lambda ctx, x, y: ggml.dup_inplace(ctx, x),
}


def written_in_place(name: str) -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    ctx = context()
    x, y = f32(ctx, 8, 4), f32(ctx, 8, 4)
    graph = graph_of(ctx, ggml.add(ctx, IN_PLACE[name](ctx, x, y), y))
    ggml.Gallocr(backend).alloc_graph(graph)
    backend.compute(graph)


for key, _ in IN_PLACE.items():
    case(UnsupportedError, match="cannot write into", name=f"leaf_of_a_meta_device_{key}")(
        lambda name=key: written_in_place(name)
    )


@case(ggml.Cancelled)
def cancelled_on_a_meta_device() -> None:
    backend = ggml.Backend(ggml.meta_device([CPU, CPU], mirrored))
    ctx = context()
    y = a = f32(ctx, 256, 256)
    for _ in range(40):
        y = ggml.mul_mat(ctx, a, y)
    graph = graph_of(ctx, y)
    ggml.Gallocr(backend).alloc_graph(graph)

    class Cancel:
        def is_set(self) -> bool:
            return True

    backend.compute(graph, Cancel())


@case(ValueError, match="negative or too large")
def split_axis_beyond_64_bits() -> None:
    on_meta(Split(1 << 70, [4, 4]))


@case(ValueError, match="is not 0 to 3")
def split_axis_beyond_32_bits() -> None:
    on_meta(Split(1 << 40, [4, 4]))
