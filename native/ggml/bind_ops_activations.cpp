// Functions of one element, and gated linear units.

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;

void check_float(const Call& c, In a) {
    c.need(is_float(a), "a must be f32, f16 or bf16");
    c.need(dense(a), "the rows of a must be contiguous");
}

// The kernels of gelu and silu have no bf16.
void check_half(const Call& c, In a) {
    c.need(is_f32_or_f16(a), "a must be f32 or f16");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_unary_op(const Call& c, In a, ggml_unary_op op) {
    c.value(op != GGML_UNARY_OP_XIELU, "xielu has parameters: use ggml.xielu");
    const bool half = op == GGML_UNARY_OP_GELU || op == GGML_UNARY_OP_GELU_QUICK ||
                      op == GGML_UNARY_OP_GELU_ERF || op == GGML_UNARY_OP_SILU;
    (half ? check_half : check_float)(c, a);
}

void check_xielu(const Call& c, In a, float, float, float, float) {
    check_float(c, a);
    c.need(ggml_is_contiguous_1(a), "a must be contiguous from the second dimension on");
}

void check_glu_type(const Call& c, In a, ggml_glu_op op) {
    if (op == GGML_GLU_OP_SWIGLU_OAI) {
        c.need(is_f32(a), "a must be f32");
    } else {
        c.need(is_f32_or_f16(a), "a must be f32 or f16");
    }
    c.need(ggml_is_contiguous_1(a) && even_rows(a), "a's rows must be contiguous and at equal distances");
}

void check_glu(const Call& c, In a, ggml_glu_op op, bool) {
    check_glu_type(c, a, op);
    c.need(a->ne[0] % 2 == 0, "a's ne0, values and gates, must be even");
}

void check_glu_split(const Call& c, In a, In b, ggml_glu_op op) {
    check_glu_type(c, a, op);
    c.need(a->type == b->type && same_shape(a, b), "b must have a's type and sizes");
    c.need(ggml_is_contiguous_1(b) && even_rows(b), "b's rows must be contiguous and at equal distances");
}

void check_halves(const Call& c, In a) { check_glu(c, a, GGML_GLU_OP_REGLU, false); }
void check_split(const Call& c, In a, In b) { check_glu_split(c, a, b, GGML_GLU_OP_REGLU); }

void check_swiglu_oai(const Call& c, In a, In b, float, float) {
    check_glu_split(c, a, b, GGML_GLU_OP_SWIGLU_OAI);
}

}  // namespace

