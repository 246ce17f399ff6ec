// Convolutions in one, two and three dimensions, and pooling. Kernels are a, inputs b, as in ggml.

#include <cmath>
#include <limits>

#include "ggml/op.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using In = const ggml_tensor*;
using N = std::int64_t;

// ggml multiplies patches in a working memory of this size (GGML_IM2COL_WORK_SIZE of its CPU kernels).
constexpr std::size_t kPatchMemory = 16U << 20;

// One axis of a convolution: the kernel fits into the padded input.
void check_axis(const Call& c, N in, N kernel, int stride, int pad, int dilation) {
    c.counts({stride}, 1, "a stride");
    c.counts({dilation}, 1, "a dilation");
    c.counts({pad}, 0, "padding");
    c.counts({kernel}, 1, "a kernel's size");
    c.value(in + 2 * static_cast<N>(pad) >= dilation * (kernel - 1) + 1,
            "the kernel, spread by the dilation, must fit into the padded input");
}

void check_patches(const Call& c, In a, In b, ggml_type type) {
    c.not_empty();
    c.value(type == GGML_TYPE_F32 || type == GGML_TYPE_F16, "the type of the patches must be f32 or f16");
    c.need(is_f32(b) || (b->type == GGML_TYPE_F16 && type == GGML_TYPE_F16),
           "b must be f32, or f16 where the patches are f16");
    c.need(dense(b), "the rows of b must be contiguous");
    for (const std::size_t stride : b->nb) {
        c.need(stride <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
               "b must be smaller than 2 GiB");
    }
    (void)a;
}

void check_im2col(const Call& c, In a, In b, int s0, int s1, int p0, int p1, int d0, int d1, bool is_2d,
                  ggml_type type) {
    check_patches(c, a, b, type);
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    if (is_2d) {
        check_axis(c, b->ne[1], a->ne[1], s1, p1, d1);
        c.need(a->ne[2] == b->ne[2],
               "a [kw, kh, channels, ...] and b [w, h, channels, n] must have the same channels");
        c.need(stride_is(b, 1, b->nb[0] * static_cast<std::size_t>(b->ne[0])),
               "b's planes must be contiguous");
    } else {
        c.need(a->ne[1] == b->ne[1] && b->ne[3] == 1,
               "a [k, channels, ...] and b [n, channels, batch] must have the same channels");
    }
}

// The kernel is reshaped and multiplied as it is; ggml makes float16 patches.
void check_kernel(const Call& c, In a) {
    c.need(is_f32_or_f16(a), "a, the kernel, must be f32 or f16");
    c.need(packed(a), "a, the kernel, must be contiguous");
}

void check_conv_1d(const Call& c, In a, In b, int s0, int p0, int d0) {
    check_im2col(c, a, b, s0, 1, p0, 0, d0, 1, false, GGML_TYPE_F16);
    check_kernel(c, a);
    c.need(a->ne[3] == 1, "a must be [k, channels in, channels out]");
}

void check_conv_1d_dw(const Call& c, In a, In b, int s0, int p0, int d0) {
    check_patches(c, a, b, GGML_TYPE_F16);
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    check_kernel(c, a);
    c.need(contiguous(b), "b must be contiguous");
    c.need(is_matrix(b), "b must be [n, channels]: ggml takes one input at a time");
    c.need(sizes_are(a, a->ne[0], 1, b->ne[1]), "a must be [k, 1, channels]");
}

void check_conv_2d(const Call& c, In a, In b, int s0, int s1, int p0, int p1, int d0, int d1) {
    check_im2col(c, a, b, s0, s1, p0, p1, d0, d1, true, GGML_TYPE_F16);
    check_kernel(c, a);
}

