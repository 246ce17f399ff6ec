"""Made by scripts/make_operator_table.py from ggml/operators.py."""

from collections.abc import Sequence

from ggml._core import Context, Tensor

__all__ = [
    "abs",
    "abs_inplace",
    "acc",
    "acc_inplace",
    "add",
    "add_cast",
    "add_id",
    "add_inplace",
    "add_rel_pos",
    "add_rel_pos_inplace",
    "arange",
    "argmax",
    "argsort",
    "argsort_top_k",
    "cast",
    "ceil",
    "ceil_inplace",
    "clamp",
    "col2im_1d",
    "concat",
    "cont",
    "cont_1d",
    "cont_2d",
    "cont_3d",
    "cont_4d",
    "conv_1d",
    "conv_1d_dw",
    "conv_1d_dw_ph",
    "conv_1d_ph",
    "conv_2d",
    "conv_2d_direct",
    "conv_2d_dw",
    "conv_2d_dw_direct",
    "conv_2d_s1_ph",
    "conv_2d_sk_p0",
    "conv_3d",
    "conv_3d_direct",
    "conv_transpose_1d",
    "conv_transpose_2d_p0",
    "cos",
    "cos_inplace",
    "count_equal",
    "cpy",
    "cross_entropy_loss",
    "cumsum",
    "diag",
    "diag_mask_inf",
    "diag_mask_inf_inplace",
    "diag_mask_zero",
    "diag_mask_zero_inplace",
    "div",
    "div_inplace",
    "dsv4_hc_comb",
    "dsv4_hc_post",
    "dsv4_hc_pre",
    "dup",
    "dup_inplace",
    "elu",
    "elu_inplace",
    "exp",
    "exp_inplace",
    "expm1",
    "expm1_inplace",
    "fill",
    "fill_inplace",
    "flash_attn_ext",
    "flash_attn_ext_add_sinks",
    "flash_attn_ext_set_prec",
    "floor",
    "floor_inplace",
    "gated_delta_net",
    "gated_linear_attn",
    "geglu",
    "geglu_erf",
    "geglu_erf_split",
    "geglu_erf_swapped",
    "geglu_quick",
    "geglu_quick_split",
    "geglu_quick_swapped",
    "geglu_split",
    "geglu_swapped",
    "gelu",
    "gelu_erf",
    "gelu_erf_inplace",
    "gelu_inplace",
    "gelu_quick",
    "gelu_quick_inplace",
    "get_rel_pos",
    "get_rows",
    "glu",
    "glu_split",
    "group_norm",
    "group_norm_inplace",
    "hardsigmoid",
    "hardswish",
    "im2col",
    "im2col_3d",
    "interpolate",
    "l2_norm",
    "l2_norm_inplace",
    "leaky_relu",
    "lightning_indexer",
    "log",
    "log_inplace",
    "mean",
    "mul",
    "mul_inplace",
    "mul_mat",
    "mul_mat_id",
    "mul_mat_set_prec",
    "neg",
    "neg_inplace",
    "norm",
    "norm_inplace",
    "out_prod",
    "pad",
    "pad_circular",
    "pad_ext",
    "pad_ext_circular",
    "pad_reflect_1d",
    "permute",
    "pool_1d",
    "pool_2d",
    "reglu",
    "reglu_split",
    "reglu_swapped",
    "relu",
    "relu_inplace",
    "repeat",
    "repeat_4d",
    "reshape",
    "reshape_1d",
    "reshape_2d",
    "reshape_3d",
    "reshape_4d",
    "rms_norm",
    "rms_norm_inplace",
    "roll",
    "rope",
    "rope_ext",
    "rope_ext_inplace",
    "rope_inplace",
    "rope_multi",
    "rope_multi_inplace",
    "round",
    "round_inplace",
    "rwkv_wkv6",
    "rwkv_wkv7",
    "scale",
    "scale_bias",
    "scale_bias_inplace",
    "scale_inplace",
    "set",
    "set_1d",
    "set_1d_inplace",
    "set_2d",
    "set_2d_inplace",
    "set_inplace",
    "set_rows",
    "sgn",
    "sgn_inplace",
    "sigmoid",
    "sigmoid_inplace",
    "silu",
    "silu_inplace",
    "sin",
    "sin_inplace",
    "soft_max",
    "soft_max_add_sinks",
    "soft_max_ext",
    "soft_max_ext_inplace",
    "soft_max_inplace",
    "softplus",
    "softplus_inplace",
    "solve_tri",
    "sqr",
    "sqr_inplace",
    "sqrt",
    "sqrt_inplace",
    "ssm_conv",
    "ssm_scan",
    "step",
    "step_inplace",
    "sub",
    "sub_inplace",
    "sum",
    "sum_rows",
    "swiglu",
    "swiglu_oai",
    "swiglu_split",
    "swiglu_swapped",
    "tanh",
    "tanh_inplace",
    "timestep_embedding",
    "top_k",
    "transpose",
    "tri",
    "trunc",
    "trunc_inplace",
    "unary",
    "unary_inplace",
    "upscale",
    "view_1d",
    "view_2d",
    "view_3d",
    "view_4d",
    "view_tensor",
    "win_part",
    "win_unpart",
    "xielu",
]

