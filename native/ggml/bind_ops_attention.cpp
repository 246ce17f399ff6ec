// Rotary positions, attention, and what surrounds it in some models.

#include <array>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using T = ggml_tensor*;
using In = const ggml_tensor*;
using Sections = std::array<int, GGML_MROPE_SECTIONS>;

void check_rope_with(const Call& c, In a, In b, In factors, int n_dims, int mode) {
    c.not_empty();
    c.need(is_f32_or_f16(a), "a must be f32 or f16");
    c.need(dense(a), "the rows of a must be contiguous");
    c.need(b->type == GGML_TYPE_I32 && is_vector(b) && dense(b), "b, the positions, must be an i32 vector");
    c.need(a->ne[0] % 2 == 0, "a's ne0 must be even");
    c.value(n_dims > 0 && n_dims % 2 == 0 && n_dims <= a->ne[0], "n_dims must be even, from 2 to a's ne0");
    if ((mode & GGML_ROPE_TYPE_MROPE) != 0) {
        c.need(b->ne[0] == 4 * a->ne[2],
               "b must have four positions for each of a's ne2, all of a kind together");
    } else {
        c.need(b->ne[0] == a->ne[2], "b must have one position for each of a's ne2");
    }
    if (mode == GGML_ROPE_TYPE_VISION) c.value(n_dims == a->ne[0] / 2, "n_dims must be half of a's ne0");
    if (factors != nullptr) {
        // ggml reads one for each pair of a row, also of the part that is not rotated.
        c.need(is_f32(factors) && is_vector(factors) && dense(factors) && factors->ne[0] >= a->ne[0] / 2,
               "c, the frequency factors, must be an f32 vector of half of a's ne0");
    }
}

void check_rope_ext(const Call& c, In a, In b, In factors, int n_dims, int mode, int, float, float, float,
                    float, float, float) {
    c.value(mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX,
            "mode must be RopeMode.NORMAL or NEOX; the others have sections: use rope_multi");
    check_rope_with(c, a, b, factors, n_dims, mode);
}

void check_rope(const Call& c, In a, In b, int n_dims, int mode) {
    check_rope_ext(c, a, b, nullptr, n_dims, mode, 0, 0, 0, 0, 0, 0, 0);
}

void check_rope_multi(const Call& c, In a, In b, In factors, int n_dims, Sections sections, int mode, int,
                      float, float, float, float, float, float) {
    c.value(mode == GGML_ROPE_TYPE_MROPE || mode == GGML_ROPE_TYPE_VISION || mode == GGML_ROPE_TYPE_IMROPE,
            "mode must be RopeMode.MROPE, VISION or IMROPE");
    std::int64_t sum = 0;
    for (const int s : sections) {
        c.value(s >= 0, "a section must not be negative");
        sum += s;
    }
    c.value(sections[0] + sections[1] + static_cast<std::int64_t>(sections[2]) > 0,
            "the first three sections are all 0");
    c.value(sum <= a->ne[0], "the sections must not have more than a's ne0 together");
    check_rope_with(c, a, b, factors, n_dims, mode);
}

T rope_multi(ggml_context* ctx, T a, T b, T c, int n_dims, Sections sections, int mode, int n_ctx_orig,
             float freq_base, float freq_scale, float ext_factor, float attn_factor, float beta_fast,
             float beta_slow) {
    return ggml_rope_multi(ctx, a, b, c, n_dims, sections.data(), mode, n_ctx_orig, freq_base, freq_scale,
                           ext_factor, attn_factor, beta_fast, beta_slow);
}

T rope_multi_inplace(ggml_context* ctx, T a, T b, T c, int n_dims, Sections sections, int mode,
                     int n_ctx_orig, float freq_base, float freq_scale, float ext_factor, float attn_factor,
                     float beta_fast, float beta_slow) {
    return ggml_rope_multi_inplace(ctx, a, b, c, n_dims, sections.data(), mode, n_ctx_orig, freq_base,
                                   freq_scale, ext_factor, attn_factor, beta_fast, beta_slow);
}

