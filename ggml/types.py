"""Tensor types: ggml's names as an enum, made from the library's own table."""

from __future__ import annotations

from dataclasses import dataclass

import ggml._core as core
from ggml.enums import Named


class Type(Named):
    """``ggml_type``: the types a tensor can have."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """How a type is stored: ``block_size`` elements in ``type_size`` bytes."""

    type: Type
    name: str
    block_size: int
    type_size: int


def type_info(type: int) -> TypeInfo:
    """Name, block size and bytes a block of a type."""
    return _TABLE[Type(type)]


_TABLE = {
    Type(value): TypeInfo(Type(value), name, block_size, type_size)
    for value, name, block_size, type_size in core.type_table()
}
