#include "asr/kernels/kernels.h"
#include "asr/operator.h"
#include "asr/operators.h"

namespace py = pybind11;

namespace asr {
namespace {

// Everything is seen on a side without a limit; no utterance has so many frames.
constexpr std::int64_t kUnlimited = (std::int64_t{1} << 31) - 1;

struct AttentionOptions {
    std::uint64_t left : 31, right : 31, chunked : 1;
};

void compute_attention(ggml_tensor* y, int ith, int nth, void* userdata) {
    const auto options = from_userdata<AttentionOptions>(userdata);
    const auto limit = [](std::uint64_t n) {
        return static_cast<std::int64_t>(n) == kUnlimited ? -1 : static_cast<std::int64_t>(n);
    };
    const ggml_tensor *qkv = y->src[0], *positions = y->src[1], *bias_u = y->src[2];
    const std::int64_t d = y->ne[0];
    RelativeAttention op = {};
    op.n_frames = y->ne[1];
    op.d_head = bias_u->ne[0];
    op.n_heads = d / op.d_head;
    op.q = floats(qkv);
    op.k = op.q + d;
    op.v = op.q + 2 * d;
    op.stride = row_stride(qkv);
    op.p = floats(positions);
    op.p_stride = row_stride(positions);
    op.bias_u = floats(bias_u);
    op.bias_v = floats(y->src[3]);
    op.left = limit(options.left);
    op.right = limit(options.right);
    op.chunked = options.chunked != 0;
    op.y = static_cast<float*>(y->data);
    op.y_stride = d;
    kernels().relative_attention(op, ith, nth);
}

Tensor relative_attention(const ContextPtr& context, const Tensor& qkv, const Tensor& positions,
                          const Tensor& bias_u, const Tensor& bias_v, std::int64_t left, std::int64_t right,
                          bool chunked) {
    const char* name = "relative_attention";
    const ggml_tensor *x = qkv.get(), *p = positions.get(), *u = bias_u.get();
    require_rows(x, name, "qkv");
    require_rows(p, name, "positions");
    require(x->ne[0] % 3 == 0 && x->ne[0] > 0 && x->ne[1] > 0 && ggmlpy::is_matrix(x), name,
            [&] { return "qkv " + ggmlpy::describe(x) + " must be queries, keys and values side by side"; });
    const std::int64_t d = x->ne[0] / 3, n_frames = x->ne[1];
    require(ggmlpy::sizes_are(p, d, 2 * n_frames - 1), name, [&] {
        return "positions " + ggmlpy::describe(p) + " must be " + std::to_string(d) + " for each of " +
               std::to_string(2 * n_frames - 1) + " distances";
    });
    require_vector(u, d, name, "bias_u");
    require_vector(bias_v.get(), d, name, "bias_v");
    require(u->ne[0] * u->ne[1] == d, name,
            [&] { return "bias_u " + ggmlpy::describe(u) + " must be [d_head, n_heads]"; });
    require(left >= -1 && right >= -1 && left < kUnlimited && right < kUnlimited, name,
            "a limit is a number of frames, or -1 for none");
    const auto limit = [](std::int64_t n) {
        return static_cast<std::uint64_t>(n < 0 ? kUnlimited : n) & 0x7FFFFFFFU;
    };
    const AttentionOptions options{limit(left), limit(right), chunked};
    return add_node(*context, {d, n_frames}, {&qkv, &positions, &bias_u, &bias_v}, compute_attention,
                    to_userdata(options));
}

}  // namespace

void bind_attention_operator(py::module_& m) {
    m.def("relative_attention", relative_attention, py::arg("ctx"), py::arg("qkv"), py::arg("positions"),
          py::arg("bias_u"), py::arg("bias_v"), py::kw_only(), py::arg("left") = -1, py::arg("right") = -1,
          py::arg("chunked") = false,
          "Self-attention with relative positions: qkv [3d, T], positions [d, 2T-1] -> [d, T].");
}

}  // namespace asr