void check_flash_attn_ext(const Call& c, In q, In k, In v, In mask, float, float max_bias, float) {
    c.not_empty();
    c.need(is_f32(q), "q must be f32");
    c.need(multiplies(k->type, GGML_TYPE_F32), "ggml cannot multiply by k of this type");
    c.need(reads_rows(v->type), "ggml cannot read v of this type");
    c.need(q->ne[0] == k->ne[0], "q [d, queries, heads] and k [d, keys, heads] must have the same ne0");
    c.need(k->ne[1] == v->ne[1], "k and v must have the same ne1, the keys");
    c.need(divides(k->ne[2], q->ne[2]) && divides(v->ne[2], q->ne[2]),
           "q's ne2 must be a multiple of k's and v's");
    c.need(q->ne[3] == k->ne[3] && q->ne[3] == v->ne[3], "q, k and v must have the same ne3");
    c.need(dense(q) && dense(k) && dense(v), "the rows of q, k and v must be contiguous");
    c.value(max_bias >= 0, "max_bias must not be negative");
    c.value(mask != nullptr || max_bias == 0, "max_bias needs a mask");
    if (mask == nullptr) return;
    c.need(mask->type == GGML_TYPE_F16 && contiguous(mask) && dense(mask), "mask must be f16 and contiguous");
    c.need(mask->ne[0] == k->ne[1] && mask->ne[1] >= q->ne[1], "mask must be [keys, queries or more]");
    c.need(divides(mask->ne[2], q->ne[2]) && divides(mask->ne[3], q->ne[3]),
           "q's ne2 and ne3 must be whole multiples of mask's");
}

void check_lightning_indexer(const Call& c, In q, In k, In weights, In mask) {
    c.not_empty();
    c.need(is_f32(q) && is_f32(weights), "q and weights must be f32");
    c.need(mask->type == GGML_TYPE_F16, "mask must be f16");
    c.need(reads_rows(k->type), "ggml cannot read k of this type");
    c.need(q->ne[0] == k->ne[0] && k->ne[1] == 1 && q->ne[3] == k->ne[3],
           "k must be [q's ne0, 1, keys, q's ne3]");
    c.need(sizes_are(weights, q->ne[1], q->ne[2], 1, q->ne[3]),
           "weights must be [q's ne1, q's ne2, 1, q's ne3]");
    c.need(mask->ne[0] == k->ne[2] && mask->ne[1] == q->ne[2] && mask->ne[2] == 1 &&
               divides(mask->ne[3], q->ne[3]),
           "mask must be [keys, q's ne2, 1, a divisor of q's ne3]");
    c.need(dense(q) && dense(k) && dense(weights) && dense(mask),
           "the rows of every tensor must be contiguous");
}

void check_hc_comb(const Call& c, In mixes, In scale, In base, float, int n_iter) {
    c.not_empty();
    c.need(is_f32(mixes) && is_f32(scale) && is_f32(base), "mixes, scale and base must be f32");
    c.need(mixes->ne[0] == 24 && is_matrix(mixes), "mixes must be [24, tokens]: ggml has four streams");
    c.need(scale->ne[0] >= 3 && is_vector(scale), "scale must be a vector of 3");
    c.need(sizes_are(base, mixes->ne[0]), "base must be a vector of 24");
    c.counts({n_iter}, 1, "n_iter");
}

void check_hc_pre(const Call& c, In x, In weights) {
    c.not_empty();
    c.need(is_f32(x) && is_f32(weights), "x and weights must be f32");
    c.need(x->ne[3] == 1 && sizes_are(weights, x->ne[1], x->ne[2]), "weights must be [x's ne1, x's ne2]");
}

void check_hc_post(const Call& c, In x, In residual, In post, In comb) {
    c.not_empty();
    c.need(is_f32(x) && is_f32(residual) && is_f32(post) && is_f32(comb), "every tensor must be f32");
    c.need(is_matrix(x), "x must be [n, tokens]");
    const std::int64_t hc = residual->ne[1];
    c.need(sizes_are(residual, x->ne[0], hc, x->ne[1]), "residual must be [n, streams, tokens]");
    c.need(sizes_are(post, hc, x->ne[1]), "post must be [streams, tokens]");
    c.need(sizes_are(comb, hc, hc, x->ne[1]), "comb must be [streams, streams, tokens]");
}

}  // namespace

