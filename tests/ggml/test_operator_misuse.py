"""Operators with arguments that ggml would abort or crash on: an exception, or a result, never the process.

Run as a program, this file takes a valid call of every operator, changes one argument after another, and
computes whatever was accepted on two threads.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import ggml
from ggml import Type, operators


class Of(NamedTuple):
    """A tensor argument: its type and sizes, and how it lies in memory."""

    type: Type
    ne: tuple[int, ...]
    layout: str = "packed"


def f(*ne: int) -> Of:
    return Of(Type.F32, ne)


def h(*ne: int) -> Of:
    return Of(Type.F16, ne)


def i(*ne: int) -> Of:
    return Of(Type.I32, ne)


_ROPE = [0, 10000.0, 1.0, 0.0, 1.0, 0.0, 0.0]
_CONV_2D = [1, 1, 1, 1, 1, 1]
_CONV_3D = [1, 1, 1, 0, 0, 0, 1, 1, 1]
_WKV = [f(8, 2, 6)] * 3

# A valid call of each operator; those with one tensor, or two of the same sizes, follow below.
CALLS: dict[str, list[Any]] = {
    "add_cast": [h(6, 3), f(6, 3), Type.F32],
    "add_id": [f(6, 2, 3), f(6, 4), i(2, 3)],
    "scale": [f(5, 3), 2.0],
    "scale_inplace": [f(5, 3), 2.0],
    "scale_bias": [f(5, 3), 2.0, 1.0],
    "scale_bias_inplace": [f(5, 3), 2.0, 1.0],
    "leaky_relu": [f(5, 3), 0.1, False],
    "clamp": [f(5, 3), -1.0, 1.0],
    "fill": [f(5, 3), 3.0],
    "fill_inplace": [f(5, 3), 3.0],
    **{name: [f(8, 4), f(4, 2), 32, 128, 128, 4] for name in ("acc", "acc_inplace", "set", "set_inplace")},
    **{name: [f(8, 4), f(4), 8] for name in ("set_1d", "set_1d_inplace")},
    **{name: [f(8, 4), f(4, 2), 32, 8] for name in ("set_2d", "set_2d_inplace")},
    "unary": [f(5, 3), ggml.UnaryOp.SILU],
    "unary_inplace": [f(5, 3), ggml.UnaryOp.EXP],
    "xielu": [f(5, 3), 0.8, 0.8, 0.5, -1e-6],
    "glu": [f(6, 3), ggml.GluOp.GEGLU, True],
    "glu_split": [f(6, 3), f(6, 3), ggml.GluOp.REGLU],
    "swiglu_oai": [f(6, 3), f(6, 3), 1.7, 7.0],
    "reshape": [f(6, 4), f(3, 8)],
    "reshape_1d": [f(6, 4), 24],
    "reshape_2d": [f(6, 4), 3, 8],
    "reshape_3d": [f(6, 4), 3, 4, 2],
    "reshape_4d": [f(6, 4), 3, 2, 2, 2],
    "view_1d": [f(6, 4), 5, 8],
    "view_2d": [f(6, 4), 3, 2, 24, 8],
    "view_3d": [f(6, 4, 2), 3, 2, 2, 24, 96, 8],
    "view_4d": [f(6, 4, 2, 2), 3, 2, 2, 2, 24, 96, 192, 8],
    "permute": [f(6, 4, 3), 0, 2, 1, 3],
    "cpy": [f(6, 4), h(6, 4)],
    "cast": [f(32, 2), Type.Q8_0],
    "cont_1d": [f(6, 4), 24],
    "cont_2d": [f(6, 4), 3, 8],
    "cont_3d": [f(6, 4), 3, 4, 2],
    "cont_4d": [f(6, 4), 3, 2, 2, 2],
    "concat": [f(6, 4), f(6, 2), 1],
    "repeat": [f(3, 2), f(6, 4)],
    "repeat_4d": [f(3, 2), 6, 4, 1, 2],
    "pad": [f(5, 3), 1, 2, 0, 1],
    "pad_circular": [f(5, 3), 1, 2, 0, 1],
    "pad_ext": [f(5, 3), 1, 2, 0, 1, 0, 0, 1, 0],
    "pad_ext_circular": [f(5, 3), 1, 2, 0, 1, 0, 0, 1, 0],
    "pad_reflect_1d": [f(5, 3), 2, 4],
    "roll": [f(5, 3), 2, -1, 0, 0],
    "get_rows": [f(5, 4), i(3)],
    "set_rows": [f(5, 4), f(5, 3), i(3)],
    "mul_mat": [f(32, 3), f(32, 5)],
    "mul_mat_id": [f(32, 3, 4), f(32, 2, 5), i(2, 5)],
    "out_prod": [f(3, 7), f(5, 7)],
    "solve_tri": [f(4, 4), f(3, 4), True, True, False],
    "diag": [f(5, 1, 2)],
    **{
        name: [f(5, 3), 1]
        for name in ("diag_mask_inf", "diag_mask_inf_inplace", "diag_mask_zero", "diag_mask_zero_inplace")
    },
    "tri": [f(4, 4), ggml.TriType.LOWER],
    "count_equal": [i(5, 3), i(5, 3)],
    "argsort": [f(5, 3), ggml.SortOrder.DESC],
    "argsort_top_k": [f(5, 3), 2],
    "top_k": [f(5, 3), 2],
    "arange": [0.0, 5.0, 0.5],
    **{name: [f(5, 3), 1e-5] for name in ("norm", "norm_inplace", "rms_norm", "rms_norm_inplace")},
    **{name: [f(5, 3), 1e-5] for name in ("l2_norm", "l2_norm_inplace")},
    **{name: [f(5, 3, 4), 2, 1e-5] for name in ("group_norm", "group_norm_inplace")},
    **{name: [f(5, 3, 2), f(5, 3), 0.5, 0.0] for name in ("soft_max_ext", "soft_max_ext_inplace")},
    **{name: [f(8, 2, 3), i(3), 4, ggml.RopeMode.NEOX] for name in ("rope", "rope_inplace")},
    **{name: [f(8, 2, 3), i(3), f(4), 8, 0, *_ROPE] for name in ("rope_ext", "rope_ext_inplace")},
    **{
        name: [f(8, 2, 3), i(12), f(4), 8, [2, 1, 1, 0], ggml.RopeMode.MROPE, *_ROPE]
        for name in ("rope_multi", "rope_multi_inplace")
    },
    "flash_attn_ext": [f(32, 3, 4), h(32, 5, 2), h(32, 5, 2), h(5, 3), 0.2, 0.0, 0.0],
    "lightning_indexer": [f(8, 2, 3), f(8, 1, 5), f(2, 3), h(5, 3)],
    "dsv4_hc_comb": [f(24, 3), f(3), f(24), 1e-5, 2],
    "dsv4_hc_pre": [f(5, 4, 3), f(4, 3)],
    "dsv4_hc_post": [f(5, 3), f(5, 4, 3), f(4, 3), f(4, 4, 3)],
    "im2col": [f(3, 2, 4, 5), f(7, 6, 4, 2), *_CONV_2D, True, Type.F16],
    "im2col_3d": [f(2, 2, 2, 4), f(5, 4, 3, 2), 2, *_CONV_3D, Type.F32],
    "conv_1d": [h(3, 4, 5), f(9, 4, 2), 1, 1, 1],
    "conv_1d_ph": [h(3, 4, 5), f(9, 4, 2), 1, 1],
    "conv_1d_dw": [h(3, 1, 4), f(9, 4), 1, 1, 1],
    "conv_1d_dw_ph": [h(3, 1, 4), f(9, 4), 1, 1],
    "conv_transpose_1d": [f(3, 4, 5), f(7, 5), 2, 0, 1],
    "col2im_1d": [f(12, 5), 2, 4, 1],
    "conv_2d": [h(3, 2, 4, 5), f(7, 6, 4, 2), *_CONV_2D],
    "conv_2d_sk_p0": [h(3, 2, 4, 5), f(9, 6, 4, 2)],
    "conv_2d_s1_ph": [h(3, 3, 4, 5), f(9, 6, 4, 2)],
    "conv_2d_dw": [h(3, 2, 1, 4), f(7, 6, 4, 2), *_CONV_2D],
    "conv_2d_dw_direct": [f(3, 2, 1, 4), f(7, 6, 4, 2), *_CONV_2D],
    "conv_2d_direct": [f(3, 2, 4, 5), f(7, 6, 4, 2), *_CONV_2D],
    "conv_transpose_2d_p0": [h(3, 2, 4, 5), f(7, 6, 5), 2],
    "conv_3d": [h(2, 2, 2, 6), f(5, 4, 3, 4), 2, *_CONV_3D],
    "conv_3d_direct": [f(2, 2, 2, 6), f(5, 4, 3, 4), *_CONV_3D, 2, 2, 3],
    "pool_1d": [f(9, 3), ggml.Pool.AVG, 3, 2, 1],
    "pool_2d": [f(9, 6, 2), ggml.Pool.MAX, 3, 2, 2, 2, 1.0, 0.0],
    "ssm_conv": [f(8, 6, 2), f(4, 6)],
    "ssm_scan": [f(16, 4, 2, 3), f(4, 2, 5, 3), f(2, 5, 3), f(1, 2), f(16, 1, 5, 3), f(16, 1, 5, 3), i(3), 1],
    "rwkv_wkv6": [*_WKV, f(8, 2), f(8, 2, 6), f(128, 3)],
    "rwkv_wkv7": [*[f(64, 1, 4)] * 6, f(4096, 2)],
    "gated_linear_attn": [*_WKV, f(8, 2, 6), f(128, 3), 0.5],
    "gated_delta_net": [*[f(8, 2, 4, 2)] * 3, f(1, 2, 4, 2), f(1, 2, 4, 2), f(8, 8, 2, 2), 2],
    "upscale": [f(5, 4, 2), 2, ggml.ScaleMode.BICUBIC],
    "interpolate": [f(5, 4, 2), 7, 3, 2, 1, ggml.ScaleMode.BILINEAR | ggml.ScaleFlag.ANTIALIAS],
    "win_part": [f(4, 7, 5), 3],
    "win_unpart": [f(4, 3, 3, 6), 7, 5, 3],
    "get_rel_pos": [h(4, 5), 3, 3],
    **{name: [f(9, 4, 2), f(3, 2, 2, 2), f(3, 2, 2, 2)] for name in ("add_rel_pos", "add_rel_pos_inplace")},
    "timestep_embedding": [f(3), 7, 100],
}
_TWO = ("add", "sub", "mul", "div")
for _name in (*_TWO, *(f"{name}_inplace" for name in _TWO)):
    CALLS[_name] = [f(6, 4, 2), f(3, 4)]
for _name in (
    "cross_entropy_loss",
    *(name for name in operators.SUBJECTS["Gated linear units"] if "split" in name),
):
    CALLS.setdefault(_name, [f(6, 3), f(6, 3)])
for _group in operators.SUBJECTS.values():
    for _name in _group:
        CALLS.setdefault(_name, [f(6, 4)])

TYPES = [
    Type.F32,
    Type.F16,
    Type.BF16,
    Type.I32,
    Type.I64,
    Type.I8,
    Type.F64,
    Type.Q4_0,
    Type.Q8_0,
    Type.Q4_K,
]
TYPES += [Type.Q8_K, Type.Q8_1, Type.IQ2_XXS, Type.MXFP4]
LAYOUTS = ["transposed", "permuted", "strided", "offset", "one element"]
INTEGERS = [-(2**31), -1, 0, 1, 3, 2**20, 2**31 - 1, 2**63 - 1]
FLOATS = [float("nan"), float("inf"), -1.0, 0.0, 1e38]
# Operators that write into an argument without "inplace" in their name.
IN_PLACE = ("clamp", "cpy", "set_rows", "leaky_relu")


def tensor(ctx: ggml.Context, of: Of) -> tuple[ggml.Tensor, ggml.Tensor]:
    """A tensor like that, or the nearest that its type allows, and the one that it looks at."""
    ne = [*of.ne, *([1] * (4 - len(of.ne)))]
    block = ggml.type_info(of.type).block_size
    if ne[0] % block:
        ne[0] = block
    if of.layout == "transposed" and block == 1:
        whole = ctx.new_tensor(of.type, [ne[1], ne[0], ne[2], ne[3]])
        return ggml.transpose(ctx, whole), whole
    if of.layout == "permuted" and block == 1:
        whole = ctx.new_tensor(of.type, [ne[2], ne[0], ne[1], ne[3]])
        return ggml.permute(ctx, whole, 2, 0, 1, 3), whole
    whole = ctx.new_tensor(of.type, ne)
    if of.layout == "one element" and min(ne):
        return ggml.view_4d(ctx, whole, *ne, 0, 0, 0, 0), whole
    if of.layout in ("strided", "offset") and block == 1:
        whole = ctx.new_tensor(of.type, [n + 1 for n in ne])
        offset = whole.nb[0] if of.layout == "offset" else 0
        return ggml.view_4d(ctx, whole, *ne, *whole.nb[1:], offset), whole
    return whole, whole


def sizes(ne: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Sizes near these: one of them changed, a dimension more, two exchanged."""
    for axis in range(len(ne)):
        for n in (0, 1, ne[axis] + 1):
            yield (*ne[:axis], n, *ne[axis + 1 :])
    if len(ne) < 4:
        yield (*ne, 2)
    if len(ne) > 1:
        yield (ne[1], ne[0], *ne[2:])