void check_conv_2d_dw(const Call& c, In a, In b, int s0, int s1, int p0, int p1, int d0, int d1) {
    check_patches(c, a, b, GGML_TYPE_F16);
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    check_axis(c, b->ne[1], a->ne[1], s1, p1, d1);
    c.need(a->type == GGML_TYPE_F16, "a, the kernel, must be f16: use conv_2d_dw_direct for f32");
    c.need(packed(a) && contiguous(b), "a and b must be contiguous");
    c.need(a->ne[2] == 1 && a->ne[3] == b->ne[2],
           "a must be [kw, kh, 1, channels] for b [w, h, channels, n]");
}

void check_conv_2d_dw_direct(const Call& c, In a, In b, int s0, int s1, int p0, int p1, int d0, int d1) {
    c.not_empty();
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    check_axis(c, b->ne[1], a->ne[1], s1, p1, d1);
    c.need(is_f32_or_f16(a) && is_f32(b), "a, the kernel, must be f32 or f16, and b f32");
    c.need(a->ne[2] == 1 && a->ne[3] == b->ne[2],
           "a must be [kw, kh, 1, channels] for b [w, h, channels, n]");
    const auto channels = static_cast<std::size_t>(b->ne[2]);
    if (ggml_is_contiguous(b)) {
        // One pixel has both layouts: ggml reads the kernel as of one, and the result as of the other.
        const auto one = [](N in, N kernel, int stride, int pad, int dilation) {
            return in + 2 * static_cast<N>(pad) - dilation * (kernel - 1) - 1 < stride;
        };
        c.need(!ggml_is_contiguous_channels(b) ||
                   (one(b->ne[0], a->ne[0], s0, p0, d0) && one(b->ne[1], a->ne[1], s1, p1, d1)),
               "b of one pixel has an ambiguous layout: pad it before, or use ggml.cont");
        c.need(ggml_is_contiguous(a), "a must be contiguous, as b is");
        return;
    }
    const auto channels_first = [channels](In t, int channel_axis) {
        const std::size_t one = ggml_type_size(t->type);
        return stride_is(t, channel_axis, one) && stride_is(t, 0, one * channels) &&
               stride_is(t, 1, one * channels * static_cast<std::size_t>(t->ne[0]));
    };
    const std::size_t image = sizeof(float) * channels * static_cast<std::size_t>(b->ne[0] * b->ne[1]);
    c.need(ggml_is_contiguous_channels(b) && channels_first(b, 2) && stride_is(b, 3, image),
           "b must be contiguous, or lie in memory with the channels first");
    c.need(channels_first(a, 3) && a->nb[0] >= a->nb[2] && a->nb[1] >= a->nb[0],
           "a must lie in memory with the channels first, as b does");
}

void check_direct(const Call& c, In a, In b, N patch, N out) {
    c.not_empty();
    c.need(is_f32_or_f16(a) && packed(a), "a, the kernel, must be f32 or f16 and contiguous");
    c.need(is_f32(b), "b must be f32");
    const auto limit = static_cast<N>(kPatchMemory);
    c.need(
        patch < limit && out < limit &&
            static_cast<std::size_t>(patch) * ggml_type_size(a->type) + static_cast<std::size_t>(out) * 4 <=
                kPatchMemory,
        "a patch and its results must fit into ggml's 16 MiB of working memory");
}

void check_conv_2d_direct(const Call& c, In a, In b, int s0, int s1, int p0, int p1, int d0, int d1) {
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    check_axis(c, b->ne[1], a->ne[1], s1, p1, d1);
    c.need(a->ne[2] == b->ne[2], "a [kw, kh, in, out] and b [w, h, in, n] must have the same channels");
    check_direct(c, a, b, a->ne[0] * a->ne[1] * a->ne[2], a->ne[3]);
}

void check_axes_3d(const Call& c, In a, In b, int s0, int s1, int s2, int p0, int p1, int p2, int d0, int d1,
                   int d2) {
    check_axis(c, b->ne[0], a->ne[0], s0, p0, d0);
    check_axis(c, b->ne[1], a->ne[1], s1, p1, d1);
    check_axis(c, b->ne[2], a->ne[2], s2, p2, d2);
}

