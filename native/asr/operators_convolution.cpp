#include "asr/kernels/kernels.h"
#include "asr/operator.h"
#include "asr/operators.h"

namespace py = pybind11;

namespace asr {
namespace {

struct StridedOptions {
    bool causal, has_bias;
};

struct DepthwiseOptions {
    std::int32_t left;
    bool with_silu;
};

// Padding of 1 on both sides, or of 2 before and 1 after.
std::int64_t halved(std::int64_t n, bool causal) { return causal ? n / 2 + 1 : (n - 1) / 2 + 1; }

StridedConvolution strided(ggml_tensor* y, void* userdata) {
    const auto options = from_userdata<StridedOptions>(userdata);
    StridedConvolution op = {};
    const ggml_tensor* x = y->src[0];
    op.n_channels = y->ne[0];
    op.out_bands = y->ne[1];
    op.out_frames = y->ne[2];
    op.pad = options.causal ? 2 : 1;
    op.x = floats(x);
    op.kernel = floats(y->src[1]);
    op.bias = options.has_bias ? floats(y->src[2]) : nullptr;
    op.y = static_cast<float*>(y->data);
    return op;
}

void compute_first(ggml_tensor* y, int ith, int nth, void* userdata) {
    StridedConvolution op = strided(y, userdata);
    op.n_bands = y->src[0]->ne[0];
    op.n_frames = y->src[0]->ne[1];
    kernels().first_convolution(op, ith, nth);
}

void compute_strided(ggml_tensor* y, int ith, int nth, void* userdata) {
    StridedConvolution op = strided(y, userdata);
    op.n_bands = y->src[0]->ne[1];
    op.n_frames = y->src[0]->ne[2];
    kernels().strided_depthwise(op, ith, nth);
}

void compute_depthwise(ggml_tensor* y, int ith, int nth, void* userdata) {
    const auto options = from_userdata<DepthwiseOptions>(userdata);
    const Depthwise op{y->ne[1],          y->ne[0],          y->src[1]->ne[1],
                       options.left,      floats(y->src[0]), floats(y->src[1]),
                       floats(y->src[2]), options.with_silu, static_cast<float*>(y->data)};
    kernels().depthwise(op, ith, nth);
}

// Checks what both strided convolutions take, and adds the node.
Tensor add_strided(const char* name, Context& context, const Tensor& x, const Tensor& kernel,
                   const Tensor* bias, bool causal, std::int64_t bands, std::int64_t frames,
                   ggml_custom_op_t compute) {
    const ggml_tensor* w = kernel.get();
    const std::int64_t channels = w->ne[0];
    require_vector(w, 9 * channels, name, "the kernel");
    require_rows(x.get(), name, "x");
    require(ggmlpy::contiguous(x.get()) && bands > 0 && frames > 0, name,
            "x must be contiguous and not empty");
    std::vector<const Tensor*> sources{&x, &kernel};
    if (bias != nullptr) {
        require_vector(bias->get(), channels, name, "the bias");
        sources.push_back(bias);
    }
    const StridedOptions options{causal, bias != nullptr};
    return add_node(context, {channels, halved(bands, causal), halved(frames, causal)}, sources, compute,
                    to_userdata(options));
}

Tensor first_convolution(const ContextPtr& context, const Tensor& mel, const Tensor& kernel,
                         const Tensor* bias, bool causal) {
    const ggml_tensor* x = mel.get();
    require(ggmlpy::is_matrix(x), "first_convolution", "takes mel of two dimensions");
    return add_strided("first_convolution", *context, mel, kernel, bias, causal, x->ne[0], x->ne[1],
                       compute_first);
}

Tensor strided_depthwise(const ContextPtr& context, const Tensor& x, const Tensor& kernel, const Tensor* bias,
                         bool causal) {
    const ggml_tensor* in = x.get();
    require(in->ne[0] == kernel.get()->ne[0] && in->ne[3] == 1, "strided_depthwise",
            [&] { return "the kernel does not fit x " + ggmlpy::describe(in); });
    return add_strided("strided_depthwise", *context, x, kernel, bias, causal, in->ne[1], in->ne[2],
                       compute_strided);
}

Tensor depthwise(const ContextPtr& context, const Tensor& x, const Tensor& kernel, const Tensor& bias,
                 std::int32_t left, std::int32_t right, bool with_silu) {
    const char* name = "depthwise";
    const ggml_tensor *in = x.get(), *w = kernel.get();
    require_rows(in, name, "x");
    require_rows(w, name, "the kernel");
    require(ggmlpy::contiguous(in) && ggmlpy::contiguous(w) && ggmlpy::is_matrix(in), name,
            "x and the kernel must be contiguous");
    require(left >= 0 && right >= 0 && ggmlpy::sizes_are(w, in->ne[0], left + right + 1), name,
            [&] { return "the kernel " + ggmlpy::describe(w) + " does not fit x " + ggmlpy::describe(in); });
    require_vector(bias.get(), in->ne[0], name, "the bias");
    const DepthwiseOptions options{left, with_silu};
    return add_node(*context, {in->ne[0], in->ne[1]}, {&x, &kernel, &bias}, compute_depthwise,
                    to_userdata(options));
}

}  // namespace

void bind_convolution_operators(py::module_& m) {
    m.def("first_convolution", first_convolution, py::arg("ctx"), py::arg("mel"), py::arg("kernel"),
          py::arg("bias").none(true), py::kw_only(), py::arg("causal") = false,
          "relu(3x3 convolution of stride 2): mel [F, T], kernel [C, 3, 3] -> [C, F/2, T/2].");
    m.def("strided_depthwise", strided_depthwise, py::arg("ctx"), py::arg("x"), py::arg("kernel"),
          py::arg("bias").none(true), py::kw_only(), py::arg("causal") = false,
          "3x3 convolution of stride 2, channel by channel: [C, F, T], kernel [C, 3, 3] -> [C, F/2, T/2].");
    m.def("depthwise", depthwise, py::arg("ctx"), py::arg("x"), py::arg("kernel"), py::arg("bias"),
          py::kw_only(), py::arg("left"), py::arg("right"), py::arg("silu") = false,
          "Convolution over time, channel by channel: x [d, T], kernel [d, left + 1 + right] -> [d, T].");
}

}  // namespace asr
