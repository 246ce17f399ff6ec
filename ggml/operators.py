"""What becomes of every function of ``ggml.h`` that returns a tensor: its Python name, or why there is none.

``docs/ggml-operators.md``, ``ggml/ops.py`` and ``ggml/ops.pyi`` follow from this table
(``scripts/make_operator_table.py``); a test compares it with the header of the installed ggml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a function of ggml has no operator in Python, and what to use where there is something."""

    reason: str


_SUBJECTS: Mapping[str, str] = {
    "Arithmetic": """
        add add_inplace add_cast add_id sub sub_inplace mul mul_inplace div div_inplace sqr
        sqr_inplace sqrt sqrt_inplace log log_inplace sin sin_inplace cos cos_inplace scale
        scale_inplace scale_bias scale_bias_inplace leaky_relu clamp fill fill_inplace acc
        acc_inplace set set_inplace set_1d set_1d_inplace set_2d set_2d_inplace
    """,
    "Functions of one element": """
        abs abs_inplace sgn sgn_inplace neg neg_inplace step step_inplace tanh tanh_inplace elu
        elu_inplace relu relu_inplace sigmoid sigmoid_inplace gelu gelu_inplace gelu_erf
        gelu_erf_inplace gelu_quick gelu_quick_inplace silu silu_inplace hardswish hardsigmoid exp
        exp_inplace expm1 expm1_inplace softplus softplus_inplace floor floor_inplace ceil
        ceil_inplace round round_inplace trunc trunc_inplace unary unary_inplace xielu
    """,
    "Gated linear units": """
        glu glu_split reglu reglu_swapped reglu_split geglu geglu_swapped geglu_split swiglu
        swiglu_swapped swiglu_split geglu_erf geglu_erf_swapped geglu_erf_split geglu_quick
        geglu_quick_swapped geglu_quick_split swiglu_oai
    """,
    "Shapes and views": """
        reshape reshape_1d reshape_2d reshape_3d reshape_4d view_1d view_2d view_3d view_4d
        view_tensor permute transpose
    """,
    "Copies": """
        dup dup_inplace cpy cast cont cont_1d cont_2d cont_3d cont_4d concat repeat repeat_4d pad
        pad_circular pad_ext pad_ext_circular pad_reflect_1d roll get_rows set_rows
    """,
    "Matrices": """
        mul_mat mul_mat_id out_prod solve_tri diag diag_mask_inf diag_mask_inf_inplace
        diag_mask_zero diag_mask_zero_inplace tri
    """,
    "Sums, orders, ranges": """
        sum sum_rows cumsum mean argmax count_equal argsort argsort_top_k top_k arange
    """,
    "Normalisation and softmax": """
        norm norm_inplace rms_norm rms_norm_inplace group_norm group_norm_inplace l2_norm
        l2_norm_inplace soft_max soft_max_inplace soft_max_ext soft_max_ext_inplace
        cross_entropy_loss
    """,
    "Positions and attention": """
        rope rope_inplace rope_ext rope_ext_inplace rope_multi rope_multi_inplace flash_attn_ext
        lightning_indexer dsv4_hc_comb dsv4_hc_pre dsv4_hc_post
    """,
    "Convolution and pooling": """
        im2col im2col_3d conv_1d conv_1d_ph conv_1d_dw conv_1d_dw_ph conv_transpose_1d col2im_1d
        conv_2d conv_2d_sk_p0 conv_2d_s1_ph conv_2d_dw conv_2d_dw_direct conv_2d_direct
        conv_transpose_2d_p0 conv_3d conv_3d_direct pool_1d pool_2d
    """,
    "Sequence models": """
        ssm_conv ssm_scan rwkv_wkv6 rwkv_wkv7 gated_linear_attn gated_delta_net
    """,
    "Images and time": """
        upscale interpolate win_part win_unpart get_rel_pos add_rel_pos add_rel_pos_inplace
        timestep_embedding
    """,
}