def changes(argument: Any) -> list[Any]:
    """What else an argument could be: mostly wrong, sometimes only unusual."""
    if isinstance(argument, Of):
        changed: list[Any] = [argument._replace(type=type) for type in TYPES]
        changed += [argument._replace(layout=layout) for layout in LAYOUTS]
        changed += [argument._replace(ne=ne) for ne in sizes(argument.ne)]
        return [*changed, None, 3]
    if isinstance(argument, bool):
        return [not argument]
    if isinstance(argument, int):
        return INTEGERS
    if isinstance(argument, float):
        return FLOATS
    return [[0, 0, 0, 0], [-1, 1, 1, 1], [2**31 - 1] * 4, [1, 2]]


def variations(arguments: list[Any]) -> Iterator[list[Any]]:
    """One argument changed; tensors all of another type, layout or size; several changed at random."""
    for at, argument in enumerate(arguments):
        for value in changes(argument):
            yield [*arguments[:at], value, *arguments[at + 1 :]]
    everywhere: list[Callable[[Of], Of]] = [lambda o, t=type: o._replace(type=t) for type in TYPES]
    everywhere += [lambda o, x=layout: o._replace(layout=x) for layout in LAYOUTS]
    everywhere += [
        lambda o: o._replace(ne=(*o.ne, 2)[:4]),
        lambda o: o._replace(ne=(*o.ne[:-1], 2 * o.ne[-1])),
    ]
    for change in everywhere:
        yield [change(a) if isinstance(a, Of) else a for a in arguments]
    chance = random.Random(len(arguments))
    for _ in range(20):
        yield [chance.choice(changes(a)) if chance.random() < 0.4 else a for a in arguments]