void bind_attention(py::module_& m) {
    const auto a = needed("a"), b = needed("b"), c = optional("c");
    const py::arg n_dims("n_dims"), mode("mode"), sections("sections");
    const auto n_ctx_orig = py::arg("n_ctx_orig") = 0;
    const auto freq_base = py::arg("freq_base") = 10000.0F, freq_scale = py::arg("freq_scale") = 1.0F;
    const auto ext_factor = py::arg("ext_factor") = 0.0F, attn_factor = py::arg("attn_factor") = 1.0F;
    const auto beta_fast = py::arg("beta_fast") = 0.0F, beta_slow = py::arg("beta_slow") = 0.0F;

    def(m, "rope", ggml_rope, check_rope,
        "ggml_rope: a [d, heads, tokens] with the first n_dims rotated by the int32 positions b; mode: "
        "RopeMode.",
        a, b, n_dims, mode);
    def(m, "rope_inplace", ggml_rope_inplace, check_rope, "ggml_rope_inplace: in a's memory.", a, b, n_dims,
        mode);
    def(m, "rope_ext", ggml_rope_ext, check_rope_ext,
        "ggml_rope_ext: rope with frequency factors c (float32, half of a's ne0) or None, and YaRN's "
        "parameters.",
        a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
        beta_slow);
    def(m, "rope_ext_inplace", ggml_rope_ext_inplace, check_rope_ext, "ggml_rope_ext_inplace: in a's memory.",
        a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast,
        beta_slow);
    def(m, "rope_multi", rope_multi, check_rope_multi,
        "ggml_rope_multi: rope with four positions a token (b: int32, 4 * tokens), each for its section of "
        "pairs.",
        a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor,
        beta_fast, beta_slow);
    def(m, "rope_multi_inplace", rope_multi_inplace, check_rope_multi,
        "ggml_rope_multi_inplace: in a's memory.", a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base,
        freq_scale, ext_factor, attn_factor, beta_fast, beta_slow);
    def(m, "flash_attn_ext", ggml_flash_attn_ext, check_flash_attn_ext,
        "ggml_flash_attn_ext: q [d, queries, heads], k [d, keys, heads], v [dv, keys, heads], float16 mask "
        "[keys, "
        "queries] or None -> float32 [dv, heads, queries]: softmax(q k scale + mask) v.",
        needed("q"), needed("k"), needed("v"), optional("mask"), py::arg("scale"), py::arg("max_bias") = 0.0F,
        py::arg("logit_softcap") = 0.0F);
    def(m, "lightning_indexer", ggml_lightning_indexer, check_lightning_indexer,
        "ggml_lightning_indexer: DeepSeek's sparse-attention scores: q [d, heads, tokens, s], k [d, 1, keys, "
        "s], "
        "weights [heads, tokens, 1, s], float16 mask [keys, tokens, 1, s] -> [keys, tokens, 1, s].",
        needed("q"), needed("k"), needed("weights"), needed("mask"));
    def(m, "dsv4_hc_comb", ggml_dsv4_hc_comb, check_hc_comb,
        "ggml_dsv4_hc_comb: hyper-connections (arXiv:2512.24880): mixes [24, tokens], scale [3], base [24] "
        "-> "
        "[4, 4, tokens].",
        needed("mixes"), needed("scale"), needed("base"), py::arg("eps"), py::arg("n_iter"));
    def(m, "dsv4_hc_pre", ggml_dsv4_hc_pre, check_hc_pre,
        "ggml_dsv4_hc_pre: x [n, streams, tokens], weights [streams, tokens] -> [n, tokens], the weighted "
        "sum.",
        needed("x"), needed("weights"));
    def(m, "dsv4_hc_post", ggml_dsv4_hc_post, check_hc_post,
        "ggml_dsv4_hc_post: x [n, tokens], residual [n, streams, tokens], post [streams, tokens], comb "
        "[streams, "
        "streams, tokens] -> [n, streams, tokens].",
        needed("x"), needed("residual"), needed("post"), needed("comb"));
}

}  // namespace ggmlpy