SUBJECTS: Mapping[str, tuple[str, ...]] = {
    subject: tuple(names.split()) for subject, names in _SUBJECTS.items()
}
"""The operators in Python by subject."""

SETTERS = ("mul_mat_set_prec", "flash_attn_ext_set_prec", "soft_max_add_sinks", "flash_attn_ext_add_sinks")
"""Functions of ``ggml.h`` that set something on an operator's result; they return nothing."""

OPTIONAL: Mapping[str, str] = {
    "soft_max_ext": "mask",
    "soft_max_ext_inplace": "mask",
    "flash_attn_ext": "mask",
    "rope_ext": "c",
    "rope_ext_inplace": "c",
    "rope_multi": "c",
    "rope_multi_inplace": "c",
}
"""The tensor argument of an operator that may be None."""

_TRAINING = "training only: a gradient; ggml builds it for its own optimiser"
_OPTIMISER = "training only: a step of ggml's optimiser"
_CALLBACK = "takes a C function pointer that ggml calls on its worker threads, where Python cannot run"
_VIA_NEW_TENSOR = "Context.new_tensor(type, ne)"

_LEFT_OUT: Mapping[str, str] = {
    "new_tensor": _VIA_NEW_TENSOR,
    "new_tensor_1d": _VIA_NEW_TENSOR,
    "new_tensor_2d": _VIA_NEW_TENSOR,
    "new_tensor_3d": _VIA_NEW_TENSOR,
    "new_tensor_4d": _VIA_NEW_TENSOR,
    "dup_tensor": "Context.new_tensor(tensor.type, tensor.ne)",
    "get_first_tensor": "Context.tensors()",
    "get_next_tensor": "Context.tensors()",
    "get_tensor": "Context.tensors(), each with its name",
    "set_name": "Tensor.name",
    "format_name": "Tensor.name",
    "set_zero": "Tensor.set, or Buffer.clear for all of a buffer",
    "graph_node": "Graph.nodes",
    "graph_get_tensor": "Graph.nodes, each with its name",
    "graph_get_grad": _TRAINING,
    "graph_get_grad_acc": _TRAINING,
    "build_forward_select": "Graph.expand of the one result that is wanted",
    "add1": "deprecated by ggml: use add",
    "add1_inplace": "deprecated by ggml: use add_inplace",
    "rope_custom": "deprecated by ggml: use rope_ext",
    "rope_custom_inplace": "deprecated by ggml: use rope_ext_inplace",
    "upscale_ext": "deprecated by ggml: use interpolate",
    "repeat_back": _TRAINING,
    "silu_back": _TRAINING,
    "rms_norm_back": _TRAINING,
    "get_rows_back": _TRAINING,
    "soft_max_ext_back": _TRAINING,
    "soft_max_ext_back_inplace": _TRAINING,
    "rope_ext_back": _TRAINING,
    "rope_multi_back": _TRAINING,
    "im2col_back": _TRAINING,
    "pool_2d_back": _TRAINING,
    "flash_attn_back": "training only, and not implemented: ggml 0.20.2 aborts at once",
    "cross_entropy_loss_back": _TRAINING,
    "opt_step_adamw": _OPTIMISER,
    "opt_step_sgd": _OPTIMISER,
    "map_custom1": _CALLBACK,
    "map_custom1_inplace": _CALLBACK,
    "map_custom2": _CALLBACK,
    "map_custom2_inplace": _CALLBACK,
    "map_custom3": _CALLBACK,
    "map_custom3_inplace": _CALLBACK,
    "custom_4d": _CALLBACK,
    "custom_inplace": _CALLBACK,
}

OPERATORS: Mapping[str, str | LeftOut] = {
    **{f"ggml_{name}": name for names in SUBJECTS.values() for name in names},
    **{f"ggml_{name}": LeftOut(reason) for name, reason in _LEFT_OUT.items()},
}
"""C name to Python name or :class:`LeftOut`, for every function of ``ggml.h`` that returns a tensor."""
