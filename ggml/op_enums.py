"""The kinds and modes of operators, with ggml's values."""

from __future__ import annotations

from enum import IntFlag

from ggml.enums import Named


class UnaryOp(Named):
    """``ggml_unary_op``: the functions of :func:`ggml.unary`."""

    ABS = 0
    SGN = 1
    NEG = 2
    STEP = 3
    TANH = 4
    ELU = 5
    RELU = 6
    SIGMOID = 7
    GELU = 8
    GELU_QUICK = 9
    SILU = 10
    HARDSWISH = 11
    HARDSIGMOID = 12
    EXP = 13
    EXPM1 = 14
    SOFTPLUS = 15
    GELU_ERF = 16
    XIELU = 17
    FLOOR = 18
    CEIL = 19
    ROUND = 20
    TRUNC = 21


class GluOp(Named):
    """``ggml_glu_op``: the gated linear units of :func:`ggml.glu`."""

    REGLU = 0
    GEGLU = 1
    SWIGLU = 2
    SWIGLU_OAI = 3
    GEGLU_ERF = 4
    GEGLU_QUICK = 5


class Pool(Named):
    """``ggml_op_pool``: what pooling keeps of a window."""

    MAX = 0
    AVG = 1


class SortOrder(Named):
    """``ggml_sort_order``."""

    ASC = 0
    DESC = 1


class TriType(Named):
    """``ggml_tri_type``: which triangle of a matrix; DIAG with the diagonal."""

    UPPER_DIAG = 0
    UPPER = 1
    LOWER_DIAG = 2
    LOWER = 3


class ScaleMode(Named):
    """``ggml_scale_mode``: how values between elements are found."""

    NEAREST = 0
    BILINEAR = 1
    BICUBIC = 2


class ScaleFlag(IntFlag):
    """``ggml_scale_flag``: or'ed to a ScaleMode for :func:`ggml.interpolate`."""

    ALIGN_CORNERS = 1 << 8
    ANTIALIAS = 1 << 9


class RopeMode(Named):
    """``GGML_ROPE_TYPE_*``: which elements of a row rotate together."""

    NORMAL = 0
    NEOX = 2
    MROPE = 8
    VISION = 24
    IMROPE = 40


class Prec(Named):
    """``ggml_prec``: how exactly a device accumulates."""

    DEFAULT = 0
    F32 = 10