def build(ctx: ggml.Context, name: str, arguments: list[Any]) -> tuple[ggml.Tensor, list[ggml.Tensor]]:
    """The operator's result, and the leaves it is computed from."""
    values, leaves = [], []
    for argument in arguments:
        if isinstance(argument, Of):
            argument, leaf = tensor(ctx, argument)
            leaves.append(leaf)
        values.append(argument)
    return getattr(ggml, name)(ctx, *values), leaves


def compute(
    backend: ggml.Backend, ctx: ggml.Context, result: ggml.Tensor, leaves: list[ggml.Tensor], seed: int
) -> bool:
    """Computes with small numbers in every leaf, indices 0 or 1. Whether the memory around is as it was."""
    numbers = np.random.default_rng(seed)
    graph = ggml.Graph(ctx, 64)
    graph.expand(result)
    behind = ctx.new_tensor(Type.I32, [256])  # next to the last tensor that was computed
    ggml.alloc_ctx_tensors(ctx, backend)
    for leaf in leaves:
        if leaf.nbytes:
            old = leaf.get()
            integer = old.dtype.kind in "iu"
            new = numbers.integers(0, 2, old.shape) if integer else numbers.normal(size=old.shape)
            leaf.set(new.astype(old.dtype))
    behind.set(np.full(256, 1234567, np.int32))
    before = [leaf.get().tobytes() for leaf in leaves if leaf.nbytes]
    backend.compute(graph)
    after = [leaf.get().tobytes() for leaf in leaves if leaf.nbytes]
    return bool((behind.get() == 1234567).all()) and (before == after or result.nbytes == 0)