def add(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_add: a + b, b repeated to a's sizes."""

def add_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_add_inplace: a + b in a's memory."""

def add_cast(ctx: Context, a: Tensor, b: Tensor, type: int) -> Tensor:
    """ggml_add_cast: a + b as type."""

def add_id(ctx: Context, a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """ggml_add_id: a[:, i, j] + b[:, ids[i, j]] of a [n, i, j], b [n, rows], int32 ids [i, j]."""

def sub(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_sub: a - b, b repeated to a's sizes."""

def sub_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_sub_inplace: a - b in a's memory."""

def mul(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_mul: a * b by elements, b repeated to a's sizes."""

def mul_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_mul_inplace: a * b in a's memory."""

def div(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_div: a / b by elements, b repeated to a's sizes."""

def div_inplace(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_div_inplace: a / b in a's memory."""

def sqr(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sqr: a * a."""

def sqr_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sqr_inplace: a * a in a's memory."""

def sqrt(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sqrt: the square root."""

def sqrt_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sqrt_inplace: in a's memory."""

def log(ctx: Context, a: Tensor) -> Tensor:
    """ggml_log: the natural logarithm."""

def log_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_log_inplace: in a's memory."""

def sin(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sin: of radians."""

def sin_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sin_inplace: in a's memory."""

def cos(ctx: Context, a: Tensor) -> Tensor:
    """ggml_cos: of radians."""

def cos_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_cos_inplace: in a's memory."""

def scale(ctx: Context, a: Tensor, s: float) -> Tensor:
    """ggml_scale: a * s."""

def scale_inplace(ctx: Context, a: Tensor, s: float) -> Tensor:
    """ggml_scale_inplace: a * s in a's memory."""

def scale_bias(ctx: Context, a: Tensor, s: float, b: float) -> Tensor:
    """ggml_scale_bias: a * s + b."""

def scale_bias_inplace(ctx: Context, a: Tensor, s: float, b: float) -> Tensor:
    """ggml_scale_bias_inplace: a * s + b in a's memory."""

def leaky_relu(ctx: Context, a: Tensor, negative_slope: float, inplace: bool = False) -> Tensor:
    """ggml_leaky_relu: a where positive, a * negative_slope elsewhere."""

def clamp(ctx: Context, a: Tensor, min: float, max: float) -> Tensor:
    """ggml_clamp: a limited to [min, max], in a's memory."""

def fill(ctx: Context, a: Tensor, c: float) -> Tensor:
    """ggml_fill: c in every element, of a's sizes."""

def fill_inplace(ctx: Context, a: Tensor, c: float) -> Tensor:
    """ggml_fill_inplace: c in every element of a."""

def acc(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_acc: a copy of a with b added to the part that strides and offset (bytes) give."""

def acc_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_acc_inplace: acc in a's memory."""

def set(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_set: a copy of a with b in the part that strides and offset (bytes) give."""

def set_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, nb2: int, nb3: int, offset: int) -> Tensor:
    """ggml_set_inplace: set in a's memory."""

def set_1d(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """ggml_set_1d: a copy of a with the vector b at offset (bytes)."""

def set_1d_inplace(ctx: Context, a: Tensor, b: Tensor, offset: int) -> Tensor:
    """ggml_set_1d_inplace: set_1d in a's memory."""

def set_2d(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """ggml_set_2d: a copy of a with the matrix b, rows nb1 bytes apart, at offset (bytes)."""

def set_2d_inplace(ctx: Context, a: Tensor, b: Tensor, nb1: int, offset: int) -> Tensor:
    """ggml_set_2d_inplace: set_2d in a's memory."""

def abs(ctx: Context, a: Tensor) -> Tensor:
    """ggml_abs: the absolute value."""

def abs_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_abs_inplace: in a's memory."""

def sgn(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sgn: -1, 0 or 1."""

def sgn_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sgn_inplace: in a's memory."""

def neg(ctx: Context, a: Tensor) -> Tensor:
    """ggml_neg: -a."""

def neg_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_neg_inplace: in a's memory."""

def step(ctx: Context, a: Tensor) -> Tensor:
    """ggml_step: 1 where a > 0, 0 elsewhere."""

def step_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_step_inplace: in a's memory."""

def tanh(ctx: Context, a: Tensor) -> Tensor:
    """ggml_tanh: the hyperbolic tangent."""

def tanh_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_tanh_inplace: in a's memory."""

def elu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_elu: a where positive, exp(a) - 1 elsewhere."""

def elu_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_elu_inplace: in a's memory."""

def relu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_relu: max(a, 0)."""

def relu_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_relu_inplace: in a's memory."""

def sigmoid(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sigmoid: 1 / (1 + exp(-a))."""

def sigmoid_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sigmoid_inplace: in a's memory."""

def gelu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu: GELU by its tanh approximation."""

def gelu_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu_inplace: in a's memory."""

def gelu_erf(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu_erf: GELU by the error function."""

def gelu_erf_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu_erf_inplace: in a's memory."""

def gelu_quick(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu_quick: a * sigmoid(1.702 a)."""

def gelu_quick_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_gelu_quick_inplace: in a's memory."""

def silu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_silu: a * sigmoid(a), called Swish in NeMo."""

def silu_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_silu_inplace: in a's memory."""

def hardswish(ctx: Context, a: Tensor) -> Tensor:
    """ggml_hardswish: a * min(1, max(0, (a + 3) / 6))."""

def hardsigmoid(ctx: Context, a: Tensor) -> Tensor:
    """ggml_hardsigmoid: min(1, max(0, (a + 3) / 6))."""

def exp(ctx: Context, a: Tensor) -> Tensor:
    """ggml_exp: e to the power of a."""

def exp_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_exp_inplace: in a's memory."""

def expm1(ctx: Context, a: Tensor) -> Tensor:
    """ggml_expm1: exp(a) - 1."""

def expm1_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_expm1_inplace: in a's memory."""

def softplus(ctx: Context, a: Tensor) -> Tensor:
    """ggml_softplus: log(1 + exp(a))."""

def softplus_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_softplus_inplace: in a's memory."""

def floor(ctx: Context, a: Tensor) -> Tensor:
    """ggml_floor: to the whole number below."""

def floor_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_floor_inplace: in a's memory."""

def ceil(ctx: Context, a: Tensor) -> Tensor:
    """ggml_ceil: to the whole number above."""

def ceil_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_ceil_inplace: in a's memory."""

def round(ctx: Context, a: Tensor) -> Tensor:
    """ggml_round: to the nearest whole number, halves away from 0."""

def round_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_round_inplace: in a's memory."""

def trunc(ctx: Context, a: Tensor) -> Tensor:
    """ggml_trunc: to the whole number towards 0."""

def trunc_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_trunc_inplace: in a's memory."""

def unary(ctx: Context, a: Tensor, op: int) -> Tensor:
    """ggml_unary: the function that a UnaryOp names."""

def unary_inplace(ctx: Context, a: Tensor, op: int) -> Tensor:
    """ggml_unary_inplace: in a's memory."""

def xielu(ctx: Context, a: Tensor, alpha_n: float, alpha_p: float, beta: float, eps: float) -> Tensor:
    """ggml_xielu: the xIELU activation (arXiv:2411.13010)."""

def glu(ctx: Context, a: Tensor, op: int, swapped: bool = False) -> Tensor:
    """ggml_glu: the gated linear unit that a GluOp names, of a's two halves."""

def glu_split(ctx: Context, a: Tensor, b: Tensor, op: int) -> Tensor:
    """ggml_glu_split: the same, of a and the gates b."""

def reglu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_reglu: relu(first half) * second half of ne0."""

def reglu_swapped(ctx: Context, a: Tensor) -> Tensor:
    """ggml_reglu_swapped: the halves exchanged."""

def reglu_split(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_reglu_split: relu(a) * b."""

def geglu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu: gelu(first half) * second half of ne0."""

def geglu_swapped(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu_swapped: the halves exchanged."""

def geglu_split(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_geglu_split: gelu(a) * b."""

def swiglu(ctx: Context, a: Tensor) -> Tensor:
    """ggml_swiglu: silu(first half) * second half of ne0."""

def swiglu_swapped(ctx: Context, a: Tensor) -> Tensor:
    """ggml_swiglu_swapped: the halves exchanged."""

def swiglu_split(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_swiglu_split: silu(a) * b."""

def geglu_erf(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu_erf: geglu by the error function."""

def geglu_erf_swapped(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu_erf_swapped: the halves exchanged."""

def geglu_erf_split(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_geglu_erf_split: gelu_erf(a) * b."""

def geglu_quick(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu_quick: geglu by gelu_quick."""

def geglu_quick_swapped(ctx: Context, a: Tensor) -> Tensor:
    """ggml_geglu_quick_swapped: the halves exchanged."""

def geglu_quick_split(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_geglu_quick_split: gelu_quick(a) * b."""

def swiglu_oai(ctx: Context, a: Tensor, b: Tensor, alpha: float, limit: float) -> Tensor:
    """ggml_swiglu_oai: a * sigmoid(alpha a) * (b + 1), a up to limit, b within +-limit (float32)."""

def reshape(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_reshape: a with b's sizes, the same memory."""

def reshape_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor:
    """ggml_reshape_1d: a with these sizes, the same memory."""

def reshape_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor:
    """ggml_reshape_2d: a with these sizes, the same memory."""

def reshape_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor:
    """ggml_reshape_3d: a with these sizes, the same memory."""

def reshape_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """ggml_reshape_4d: a with these sizes, the same memory."""

def view_1d(ctx: Context, a: Tensor, ne0: int, offset: int) -> Tensor:
    """ggml_view_1d: ne0 elements of a from offset (bytes)."""

def view_2d(ctx: Context, a: Tensor, ne0: int, ne1: int, nb1: int, offset: int) -> Tensor:
    """ggml_view_2d: a part of a's memory, strides and offset in bytes."""

def view_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, nb1: int, nb2: int, offset: int) -> Tensor:
    """ggml_view_3d: a part of a's memory, strides and offset in bytes."""

def view_4d(
    ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int, nb1: int, nb2: int, nb3: int, offset: int
) -> Tensor:
    """ggml_view_4d: a part of a's memory, strides and offset in bytes."""

def view_tensor(ctx: Context, a: Tensor) -> Tensor:
    """ggml_view_tensor: the same tensor under another name."""

def permute(ctx: Context, a: Tensor, axis0: int, axis1: int, axis2: int, axis3: int) -> Tensor:
    """ggml_permute: axisN says where dimension N goes."""

def transpose(ctx: Context, a: Tensor) -> Tensor:
    """ggml_transpose: a view with ne0 and ne1 exchanged."""

def dup(ctx: Context, a: Tensor) -> Tensor:
    """ggml_dup: a copy of a."""

def dup_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_dup_inplace: a view of a as a node."""

def cpy(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_cpy: copies a into b, converting; the result is a view of b."""

def cast(ctx: Context, a: Tensor, type: int) -> Tensor:
    """ggml_cast: a copy of a of another type."""

def cont(ctx: Context, a: Tensor) -> Tensor:
    """ggml_cont: a contiguous copy of a."""

def cont_1d(ctx: Context, a: Tensor, ne0: int) -> Tensor:
    """ggml_cont_1d: a contiguous copy of a with these sizes."""

def cont_2d(ctx: Context, a: Tensor, ne0: int, ne1: int) -> Tensor:
    """ggml_cont_2d: a contiguous copy of a with these sizes."""

def cont_3d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int) -> Tensor:
    """ggml_cont_3d: a contiguous copy of a with these sizes."""

def cont_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """ggml_cont_4d: a contiguous copy of a with these sizes."""

def concat(ctx: Context, a: Tensor, b: Tensor, dim: int) -> Tensor:
    """ggml_concat: a, then b, along dimension dim."""

def repeat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_repeat: a repeated to b's sizes."""

def repeat_4d(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int) -> Tensor:
    """ggml_repeat_4d: a repeated to these sizes."""

def pad(ctx: Context, a: Tensor, p0: int, p1: int, p2: int, p3: int) -> Tensor:
    """ggml_pad: zeros after each dimension."""

def pad_circular(ctx: Context, a: Tensor, p0: int, p1: int, p2: int, p3: int) -> Tensor:
    """ggml_pad_circular: the beginning of each dimension again after it."""

def pad_ext(
    ctx: Context, a: Tensor, lp0: int, rp0: int, lp1: int, rp1: int, lp2: int, rp2: int, lp3: int, rp3: int
) -> Tensor:
    """ggml_pad_ext: zeros before (lp) and after (rp) each dimension."""

def pad_ext_circular(
    ctx: Context, a: Tensor, lp0: int, rp0: int, lp1: int, rp1: int, lp2: int, rp2: int, lp3: int, rp3: int
) -> Tensor:
    """ggml_pad_ext_circular: each dimension wrapped around before (lp) and after (rp) it."""

def pad_reflect_1d(ctx: Context, a: Tensor, p0: int, p1: int) -> Tensor:
    """ggml_pad_reflect_1d: ne0 mirrored at its ends, p0 elements before and p1 after."""

def roll(ctx: Context, a: Tensor, shift0: int, shift1: int, shift2: int, shift3: int) -> Tensor:
    """ggml_roll: each dimension shifted, what falls off comes in again."""

def get_rows(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_get_rows: the rows of a at the int32 indices b, as float32 (int32 of an int32 a)."""

def set_rows(ctx: Context, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """ggml_set_rows: writes the rows b into a at the indices c (int32 or int64); the result is a view of
    a.
    """

def mul_mat(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_mul_mat: a [k, n], b [k, m] -> float32 [n, m]: b times a transposed, for each ne2 and ne3 of b."""

def mul_mat_id(ctx: Context, as_: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """ggml_mul_mat_id: as [k, n, matrices], b [k, m, tokens], int32 ids [used, tokens] -> [n, used,
    tokens]: each token times the matrices that ids name.
    """

def out_prod(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_out_prod: a [n, k], b [m, k] -> float32 [n, m]: the sum of the outer products."""

def solve_tri(
    ctx: Context, a: Tensor, b: Tensor, left: bool = True, lower: bool = True, uni: bool = False
) -> Tensor:
    """ggml_solve_tri: x of a x = b, a lower triangular [n, n], b [m, n] (float32)."""

def diag(ctx: Context, a: Tensor) -> Tensor:
    """ggml_diag: a [n, 1] -> [n, n] with a on the diagonal."""

def diag_mask_inf(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_inf: -inf where i0 > n_past + i1 (float32)."""

def diag_mask_inf_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_inf_inplace: in a's memory."""

def diag_mask_zero(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_zero: 0 where i0 > n_past + i1 (float32)."""

def diag_mask_zero_inplace(ctx: Context, a: Tensor, n_past: int) -> Tensor:
    """ggml_diag_mask_zero_inplace: in a's memory."""

def tri(ctx: Context, a: Tensor, type: int) -> Tensor:
    """ggml_tri: the triangle that a TriType names, 0 elsewhere (float32)."""

def sum(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sum: the sum of all elements, one element of a's type."""

def sum_rows(ctx: Context, a: Tensor) -> Tensor:
    """ggml_sum_rows: [n, ...] -> [1, ...], sums along ne0."""

def cumsum(ctx: Context, a: Tensor) -> Tensor:
    """ggml_cumsum: running sums along ne0."""

def mean(ctx: Context, a: Tensor) -> Tensor:
    """ggml_mean: [n, ...] -> [1, ...], means along ne0."""

def argmax(ctx: Context, a: Tensor) -> Tensor:
    """ggml_argmax: [n, m] -> int32 [m], where each row is largest."""

def count_equal(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_count_equal: in how many places the int32 matrices a and b are equal, one int64."""

def argsort(ctx: Context, a: Tensor, order: int) -> Tensor:
    """ggml_argsort: int32 indices that order each row as a SortOrder says; a must hold no NaN."""

def argsort_top_k(ctx: Context, a: Tensor, k: int) -> Tensor:
    """ggml_argsort_top_k: int32 indices of each row's k largest, largest first (a view); a must hold no
    NaN.
    """

def top_k(ctx: Context, a: Tensor, k: int) -> Tensor:
    """ggml_top_k: int32 indices of each row's k largest, in no order; a must hold no NaN."""

def arange(ctx: Context, start: float, stop: float, step: float = 1.0) -> Tensor:
    """ggml_arange: float32 start, start + step, ... below stop."""

def norm(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_norm: layer normalisation along ne0, without weights."""

def norm_inplace(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_norm_inplace: in a's memory."""

def rms_norm(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_rms_norm: a divided by the root of its mean square along ne0."""

def rms_norm_inplace(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_rms_norm_inplace: in a's memory."""

def group_norm(ctx: Context, a: Tensor, n_groups: int, eps: float) -> Tensor:
    """ggml_group_norm: normalisation over ne0, ne1 and groups of ne2."""

def group_norm_inplace(ctx: Context, a: Tensor, n_groups: int, eps: float) -> Tensor:
    """ggml_group_norm_inplace: in a's memory."""

def l2_norm(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_l2_norm: a divided by its Euclidean length along ne0, or by eps where that is larger."""

def l2_norm_inplace(ctx: Context, a: Tensor, eps: float) -> Tensor:
    """ggml_l2_norm_inplace: in a's memory."""

def soft_max(ctx: Context, a: Tensor) -> Tensor:
    """ggml_soft_max: softmax along ne0 (float32)."""

def soft_max_inplace(ctx: Context, a: Tensor) -> Tensor:
    """ggml_soft_max_inplace: in a's memory."""

def soft_max_ext(ctx: Context, a: Tensor, mask: Tensor | None, scale: float, max_bias: float = 0.0) -> Tensor:
    """ggml_soft_max_ext: softmax(a * scale + mask) along ne0, with ALiBi slopes where max_bias > 0."""

def soft_max_ext_inplace(
    ctx: Context, a: Tensor, mask: Tensor | None, scale: float, max_bias: float = 0.0
) -> Tensor:
    """ggml_soft_max_ext_inplace: in a's memory."""

def cross_entropy_loss(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_cross_entropy_loss: the mean over rows of -sum(b * log_softmax(a)), one element."""

def rope(ctx: Context, a: Tensor, b: Tensor, n_dims: int, mode: int) -> Tensor:
    """ggml_rope: a [d, heads, tokens] with the first n_dims rotated by the int32 positions b; mode:
    RopeMode.
    """

def rope_inplace(ctx: Context, a: Tensor, b: Tensor, n_dims: int, mode: int) -> Tensor:
    """ggml_rope_inplace: in a's memory."""

def rope_ext(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    n_dims: int,
    mode: int,
    n_ctx_orig: int = 0,
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
) -> Tensor:
    """ggml_rope_ext: rope with frequency factors c (float32, half of a's ne0) or None, and YaRN's
    parameters.
    """

def rope_ext_inplace(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    n_dims: int,
    mode: int,
    n_ctx_orig: int = 0,
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
) -> Tensor:
    """ggml_rope_ext_inplace: in a's memory."""

def rope_multi(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    n_dims: int,
    sections: Sequence[int],
    mode: int,
    n_ctx_orig: int = 0,
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
) -> Tensor:
    """ggml_rope_multi: rope with four positions a token (b: int32, 4 * tokens), each for its section of
    pairs.
    """

def rope_multi_inplace(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    n_dims: int,
    sections: Sequence[int],
    mode: int,
    n_ctx_orig: int = 0,
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
) -> Tensor:
    """ggml_rope_multi_inplace: in a's memory."""

def flash_attn_ext(
    ctx: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    max_bias: float = 0.0,
    logit_softcap: float = 0.0,
) -> Tensor:
    """ggml_flash_attn_ext: q [d, queries, heads], k [d, keys, heads], v [dv, keys, heads], float16 mask
    [keys, queries] or None -> float32 [dv, heads, queries]: softmax(q k scale + mask) v.
    """

def lightning_indexer(ctx: Context, q: Tensor, k: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """ggml_lightning_indexer: DeepSeek's sparse-attention scores: q [d, heads, tokens, s], k [d, 1, keys,
    s], weights [heads, tokens, 1, s], float16 mask [keys, tokens, 1, s] -> [keys, tokens, 1, s].
    """

def dsv4_hc_comb(ctx: Context, mixes: Tensor, scale: Tensor, base: Tensor, eps: float, n_iter: int) -> Tensor:
    """ggml_dsv4_hc_comb: hyper-connections (arXiv:2512.24880): mixes [24, tokens], scale [3], base [24]
    -> [4, 4, tokens].
    """

def dsv4_hc_pre(ctx: Context, x: Tensor, weights: Tensor) -> Tensor:
    """ggml_dsv4_hc_pre: x [n, streams, tokens], weights [streams, tokens] -> [n, tokens], the weighted
    sum.
    """

def dsv4_hc_post(ctx: Context, x: Tensor, residual: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """ggml_dsv4_hc_post: x [n, tokens], residual [n, streams, tokens], post [streams, tokens], comb
    [streams, streams, tokens] -> [n, streams, tokens].
    """

def im2col(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    s0: int,
    s1: int,
    p0: int,
    p1: int,
    d0: int,
    d1: int,
    is_2d: bool,
    type: int,
) -> Tensor:
    """ggml_im2col: the patches of b under a kernel of a's size: [kw * kh * in, ow, oh, n]."""

def im2col_3d(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    ic: int,
    s0: int,
    s1: int,
    s2: int,
    p0: int,
    p1: int,
    p2: int,
    d0: int,
    d1: int,
    d2: int,
    type: int,
) -> Tensor:
    """ggml_im2col_3d: the patches of b [w, h, d, ic * n]: [kw * kh * kd * ic, ow, oh, od * n]."""

def conv_1d(ctx: Context, a: Tensor, b: Tensor, s0: int, p0: int, d0: int) -> Tensor:
    """ggml_conv_1d: a [k, in, out], b [n, in, batch] -> [on, out, batch], through float16 patches."""

def conv_1d_ph(ctx: Context, a: Tensor, b: Tensor, s: int, d: int) -> Tensor:
    """ggml_conv_1d_ph: conv_1d padded by half of the kernel."""

def conv_1d_dw(ctx: Context, a: Tensor, b: Tensor, s0: int, p0: int, d0: int) -> Tensor:
    """ggml_conv_1d_dw: depthwise: a [k, 1, channels], b [n, channels] -> [on, channels], through float16
    patches.
    """

def conv_1d_dw_ph(ctx: Context, a: Tensor, b: Tensor, s0: int, d0: int) -> Tensor:
    """ggml_conv_1d_dw_ph: conv_1d_dw padded by half of the kernel."""

def conv_transpose_1d(ctx: Context, a: Tensor, b: Tensor, s0: int, p0: int = 0, d0: int = 1) -> Tensor:
    """ggml_conv_transpose_1d: a [k, out, in], b [n, in] -> [(n - 1) * s0 + k, out]."""

def col2im_1d(ctx: Context, a: Tensor, s0: int, oc: int, p0: int) -> Tensor:
    """ggml_col2im_1d: columns a [k * oc, n] added up at stride s0: [(n - 1) * s0 + k - 2 * p0, oc]."""

def conv_2d(
    ctx: Context, a: Tensor, b: Tensor, s0: int, s1: int, p0: int, p1: int, d0: int, d1: int
) -> Tensor:
    """ggml_conv_2d: a [kw, kh, in, out], b [w, h, in, n] -> [ow, oh, out, n], through float16 patches."""

def conv_2d_sk_p0(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_conv_2d_sk_p0: conv_2d with the kernel's size as stride, no padding."""

def conv_2d_s1_ph(ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    """ggml_conv_2d_s1_ph: conv_2d with stride 1, padded by half of the kernel."""

def conv_2d_dw(
    ctx: Context, a: Tensor, b: Tensor, s0: int, s1: int, p0: int, p1: int, d0: int, d1: int
) -> Tensor:
    """ggml_conv_2d_dw: depthwise: float16 a [kw, kh, 1, channels], b [w, h, channels, n]."""

def conv_2d_dw_direct(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    stride0: int,
    stride1: int,
    pad0: int,
    pad1: int,
    dilation0: int,
    dilation1: int,
) -> Tensor:
    """ggml_conv_2d_dw_direct: depthwise without patches; the layout of the result follows b's."""

def conv_2d_direct(
    ctx: Context, a: Tensor, b: Tensor, s0: int, s1: int, p0: int, p1: int, d0: int, d1: int
) -> Tensor:
    """ggml_conv_2d_direct: conv_2d of float32 b in one operator."""

def conv_transpose_2d_p0(ctx: Context, a: Tensor, b: Tensor, stride: int) -> Tensor:
    """ggml_conv_transpose_2d_p0: a [kw, kh, out, in], b [w, h, in] -> [(w - 1) * stride + kw, ..., out]."""

def conv_3d(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    ic: int,
    s0: int,
    s1: int,
    s2: int,
    p0: int,
    p1: int,
    p2: int,
    d0: int,
    d1: int,
    d2: int,
) -> Tensor:
    """ggml_conv_3d: a [kw, kh, kd, ic * out], b [w, h, d, ic * n] -> [ow, oh, od, out * n], float16
    patches.
    """

def conv_3d_direct(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    s0: int,
    s1: int,
    s2: int,
    p0: int,
    p1: int,
    p2: int,
    d0: int,
    d1: int,
    d2: int,
    n_channels: int,
    n_batch: int,
    n_channels_out: int,
) -> Tensor:
    """ggml_conv_3d_direct: conv_3d of float32 b in one operator."""

def pool_1d(ctx: Context, a: Tensor, op: int, k0: int, s0: int, p0: int) -> Tensor:
    """ggml_pool_1d: the largest or mean (a Pool) of each k0 elements along ne0, s0 apart."""

def pool_2d(
    ctx: Context, a: Tensor, op: int, k0: int, k1: int, s0: int, s1: int, p0: float, p1: float
) -> Tensor:
    """ggml_pool_2d: the largest or mean (a Pool) of each k0 x k1 elements; means count the padding in."""

def ssm_conv(ctx: Context, sx: Tensor, c: Tensor) -> Tensor:
    """ggml_ssm_conv: depthwise causal convolution: sx [d_conv - 1 + tokens, d, sequences], c [d_conv, d]
    -> [d, tokens, sequences].
    """

def ssm_scan(
    ctx: Context,
    s: Tensor,
    x: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    ids: Tensor,
    n_states: int = 1,
) -> Tensor:
    """ggml_ssm_scan: Mamba's scan: s [state, dim, heads, states], x [dim, heads, tokens, sequences], dt
    [heads, tokens, sequences], a [1 or state, heads], b and c [state, groups, tokens, sequences], int32
    ids [sequences] of the states to begin with -> one vector: the outputs, then the last n_states states.
    """

def rwkv_wkv6(ctx: Context, k: Tensor, v: Tensor, r: Tensor, tf: Tensor, td: Tensor, state: Tensor) -> Tensor:
    """ggml_rwkv_wkv6: RWKV-6: k, v, r, td [size, heads, tokens], tf [size, heads], state [size * size *
    heads, sequences] -> [size * heads, tokens + size * sequences]: outputs, then states.
    """

def rwkv_wkv7(
    ctx: Context, r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor
) -> Tensor:
    """ggml_rwkv_wkv7: RWKV-7: r, w, k, v, a, b [size, heads, tokens], size a multiple of 64; result as
    rwkv_wkv6.
    """

def gated_linear_attn(
    ctx: Context, k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, scale: float
) -> Tensor:
    """ggml_gated_linear_attn: k, v, q, g [size, heads, tokens], state as rwkv_wkv6; result as rwkv_wkv6."""

def gated_delta_net(
    ctx: Context, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor, n_states: int = 1
) -> Tensor:
    """ggml_gated_delta_net: q, k, v [size, heads, tokens, sequences], g [1 or size, heads, tokens,
    sequences], beta [1, heads, tokens, sequences], state [size, size, heads, sequences] -> [size * heads,
    tokens * sequences + n_states * size * sequences]: outputs, then the last n_states states, newest
    first.
    """

def upscale(ctx: Context, a: Tensor, scale_factor: int, mode: int) -> Tensor:
    """ggml_upscale: ne0 and ne1 scale_factor times, as a ScaleMode says."""

def interpolate(ctx: Context, a: Tensor, ne0: int, ne1: int, ne2: int, ne3: int, mode: int) -> Tensor:
    """ggml_interpolate: a resampled to these sizes; mode: a ScaleMode, or'ed with ScaleFlags."""

def win_part(ctx: Context, a: Tensor, w: int) -> Tensor:
    """ggml_win_part: a [n, width, height] -> windows [n, w, w, count], zeros at the far edges."""

def win_unpart(ctx: Context, a: Tensor, w0: int, h0: int, w: int) -> Tensor:
    """ggml_win_unpart: windows [n, w, w, count] -> [n, w0, h0], what win_part made."""

def get_rel_pos(ctx: Context, a: Tensor, qh: int, kh: int) -> Tensor:
    """ggml_get_rel_pos: float16 a [n, 2 * qh - 1] -> float16 [n, kh, qh], the row of each distance."""

def add_rel_pos(ctx: Context, a: Tensor, pw: Tensor, ph: Tensor) -> Tensor:
    """ggml_add_rel_pos: a [k * k, q * q, batch] plus pw over columns and ph over rows, both [k, q, q,
    batch].
    """

def add_rel_pos_inplace(ctx: Context, a: Tensor, pw: Tensor, ph: Tensor) -> Tensor:
    """ggml_add_rel_pos_inplace: in a's memory."""

def timestep_embedding(ctx: Context, timesteps: Tensor, dim: int, max_period: int) -> Tensor:
    """ggml_timestep_embedding: timesteps [n] -> [dim, n], cosines, then sines of frequencies down to
    1/max_period.
    """

def mul_mat_set_prec(a: Tensor, prec: int) -> None:
    """ggml_mul_mat_set_prec: how exactly devices compute the mul_mat `a`, a Prec."""

def flash_attn_ext_set_prec(a: Tensor, prec: int) -> None:
    """ggml_flash_attn_ext_set_prec: how exactly devices compute the attention, a Prec."""

def soft_max_add_sinks(a: Tensor, sinks: Tensor) -> None:
    """ggml_soft_max_add_sinks: one more logit for each head, that only takes probability away."""

def flash_attn_ext_add_sinks(a: Tensor, sinks: Tensor) -> None:
    """ggml_flash_attn_ext_add_sinks: one more logit for each head, that only takes probability away."""