void check_conv_3d_direct(const Call& c, In a, In b, int s0, int s1, int s2, int p0, int p1, int p2, int d0,
                          int d1, int d2, int channels, int batch, int out) {
    check_axes_3d(c, a, b, s0, s1, s2, p0, p1, p2, d0, d1, d2);
    c.counts({channels, batch, out}, 1, "n_channels, n_batch and n_channels_out");
    c.need(a->ne[3] == static_cast<N>(channels) * out, "a must be [kw, kh, kd, n_channels * n_channels_out]");
    c.need(b->ne[3] == static_cast<N>(channels) * batch, "b must be [w, h, d, n_channels * n_batch]");
    check_direct(c, a, b, a->ne[0] * a->ne[1] * a->ne[2] * channels, out);
}

void check_im2col_3d(const Call& c, In a, In b, N channels, int s0, int s1, int s2, int p0, int p1, int p2,
                     int d0, int d1, int d2, ggml_type type) {
    check_patches(c, a, b, type);
    c.need(is_f32(b), "b must be f32");
    check_axes_3d(c, a, b, s0, s1, s2, p0, p1, p2, d0, d1, d2);
    c.counts({channels}, 1, "ic, the channels in,");
    c.need(divides(channels, a->ne[3]) && divides(channels, b->ne[3]),
           "a must be [kw, kh, kd, ic * out] and b [w, h, d, ic * n]");
}

void check_conv_3d(const Call& c, In a, In b, N channels, int s0, int s1, int s2, int p0, int p1, int p2,
                   int d0, int d1, int d2) {
    check_im2col_3d(c, a, b, channels, s0, s1, s2, p0, p1, p2, d0, d1, d2, GGML_TYPE_F16);
    check_kernel(c, a);
}

// The size of a transposed convolution stays within what 32 bits count.
void check_spread(const Call& c, In b, int axis, int stride) {
    c.counts({stride}, 1, "a stride");
    c.need(b->ne[axis] <= (N{1} << 30) / stride, "the result would be too large");
}

void check_conv_transpose_1d(const Call& c, In a, In b, int s0, int p0, int d0) {
    c.not_empty();
    check_spread(c, b, 0, s0);
    c.value(p0 == 0 && d0 == 1, "ggml has only p0 = 0 and d0 = 1");
    c.need(is_f32_or_f16(a) && is_f32(b), "a, the kernel, must be f32 or f16, and b f32");
    c.need(is_matrix(b) && a->ne[2] == b->ne[1] && a->ne[3] == 1, "a must be [k, out, in] for b [n, in]");
    c.need(dense(a) && dense(b), "the rows of a and b must be contiguous");
}

void check_conv_transpose_2d(const Call& c, In a, In b, int stride) {
    c.not_empty();
    check_spread(c, b, 0, stride);
    check_spread(c, b, 1, stride);
    c.need(is_f32_or_f16(a) && is_f32(b), "a, the kernel, must be f32 or f16, and b f32");
    c.need(a->ne[3] == b->ne[2] && b->ne[3] == 1, "a must be [kw, kh, out, in] for b [w, h, in]");
    c.need(dense(b) && dense(a) && stride_is(a, 1, ggml_row_size(a->type, a->ne[0])),
           "the planes of a and the rows of b must be contiguous");
}

void check_col2im_1d(const Call& c, In a, int s0, int oc, int p0) {
    c.not_empty();
    c.counts({s0, oc}, 1, "s0 and oc");
    c.counts({p0}, 0, "padding");
    c.need(is_float(a) && is_matrix(a) && packed(a), "a must be a contiguous matrix of f32, f16 or bf16");
    c.need(divides(oc, a->ne[0]), "a must be [k * oc, n]");
    c.need(a->ne[1] <= (N{1} << 30) / s0, "the result would be too large");
    c.value((a->ne[1] - 1) * s0 + a->ne[0] / oc > 2 * static_cast<N>(p0),
            "the padding leaves nothing of the result");
}

