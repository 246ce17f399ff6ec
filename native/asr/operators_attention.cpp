#include <pybind11/stl.h>

#include <optional>

#include "asr/kernels/kernels.h"
#include "asr/operator.h"
#include "asr/operators.h"

namespace py = pybind11;

namespace asr {
namespace {

struct AttentionOptions {
    std::int32_t first, zero, left, right, chunked;
};

RelativeAttention attention_of(const ggml_tensor* y, const AttentionOptions& options) {
    const ggml_tensor *q = y->src[0], *k = y->src[1], *v = y->src[2], *p = y->src[3], *u = y->src[4];
    RelativeAttention op = {};
    op.n_queries = q->ne[1];
    op.n_keys = k->ne[1];
    op.first = options.first;
    op.d_head = u->ne[0];
    op.n_heads = u->ne[1];
    op.q = floats(q);
    op.k = floats(k);
    op.v = floats(v);
    op.q_stride = row_stride(q);
    op.k_stride = row_stride(k);
    op.v_stride = row_stride(v);
    op.p = floats(p);
    op.p_stride = row_stride(p);
    op.p_rows = p->ne[1];
    op.p_zero = options.zero;
    op.bias_u = floats(u);
    op.bias_v = floats(y->src[5]);
    op.left = options.left;
    op.right = options.right;
    op.chunked = options.chunked != 0;
    op.y = static_cast<float*>(y->data);
    op.y_stride = y->ne[0];
    return op;
}

void compute_attention(ggml_tensor* y, int ith, int nth, void*) {
    kernels().relative_attention(attention_of(y, get_options<AttentionOptions>(y)), ith, nth);
}

// Throws unless there is a position for every distance that is met.
void require_positions(const RelativeAttention& op, const char* name) {
    for (std::int64_t i = 0; i < op.n_queries; ++i) {
        const std::int64_t frame = op.first + i;
        const VisibleKeys seen = visible_keys(op, frame);
        require(seen.first < seen.end, name,
                [&] { return "frame " + std::to_string(frame) + " sees no key"; });
        require(op.p_zero - frame + seen.first >= 0 && op.p_zero - frame + seen.end <= op.p_rows, name, [&] {
            return "there are positions for the distances " + std::to_string(op.p_zero) + " to " +
                   std::to_string(op.p_zero + 1 - op.p_rows) + ", frame " + std::to_string(frame) +
                   " meets keys at " + std::to_string(frame - seen.first) + " to " +
                   std::to_string(frame - seen.end + 1);
        });
    }
}

Tensor relative_attention(const ContextPtr& context, const Tensor& queries, const Tensor& keys,
                          const Tensor& values, const Tensor& positions, const Tensor& bias_u,
                          const Tensor& bias_v, std::int32_t first, std::optional<std::int32_t> zero,
                          std::int32_t left, std::int32_t right, bool chunked) {
    const char* name = "relative_attention";
    const ggml_tensor *q = queries.get(), *k = keys.get(), *u = bias_u.get();
    const std::int64_t d = q->ne[0];
    const auto rows = [&](const Tensor& tensor, const char* what, std::int64_t n) {
        const ggml_tensor* t = tensor.get();
        require_rows(t, name, what);
        require(t->ne[0] == d && t->ne[1] > 0 && ggmlpy::is_matrix(t) && (n < 0 || t->ne[1] == n), name, [&] {
            return std::string(what) + " " + ggmlpy::describe(t) + " must be rows of " + std::to_string(d) +
                   (n < 0 ? "" : ", " + std::to_string(n) + " of them");
        });
    };
    rows(queries, "queries", -1);
    rows(keys, "keys", -1);
    rows(values, "values", k->ne[1]);
    rows(positions, "positions", -1);
    require_vector(u, d, name, "bias_u");
    require_vector(bias_v.get(), d, name, "bias_v");
    require(u->ne[0] * u->ne[1] == d, name,
            [&] { return "bias_u " + ggmlpy::describe(u) + " must be [d_head, n_heads]"; });
    require(left >= -1 && right >= -1, name, "a limit is a number of frames, or -1 for none");
    require(first >= 0 && k->ne[1] < 1 << 30, name, "queries begin at frame 0 or later");
    const AttentionOptions options{first, zero.value_or(static_cast<std::int32_t>(k->ne[1] - 1)), left, right,
                                   chunked};
    Tensor y = add_node(*context, {d, q->ne[1]}, {&queries, &keys, &values, &positions, &bias_u, &bias_v},
                        compute_attention, nullptr);
    set_options(y.get(), options);
    require_positions(attention_of(y.get(), options), name);
    return y;
}

}  // namespace

void bind_attention_operator(py::module_& m) {
    m.def("relative_attention", relative_attention, py::arg("ctx"), py::arg("queries"), py::arg("keys"),
          py::arg("values"), py::arg("positions"), py::arg("bias_u"), py::arg("bias_v"), py::kw_only(),
          py::arg("first") = 0, py::arg("zero") = py::none(), py::arg("left") = -1, py::arg("right") = -1,
          py::arg("chunked") = false,
          "Attention with relative positions: queries [d, n], keys and values [d, T] -> [d, n].");
}

}  // namespace asr
