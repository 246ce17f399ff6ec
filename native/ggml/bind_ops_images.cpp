// Resampling, windows and positions of vision and diffusion models.

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;
using N = std::int64_t;

// Beyond 2^22 ggml's float32 positions may round to an element past the end.
constexpr N kMostResampled = 1 << 22;

void check_interpolate(const Call& c, In a, N ne0, N ne1, N ne2, N ne3, std::uint32_t mode) {
    c.not_empty();
    c.need(is_f32(a), "a must be f32");
    const std::uint32_t base = mode & 0xFF;
    const std::uint32_t flags = GGML_SCALE_FLAG_ALIGN_CORNERS | GGML_SCALE_FLAG_ANTIALIAS;
    c.value(base < GGML_SCALE_MODE_COUNT && (mode & ~(0xFFU | flags)) == 0,
            "mode must be a ScaleMode with ScaleFlags");
    c.value((mode & GGML_SCALE_FLAG_ANTIALIAS) == 0 || base == GGML_SCALE_MODE_BILINEAR,
            "only BILINEAR has ANTIALIAS");
    int i = 0;
    for (const N n : {ne0, ne1, ne2, ne3}) {
        c.value(n >= 1 && n <= kMostResampled, "the new sizes must be from 1 to 2^22");
        c.need(a->ne[i++] <= kMostResampled, "a's sizes must be 2^22 at most");
    }
}

void check_upscale(const Call& c, In a, int factor, ggml_scale_mode mode) {
    c.value(factor > 1 && factor <= kMostResampled, "scale_factor must be 2 or more");
    check_interpolate(c, a, a->ne[0] * factor, a->ne[1] * factor, a->ne[2], a->ne[3],
                      static_cast<std::uint32_t>(mode));
}

void check_win_part(const Call& c, In a, int w) {
    c.not_empty();
    c.need(is_f32(a) && packed(a) && a->ne[3] == 1, "a must be f32, contiguous, [n, width, height]");
    c.counts({w, a->ne[1], a->ne[2]}, 1, "w, width and height");
}

void check_win_unpart(const Call& c, In a, int w0, int h0, int w) {
    c.not_empty();
    c.counts({w0, h0, w}, 1, "w0, h0 and w");
    c.need(is_f32(a) && packed(a), "a must be f32 and contiguous");
    const N across = (static_cast<N>(w0) + w - 1) / w, down = (static_cast<N>(h0) + w - 1) / w;
    c.need(a->ne[1] == w && a->ne[2] == w && a->ne[3] == across * down,
           "a must be [n, w, w, windows that cover w0 x h0]");
}

void check_get_rel_pos(const Call& c, In a, int qh, int kh) {
    c.not_empty();
    c.counts({qh, kh}, 1, "qh and kh");
    c.value(qh == kh, "ggml has only qh = kh");
    c.need(a->type == GGML_TYPE_F16 && packed(a), "a must be f16 and contiguous");
    c.need(sizes_are(a, a->ne[0], 2 * static_cast<N>(qh) - 1), "a must be [n, 2 * qh - 1]");
}

void check_add_rel_pos(const Call& c, In a, In pw, In ph) {
    c.not_empty();
    c.need(is_f32(a) && is_f32(pw) && is_f32(ph), "a, pw and ph must be f32");
    c.need(packed(a) && packed(pw) && packed(ph), "a, pw and ph must be contiguous");
    c.need(same_shape(pw, ph), "pw and ph must have the same sizes");
    c.counts({pw->ne[0]}, 1, "pw's ne0");
    c.need(sizes_are(a, pw->ne[0] * pw->ne[0], pw->ne[1] * pw->ne[2], pw->ne[3]),
           "a must be [k * k, q * q, batch] for pw and ph [k, q, q, batch]");
}

void check_timestep_embedding(const Call& c, In timesteps, int dim, int max_period) {
    c.not_empty();
    c.need(is_f32(timesteps) && is_vector(timesteps) && dense(timesteps), "timesteps must be an f32 vector");
    c.counts({dim, max_period}, 1, "dim and max_period");
}

}  // namespace

void bind_images(py::module_& m) {
    const auto a = needed("a");

    def(m, "upscale", ggml_upscale, check_upscale,
        "ggml_upscale: ne0 and ne1 scale_factor times, as a ScaleMode says.", a, py::arg("scale_factor"),
        py::arg("mode"));
    def(m, "interpolate", ggml_interpolate, check_interpolate,
        "ggml_interpolate: a resampled to these sizes; mode: a ScaleMode, or'ed with ScaleFlags.", a,
        py::arg("ne0"), py::arg("ne1"), py::arg("ne2"), py::arg("ne3"), py::arg("mode"));
    def(m, "win_part", ggml_win_part, check_win_part,
        "ggml_win_part: a [n, width, height] -> windows [n, w, w, count], zeros at the far edges.", a,
        py::arg("w"));
    def(m, "win_unpart", ggml_win_unpart, check_win_unpart,
        "ggml_win_unpart: windows [n, w, w, count] -> [n, w0, h0], what win_part made.", a, py::arg("w0"),
        py::arg("h0"), py::arg("w"));
    def(m, "get_rel_pos", ggml_get_rel_pos, check_get_rel_pos,
        "ggml_get_rel_pos: float16 a [n, 2 * qh - 1] -> float16 [n, kh, qh], the row of each distance.", a,
        py::arg("qh"), py::arg("kh"));
    def(m, "add_rel_pos", ggml_add_rel_pos, check_add_rel_pos,
        "ggml_add_rel_pos: a [k * k, q * q, batch] plus pw over columns and ph over rows, both [k, q, q, "
        "batch].",
        a, needed("pw"), needed("ph"));
    def(m, "add_rel_pos_inplace", ggml_add_rel_pos_inplace, check_add_rel_pos,
        "ggml_add_rel_pos_inplace: in a's memory.", a, needed("pw"), needed("ph"));
    def(m, "timestep_embedding", ggml_timestep_embedding, check_timestep_embedding,
        "ggml_timestep_embedding: timesteps [n] -> [dim, n], cosines, then sines of frequencies down to "
        "1/max_period.",
        needed("timesteps"), py::arg("dim"), py::arg("max_period"));
}

}  // namespace ggmlpy