void check_pool(const Call& c, In a) {
    c.not_empty();
    c.need(is_f32_or_f16(a) && packed(a), "a must be f32 or f16 and contiguous");
}

void check_window(const Call& c, N in, int k, int s, float p) {
    c.counts({k, s}, 1, "kernel and stride");
    c.value(std::isfinite(p) && p >= 0 && p <= static_cast<float>(1 << 24), "padding must be from 0 to 2^24");
    c.value(static_cast<double>(in) + 2.0 * static_cast<double>(p) >= k,
            "the kernel must fit into the padded input");
}

}  // namespace

void bind_convolutions(py::module_& m) {
    const auto a = needed("a"), b = needed("b");
    const py::arg s0("s0"), s1("s1"), s2("s2"), p0("p0"), p1("p1"), p2("p2"), d0("d0"), d1("d1"), d2("d2");
    const py::arg ic("ic"), stride("stride"), type("type"), op("op"), k0("k0"), k1("k1");

    def(m, "im2col", ggml_im2col, check_im2col,
        "ggml_im2col: the patches of b under a kernel of a's size: [kw * kh * in, ow, oh, n].", a, b, s0, s1,
        p0, p1, d0, d1, py::arg("is_2d"), type);
    def(m, "im2col_3d", ggml_im2col_3d, check_im2col_3d,
        "ggml_im2col_3d: the patches of b [w, h, d, ic * n]: [kw * kh * kd * ic, ow, oh, od * n].", a, b, ic,
        s0, s1, s2, p0, p1, p2, d0, d1, d2, type);
    def(m, "conv_1d", ggml_conv_1d, check_conv_1d,
        "ggml_conv_1d: a [k, in, out], b [n, in, batch] -> [on, out, batch], through float16 patches.", a, b,
        s0, p0, d0);
    def(
        m, "conv_1d_ph", ggml_conv_1d_ph,
        [](const Call& c, In x, In y, int s, int d) {
            check_conv_1d(c, x, y, s, static_cast<int>(std::min<N>(x->ne[0] / 2, 1 << 24)), d);
        },
        "ggml_conv_1d_ph: conv_1d padded by half of the kernel.", a, b, py::arg("s"), py::arg("d"));
    def(m, "conv_1d_dw", ggml_conv_1d_dw, check_conv_1d_dw,
        "ggml_conv_1d_dw: depthwise: a [k, 1, channels], b [n, channels] -> [on, channels], through float16 "
        "patches.",
        a, b, s0, p0, d0);
    def(
        m, "conv_1d_dw_ph", ggml_conv_1d_dw_ph,
        [](const Call& c, In x, In y, int s, int d) {
            check_conv_1d_dw(c, x, y, s, static_cast<int>(std::min<N>(x->ne[0] / 2, 1 << 24)), d);
        },
        "ggml_conv_1d_dw_ph: conv_1d_dw padded by half of the kernel.", a, b, s0, d0);
    def(m, "conv_transpose_1d", ggml_conv_transpose_1d, check_conv_transpose_1d,
        "ggml_conv_transpose_1d: a [k, out, in], b [n, in] -> [(n - 1) * s0 + k, out].", a, b, s0,
        py::arg("p0") = 0, py::arg("d0") = 1);
    def(m, "col2im_1d", ggml_col2im_1d, check_col2im_1d,
        "ggml_col2im_1d: columns a [k * oc, n] added up at stride s0: [(n - 1) * s0 + k - 2 * p0, oc].", a,
        s0, py::arg("oc"), p0);
    def(m, "conv_2d", ggml_conv_2d, check_conv_2d,
        "ggml_conv_2d: a [kw, kh, in, out], b [w, h, in, n] -> [ow, oh, out, n], through float16 patches.", a,
        b, s0, s1, p0, p1, d0, d1);
    def(
        m, "conv_2d_sk_p0", ggml_conv_2d_sk_p0,
        [](const Call& c, In x, In y) {
            c.counts({x->ne[0], x->ne[1]}, 1, "a kernel's size");
            check_conv_2d(c, x, y, static_cast<int>(x->ne[0]), static_cast<int>(x->ne[1]), 0, 0, 1, 1);
        },
        "ggml_conv_2d_sk_p0: conv_2d with the kernel's size as stride, no padding.", a, b);
    def(
        m, "conv_2d_s1_ph", ggml_conv_2d_s1_ph,
        [](const Call& c, In x, In y) {
            c.counts({x->ne[0], x->ne[1]}, 1, "a kernel's size");
            check_conv_2d(c, x, y, 1, 1, static_cast<int>(x->ne[0] / 2), static_cast<int>(x->ne[1] / 2), 1,
                          1);
        },
        "ggml_conv_2d_s1_ph: conv_2d with stride 1, padded by half of the kernel.", a, b);
    def(m, "conv_2d_dw", ggml_conv_2d_dw, check_conv_2d_dw,
        "ggml_conv_2d_dw: depthwise: float16 a [kw, kh, 1, channels], b [w, h, channels, n].", a, b, s0, s1,
        p0, p1, d0, d1);
    def(m, "conv_2d_dw_direct", ggml_conv_2d_dw_direct, check_conv_2d_dw_direct,
        "ggml_conv_2d_dw_direct: depthwise without patches; the layout of the result follows b's.", a, b,
        py::arg("stride0"), py::arg("stride1"), py::arg("pad0"), py::arg("pad1"), py::arg("dilation0"),
        py::arg("dilation1"));
    def(m, "conv_2d_direct", ggml_conv_2d_direct, check_conv_2d_direct,
        "ggml_conv_2d_direct: conv_2d of float32 b in one operator.", a, b, s0, s1, p0, p1, d0, d1);
    def(m, "conv_transpose_2d_p0", ggml_conv_transpose_2d_p0, check_conv_transpose_2d,
        "ggml_conv_transpose_2d_p0: a [kw, kh, out, in], b [w, h, in] -> [(w - 1) * stride + kw, ..., out].",
        a, b, stride);
    def(m, "conv_3d", ggml_conv_3d, check_conv_3d,
        "ggml_conv_3d: a [kw, kh, kd, ic * out], b [w, h, d, ic * n] -> [ow, oh, od, out * n], float16 "
        "patches.",
        a, b, ic, s0, s1, s2, p0, p1, p2, d0, d1, d2);
    def(m, "conv_3d_direct", ggml_conv_3d_direct, check_conv_3d_direct,
        "ggml_conv_3d_direct: conv_3d of float32 b in one operator.", a, b, s0, s1, s2, p0, p1, p2, d0, d1,
        d2, py::arg("n_channels"), py::arg("n_batch"), py::arg("n_channels_out"));
    def(
        m, "pool_1d", ggml_pool_1d,
        [](const Call& c, In t, ggml_op_pool, int k, int s, int p) {
            check_pool(c, t);
            check_window(c, t->ne[0], k, s, static_cast<float>(p));
        },
        "ggml_pool_1d: the largest or mean (a Pool) of each k0 elements along ne0, s0 apart.", a, op, k0, s0,
        p0);
    def(
        m, "pool_2d", ggml_pool_2d,
        [](const Call& c, In t, ggml_op_pool, int kx, int ky, int sx, int sy, float px, float py) {
            check_pool(c, t);
            check_window(c, t->ne[0], kx, sx, px);
            check_window(c, t->ne[1], ky, sy, py);
        },
        "ggml_pool_2d: the largest or mean (a Pool) of each k0 x k1 elements; means count the padding in.", a,
        op, k0, k1, s0, s1, p0, p1);
}

}  // namespace ggmlpy
