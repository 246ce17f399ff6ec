// Products of matrices, and matrices by their shape.

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;

void check_product_types(const Call& c, In a, In b) {
    c.need(multiplies(a->type, b->type),
           "ggml cannot multiply by b of this type with a, the weights, of this type");
    c.need(dense(a) && dense(b), "the rows of a and b must be contiguous");
    c.need(!ggml_is_transposed(a), "a must not be transposed");
}

void check_mul_mat(const Call& c, In a, In b) {
    c.not_empty();
    c.need(a->ne[0] == b->ne[0], "a [k, n] and b [k, m] must have the same ne0");
    c.need(divides(a->ne[2], b->ne[2]) && divides(a->ne[3], b->ne[3]),
           "b's ne2 and ne3 must be whole multiples of a's");
    check_product_types(c, a, b);
}

void check_mul_mat_id(const Call& c, In as, In b, In ids) {
    c.not_empty();
    c.need(ids->type == GGML_TYPE_I32, "ids must be i32");
    c.need(as->ne[3] == 1 && b->ne[3] == 1 && is_matrix(ids), "as and b must have 3 dimensions, ids 2");
    c.need(as->ne[0] == b->ne[0], "as [k, n, matrices] and b [k, m, tokens] must have the same ne0");
    c.need(ids->ne[1] == b->ne[2], "ids must be [used, b's ne2]");
    c.need(divides(b->ne[1], ids->ne[0]), "b's ne1 must divide ids' ne0");
    check_product_types(c, as, b);
}

void check_out_prod(const Call& c, In a, In b) {
    c.not_empty();
    c.need(a->ne[1] == b->ne[1], "a [n, k] and b [m, k] must have the same ne1");
    c.need(is_f32(b), "b must be f32");
    c.need(dense(a) && !ggml_is_transposed(a), "the rows of a must be contiguous");
    if (is_f32(a)) {
        c.need(divides(a->ne[2], b->ne[2]) && divides(a->ne[3], b->ne[3]),
               "b's ne2 and ne3 must be whole multiples of a's");
        return;
    }
    c.need(a->type == GGML_TYPE_F16 || (ggml_is_quantized(a->type) && reads_rows(a->type)),
           "a must be f32, f16 or quantised");
    c.need(a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3],
           "a and b must have the same ne2 and ne3 unless a is f32");
}

void check_solve_tri(const Call& c, In a, In b, bool left, bool lower, bool uni) {
    c.not_empty();
    c.value(left && lower && !uni, "ggml solves only left=True, lower=True, uni=False");
    c.need(is_f32(a) && is_f32(b), "a and b must be f32");
    c.need(a->ne[0] == a->ne[1], "a must be square");
    c.need(a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3],
           "b must have as many rows and matrices as a");
    c.need(packed(a) && packed(b), "a and b must be contiguous");
}

void check_diag(const Call& c, In a) {
    c.need(is_f32(a), "a must be f32");
    c.need(a->ne[1] == 1, "a's ne1 must be 1");
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_diag_mask(const Call& c, In a, int n_past) {
    c.need(is_f32(a) && packed(a), "a must be f32 and contiguous");
    c.counts({n_past}, 0, "n_past");
}

void check_tri(const Call& c, In a, ggml_tri_type) {
    c.need(is_f32(a) && contiguous(a), "a must be f32 and contiguous");
    c.need(a->ne[0] == a->ne[1], "a must be square");
}

void set_precision(const Tensor& a, int precision, ggml_op op, void (*set)(ggml_tensor*, ggml_prec),
                   const char* name) {
    Guard guard;
    if (precision != GGML_PREC_DEFAULT && precision != GGML_PREC_F32) {
        throw py::value_error(std::string(name) + ": precision must be Prec.DEFAULT or Prec.F32");
    }
    if (a.get()->op != op) {
        throw GgmlFailure(std::string(name) + ": " + describe(a.get()) + " is the result of " +
                          ggml_op_desc(a.get()) + ", not of " + ggml_op_name(op));
    }
    set(a.get(), static_cast<ggml_prec>(precision));
}

}  // namespace

void bind_matrices(py::module_& m) {
    const auto a = needed("a"), b = needed("b");

    def(m, "mul_mat", ggml_mul_mat, check_mul_mat,
        "ggml_mul_mat: a [k, n], b [k, m] -> float32 [n, m]: b times a transposed, for each ne2 and ne3 of "
        "b.",
        a, b);
    def(m, "mul_mat_id", ggml_mul_mat_id, check_mul_mat_id,
        "ggml_mul_mat_id: as [k, n, matrices], b [k, m, tokens], int32 ids [used, tokens] -> [n, used, "
        "tokens]: "
        "each token times the matrices that ids name.",
        needed("as_"), b, needed("ids"));
    def(m, "out_prod", ggml_out_prod, check_out_prod,
        "ggml_out_prod: a [n, k], b [m, k] -> float32 [n, m]: the sum of the outer products.", a, b);
    def(m, "solve_tri", ggml_solve_tri, check_solve_tri,
        "ggml_solve_tri: x of a x = b, a lower triangular [n, n], b [m, n] (float32).", a, b,
        py::arg("left") = true, py::arg("lower") = true, py::arg("uni") = false);
    def(m, "diag", ggml_diag, check_diag, "ggml_diag: a [n, 1] -> [n, n] with a on the diagonal.", a);
    def(m, "diag_mask_inf", ggml_diag_mask_inf, check_diag_mask,
        "ggml_diag_mask_inf: -inf where i0 > n_past + i1 (float32).", a, py::arg("n_past"));
    def(m, "diag_mask_inf_inplace", ggml_diag_mask_inf_inplace, check_diag_mask,
        "ggml_diag_mask_inf_inplace: in a's memory.", a, py::arg("n_past"));
    def(m, "diag_mask_zero", ggml_diag_mask_zero, check_diag_mask,
        "ggml_diag_mask_zero: 0 where i0 > n_past + i1 (float32).", a, py::arg("n_past"));
    def(m, "diag_mask_zero_inplace", ggml_diag_mask_zero_inplace, check_diag_mask,
        "ggml_diag_mask_zero_inplace: in a's memory.", a, py::arg("n_past"));
    def(m, "tri", ggml_tri, check_tri, "ggml_tri: the triangle that a TriType names, 0 elsewhere (float32).",
        a, py::arg("type"));

    m.def(
        "mul_mat_set_prec",
        [](const Tensor& t, int prec) {
            set_precision(t, prec, GGML_OP_MUL_MAT, ggml_mul_mat_set_prec, "mul_mat_set_prec");
        },
        a, py::arg("prec"), "ggml_mul_mat_set_prec: how exactly devices compute the mul_mat `a`, a Prec.");
    m.def(
        "flash_attn_ext_set_prec",
        [](const Tensor& t, int prec) {
            set_precision(t, prec, GGML_OP_FLASH_ATTN_EXT, ggml_flash_attn_ext_set_prec,
                          "flash_attn_ext_set_prec");
        },
        a, py::arg("prec"),
        "ggml_flash_attn_ext_set_prec: how exactly devices compute the attention, a Prec.");
}

}  // namespace ggmlpy
