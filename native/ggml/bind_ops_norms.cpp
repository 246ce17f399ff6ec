// Normalisation along rows or groups, softmax, and the loss made of it.

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;

void check_norm(const Call& c, In a, float eps) {
    c.not_empty();
    c.need(is_f32(a), "a must be f32");
    c.value(eps >= 0, "eps must not be negative");
}

void check_rms_norm(const Call& c, In a, float eps) {
    check_norm(c, a, eps);
    c.need(dense(a), "the rows of a must be contiguous");
}

void check_group_norm(const Call& c, In a, int n_groups, float eps) {
    check_rms_norm(c, a, eps);
    c.value(n_groups >= 1 && n_groups <= a->ne[2], "n_groups must be from 1 to a's ne2, the channels");
}

void check_soft_max_ext(const Call& c, In a, In mask, float, float max_bias) {
    c.not_empty();
    c.need(is_f32(a) && contiguous(a), "a must be f32 and contiguous");
    c.value(max_bias >= 0, "max_bias must not be negative");
    c.value(mask != nullptr || max_bias == 0, "max_bias needs a mask");
    if (mask == nullptr) return;
    c.need(is_f32_or_f16(mask) && contiguous(mask), "mask must be f32 or f16 and contiguous");
    c.need(mask->ne[0] == a->ne[0] && mask->ne[1] >= a->ne[1],
           "mask must have a's ne0, and its ne1 at least");
    c.need(divides(mask->ne[2], a->ne[2]) && divides(mask->ne[3], a->ne[3]),
           "a's ne2 and ne3 must be whole multiples of mask's");
}

void check_soft_max(const Call& c, In a) { check_soft_max_ext(c, a, nullptr, 1, 0); }

void check_cross_entropy_loss(const Call& c, In a, In b) {
    c.not_empty();
    c.need(is_f32(a) && is_f32(b), "a and b must be f32");
    c.need(same_shape(a, b), "a and b must have the same sizes");
    c.need(packed(a) && packed(b), "a and b must be contiguous");
}

// Sinks are set on a node that is there already.
void add_sinks(const Tensor& a, const Tensor& sinks, ggml_op op, int slot,
               void (*add)(ggml_tensor*, ggml_tensor*), const char* name) {
    Guard guard;
    ggml_tensor* node = a.get();
    a.context()->check_idle();  // the node changes
    ggml_tensor* values = a.context()->use(sinks);
    Call call(name);
    call.add("a", node);
    call.add("sinks", values);
    call.need(node->op == op, "a must be the result of the operator that the sinks are for");
    call.need(node->src[slot] == nullptr, "a has sinks already");
    call.need(is_f32(values) && is_vector(values) && dense(values), "sinks must be an f32 vector");
    call.need(values->ne[0] == node->src[0]->ne[2],
              "sinks must have one value for each head, ne2 of a's input");
    add(node, values);
}

}  // namespace

void bind_norms(py::module_& m) {
    const auto a = needed("a"), mask = optional("mask");
    const py::arg eps("eps"), n_groups("n_groups"), scale("scale");
    const auto max_bias = py::arg("max_bias") = 0.0F;

    def(m, "norm", ggml_norm, check_norm, "ggml_norm: layer normalisation along ne0, without weights.", a,
        eps);
    def(m, "norm_inplace", ggml_norm_inplace, check_norm, "ggml_norm_inplace: in a's memory.", a, eps);
    def(m, "rms_norm", ggml_rms_norm, check_rms_norm,
        "ggml_rms_norm: a divided by the root of its mean square along ne0.", a, eps);
    def(m, "rms_norm_inplace", ggml_rms_norm_inplace, check_rms_norm, "ggml_rms_norm_inplace: in a's memory.",
        a, eps);
    def(m, "group_norm", ggml_group_norm, check_group_norm,
        "ggml_group_norm: normalisation over ne0, ne1 and groups of ne2.", a, n_groups, eps);
    def(m, "group_norm_inplace", ggml_group_norm_inplace, check_group_norm,
        "ggml_group_norm_inplace: in a's memory.", a, n_groups, eps);
    def(m, "l2_norm", ggml_l2_norm, check_norm,
        "ggml_l2_norm: a divided by its Euclidean length along ne0, or by eps where that is larger.", a, eps);
    def(m, "l2_norm_inplace", ggml_l2_norm_inplace, check_norm, "ggml_l2_norm_inplace: in a's memory.", a,
        eps);
    def(m, "soft_max", ggml_soft_max, check_soft_max, "ggml_soft_max: softmax along ne0 (float32).", a);
    def(m, "soft_max_inplace", ggml_soft_max_inplace, check_soft_max, "ggml_soft_max_inplace: in a's memory.",
        a);
    def(m, "soft_max_ext", ggml_soft_max_ext, check_soft_max_ext,
        "ggml_soft_max_ext: softmax(a * scale + mask) along ne0, with ALiBi slopes where max_bias > 0.", a,
        mask, scale, max_bias);
    def(m, "soft_max_ext_inplace", ggml_soft_max_ext_inplace, check_soft_max_ext,
        "ggml_soft_max_ext_inplace: in a's memory.", a, mask, scale, max_bias);
    def(m, "cross_entropy_loss", ggml_cross_entropy_loss, check_cross_entropy_loss,
        "ggml_cross_entropy_loss: the mean over rows of -sum(b * log_softmax(a)), one element.", a,
        needed("b"));
    m.def(
        "soft_max_add_sinks",
        [](const Tensor& t, const Tensor& sinks) {
            add_sinks(t, sinks, GGML_OP_SOFT_MAX, 2, ggml_soft_max_add_sinks, "soft_max_add_sinks");
        },
        a, needed("sinks"),
        "ggml_soft_max_add_sinks: one more logit for each head, that only takes probability away.");
    m.def(
        "flash_attn_ext_add_sinks",
        [](const Tensor& t, const Tensor& sinks) {
            add_sinks(t, sinks, GGML_OP_FLASH_ATTN_EXT, 4, ggml_flash_attn_ext_add_sinks,
                      "flash_attn_ext_add_sinks");
        },
        a, needed("sinks"),
        "ggml_flash_attn_ext_add_sinks: one more logit for each head, that only takes probability away.");
}

}  // namespace ggmlpy