def main() -> None:
    """Every variation of every call: prints how many were refused and how many computed."""
    backend = ggml.Backend(n_threads=2)
    refused = computed = 0
    for name, arguments in CALLS.items():
        for seed, changed in enumerate([arguments, *variations(arguments)]):
            print(name, changed, file=sys.stderr, flush=True)
            ctx = ggml.Context(64 << 10)
            try:
                result, leaves = build(ctx, name, changed)
                if max(result.ne) < 2**16 and result.nbytes < 2**24:
                    kept = compute(backend, ctx, result, leaves, seed)
                    assert kept or name.endswith("_inplace") or name in IN_PLACE
            except (ggml.GgmlError, ValueError, TypeError):
                refused += 1
                if seed == 0:
                    raise
            else:
                computed += 1
    print(refused, computed)


def test_every_variation_of_every_operator() -> None:
    """In a process of its own: an abort would end it."""
    child = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    last = child.stderr.splitlines()[-1:] if child.returncode else []
    assert child.returncode == 0, last
    refused, computed = map(int, child.stdout.split())
    assert refused > 5000
    assert computed > 5000


def test_there_is_a_call_for_every_operator() -> None:
    assert set(CALLS) == {name for names in operators.SUBJECTS.values() for name in names}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_what_is_no_operand_raises(name: str) -> None:
    ctx = ggml.Context(64 << 10)
    arguments = CALLS[name]
    with pytest.raises(TypeError):
        getattr(ggml, name)(ctx)
    with pytest.raises(TypeError):
        getattr(ggml, name)(None, *[tensor(ctx, a)[0] if isinstance(a, Of) else a for a in arguments])
    for at, argument in enumerate(arguments):
        if not isinstance(argument, Of):
            continue
        strange = build_refused(
            ctx, name, [*arguments[:at], argument._replace(type=Type.Q8_K), *arguments[at + 1 :]]
        )
        views = [*operators.SUBJECTS["Shapes and views"], "dup", "cont", "dup_inplace", "concat"]
        # Kernels whose values are not read may have any type.
        assert strange or name in views or (name.startswith(("im2col", "repeat")) and at < 2)


def build_refused(ctx: ggml.Context, name: str, arguments: list[Any]) -> bool:
    try:
        build(ctx, name, arguments)
    except (ggml.GgmlError, ValueError):
        return True
    return False


@pytest.mark.parametrize("name", ["add", "mul_mat", "conv_2d", "ssm_scan", "soft_max_ext", "concat"])
def test_messages_name_the_operator_and_what_was_given(name: str) -> None:
    ctx = ggml.Context(64 << 10)
    wrong = [a._replace(ne=(7, 5, 3)) if at == 1 else a for at, a in enumerate(CALLS[name])]
    with pytest.raises(ggml.GgmlError, match=rf"^{name}: .*must.*given: .*\[7, 5, 3\] f"):
        build(ctx, name, wrong)


if __name__ == "__main__":
    main()