void bind_activations(py::module_& m) {
    const auto a = needed("a"), b = needed("b");

    def(m, "abs", ggml_abs, check_float, "ggml_abs: the absolute value.", a);
    def(m, "abs_inplace", ggml_abs_inplace, check_float, "ggml_abs_inplace: in a's memory.", a);
    def(m, "sgn", ggml_sgn, check_float, "ggml_sgn: -1, 0 or 1.", a);
    def(m, "sgn_inplace", ggml_sgn_inplace, check_float, "ggml_sgn_inplace: in a's memory.", a);
    def(m, "neg", ggml_neg, check_float, "ggml_neg: -a.", a);
    def(m, "neg_inplace", ggml_neg_inplace, check_float, "ggml_neg_inplace: in a's memory.", a);
    def(m, "step", ggml_step, check_float, "ggml_step: 1 where a > 0, 0 elsewhere.", a);
    def(m, "step_inplace", ggml_step_inplace, check_float, "ggml_step_inplace: in a's memory.", a);
    def(m, "tanh", ggml_tanh, check_float, "ggml_tanh: the hyperbolic tangent.", a);
    def(m, "tanh_inplace", ggml_tanh_inplace, check_float, "ggml_tanh_inplace: in a's memory.", a);
    def(m, "elu", ggml_elu, check_float, "ggml_elu: a where positive, exp(a) - 1 elsewhere.", a);
    def(m, "elu_inplace", ggml_elu_inplace, check_float, "ggml_elu_inplace: in a's memory.", a);
    def(m, "relu", ggml_relu, check_float, "ggml_relu: max(a, 0).", a);
    def(m, "relu_inplace", ggml_relu_inplace, check_float, "ggml_relu_inplace: in a's memory.", a);
    def(m, "sigmoid", ggml_sigmoid, check_float, "ggml_sigmoid: 1 / (1 + exp(-a)).", a);
    def(m, "sigmoid_inplace", ggml_sigmoid_inplace, check_float, "ggml_sigmoid_inplace: in a's memory.", a);
    def(m, "gelu", ggml_gelu, check_half, "ggml_gelu: GELU by its tanh approximation.", a);
    def(m, "gelu_inplace", ggml_gelu_inplace, check_half, "ggml_gelu_inplace: in a's memory.", a);
    def(m, "gelu_erf", ggml_gelu_erf, check_half, "ggml_gelu_erf: GELU by the error function.", a);
    def(m, "gelu_erf_inplace", ggml_gelu_erf_inplace, check_half, "ggml_gelu_erf_inplace: in a's memory.", a);
    def(m, "gelu_quick", ggml_gelu_quick, check_half, "ggml_gelu_quick: a * sigmoid(1.702 a).", a);
    def(m, "gelu_quick_inplace", ggml_gelu_quick_inplace, check_half,
        "ggml_gelu_quick_inplace: in a's memory.", a);
    def(m, "silu", ggml_silu, check_half, "ggml_silu: a * sigmoid(a), called Swish in NeMo.", a);
    def(m, "silu_inplace", ggml_silu_inplace, check_half, "ggml_silu_inplace: in a's memory.", a);
    def(m, "hardswish", ggml_hardswish, check_float, "ggml_hardswish: a * min(1, max(0, (a + 3) / 6)).", a);
    def(m, "hardsigmoid", ggml_hardsigmoid, check_float, "ggml_hardsigmoid: min(1, max(0, (a + 3) / 6)).", a);
    def(m, "exp", ggml_exp, check_float, "ggml_exp: e to the power of a.", a);
    def(m, "exp_inplace", ggml_exp_inplace, check_float, "ggml_exp_inplace: in a's memory.", a);
    def(m, "expm1", ggml_expm1, check_float, "ggml_expm1: exp(a) - 1.", a);
    def(m, "expm1_inplace", ggml_expm1_inplace, check_float, "ggml_expm1_inplace: in a's memory.", a);
    def(m, "softplus", ggml_softplus, check_float, "ggml_softplus: log(1 + exp(a)).", a);
    def(m, "softplus_inplace", ggml_softplus_inplace, check_float, "ggml_softplus_inplace: in a's memory.",
        a);
    def(m, "floor", ggml_floor, check_float, "ggml_floor: to the whole number below.", a);
    def(m, "floor_inplace", ggml_floor_inplace, check_float, "ggml_floor_inplace: in a's memory.", a);
    def(m, "ceil", ggml_ceil, check_float, "ggml_ceil: to the whole number above.", a);
    def(m, "ceil_inplace", ggml_ceil_inplace, check_float, "ggml_ceil_inplace: in a's memory.", a);
    def(m, "round", ggml_round, check_float, "ggml_round: to the nearest whole number, halves away from 0.",
        a);
    def(m, "round_inplace", ggml_round_inplace, check_float, "ggml_round_inplace: in a's memory.", a);
    def(m, "trunc", ggml_trunc, check_float, "ggml_trunc: to the whole number towards 0.", a);
    def(m, "trunc_inplace", ggml_trunc_inplace, check_float, "ggml_trunc_inplace: in a's memory.", a);
    def(m, "unary", ggml_unary, check_unary_op, "ggml_unary: the function that a UnaryOp names.", a,
        py::arg("op"));
    def(m, "unary_inplace", ggml_unary_inplace, check_unary_op, "ggml_unary_inplace: in a's memory.", a,
        py::arg("op"));
    def(m, "xielu", ggml_xielu, check_xielu, "ggml_xielu: the xIELU activation (arXiv:2411.13010).", a,
        py::arg("alpha_n"), py::arg("alpha_p"), py::arg("beta"), py::arg("eps"));

    // Gated linear units: a [2n, ...] holds values and gates, or a holds values and b gates.
    def(m, "glu", ggml_glu, check_glu,
        "ggml_glu: the gated linear unit that a GluOp names, of a's two halves.", a, py::arg("op"),
        py::arg("swapped") = false);
    def(m, "glu_split", ggml_glu_split, check_glu_split, "ggml_glu_split: the same, of a and the gates b.", a,
        b, py::arg("op"));
    def(m, "reglu", ggml_reglu, check_halves, "ggml_reglu: relu(first half) * second half of ne0.", a);
    def(m, "reglu_swapped", ggml_reglu_swapped, check_halves, "ggml_reglu_swapped: the halves exchanged.", a);
    def(m, "reglu_split", ggml_reglu_split, check_split, "ggml_reglu_split: relu(a) * b.", a, b);
    def(m, "geglu", ggml_geglu, check_halves, "ggml_geglu: gelu(first half) * second half of ne0.", a);
    def(m, "geglu_swapped", ggml_geglu_swapped, check_halves, "ggml_geglu_swapped: the halves exchanged.", a);
    def(m, "geglu_split", ggml_geglu_split, check_split, "ggml_geglu_split: gelu(a) * b.", a, b);
    def(m, "swiglu", ggml_swiglu, check_halves, "ggml_swiglu: silu(first half) * second half of ne0.", a);
    def(m, "swiglu_swapped", ggml_swiglu_swapped, check_halves, "ggml_swiglu_swapped: the halves exchanged.",
        a);
    def(m, "swiglu_split", ggml_swiglu_split, check_split, "ggml_swiglu_split: silu(a) * b.", a, b);
    def(m, "geglu_erf", ggml_geglu_erf, check_halves, "ggml_geglu_erf: geglu by the error function.", a);
    def(m, "geglu_erf_swapped", ggml_geglu_erf_swapped, check_halves,
        "ggml_geglu_erf_swapped: the halves exchanged.", a);
    def(m, "geglu_erf_split", ggml_geglu_erf_split, check_split, "ggml_geglu_erf_split: gelu_erf(a) * b.", a,
        b);
    def(m, "geglu_quick", ggml_geglu_quick, check_halves, "ggml_geglu_quick: geglu by gelu_quick.", a);
    def(m, "geglu_quick_swapped", ggml_geglu_quick_swapped, check_halves,
        "ggml_geglu_quick_swapped: the halves exchanged.", a);
    def(m, "geglu_quick_split", ggml_geglu_quick_split, check_split,
        "ggml_geglu_quick_split: gelu_quick(a) * b.", a, b);
    def(m, "swiglu_oai", ggml_swiglu_oai, check_swiglu_oai,
        "ggml_swiglu_oai: a * sigmoid(alpha a) * (b + 1), a up to limit, b within +-limit (float32).", a, b,
        py::arg("alpha"), py::arg("limit"));
}

}  // namespace ggmlpy
