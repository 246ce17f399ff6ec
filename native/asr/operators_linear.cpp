#include <pybind11/stl.h>

#include <algorithm>

#include "asr/kernels/kernels.h"
#include "asr/operator.h"
#include "asr/operators.h"
#include "ggml-cpu.h"

namespace py = pybind11;

namespace asr {
namespace {

constexpr float kNormEps = 1e-5F;  // torch.nn.LayerNorm's default, which NeMo keeps

struct LinearOptions {
    Activation activation;
    std::uint8_t n_parts;
    bool has_bias, has_norm, has_residual, half;
};

Unpack unpack_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return nullptr;
        case GGML_TYPE_F16:
            return [](const void* from, float* to, std::int64_t n) {
                ggml_cpu_fp16_to_fp32(static_cast<const ggml_fp16_t*>(from), to, n);
            };
        default:
            return ggml_get_type_traits(type)->to_float;
    }
}

void compute_linear(ggml_tensor* y, int ith, int nth, void* userdata) {
    const auto options = from_userdata<LinearOptions>(userdata);
    Linear op = {};
    const ggml_tensor* x = y->src[0];
    op.n_in = x->ne[0];
    op.n_out = y->src[1]->ne[1];
    op.n_frames = ggml_nrows(x);
    op.x = floats(x);
    op.x_stride = row_stride(x);
    op.n_parts = options.n_parts;
    int next = 1 + options.n_parts;
    for (int p = 0; p < options.n_parts; ++p) {
        const ggml_tensor* w = y->src[1 + p];
        op.parts[p] = {static_cast<const char*>(w->data), static_cast<std::int64_t>(w->nb[1]),
                       w->type == GGML_TYPE_Q8_0, unpack_of(w->type),
                       options.has_bias ? floats(y->src[next++]) : nullptr};
    }
    if (options.has_norm) {
        op.norm = {floats(y->src[next]), floats(y->src[next + 1]), kNormEps};
        next += 2;
    }
    op.activation = options.activation;
    op.scale = options.half ? 0.5F : 1.0F;
    if (options.has_residual) {
        op.residual = floats(y->src[next]);
        op.residual_stride = row_stride(y->src[next]);
    }
    op.y = static_cast<float*>(y->data);
    op.y_stride = y->ne[0];
    kernels().linear(op, ith, nth);
}

Activation activation_of(const std::string& name) {
    if (name == "none") return Activation::none;
    if (name == "relu") return Activation::relu;
    if (name == "silu") return Activation::silu;
    if (name == "gated") return Activation::gated;
    throw py::value_error("there is no activation '" + name + "': none, relu, silu, gated");
}

Tensor linear(const ContextPtr& context, const Tensor& x, const std::vector<Tensor>& weights,
              const std::vector<Tensor>& biases, const std::vector<Tensor>& norm,
              const std::string& activation, const Tensor* residual, bool half) {
    const char* name = "linear";
    require(!weights.empty() && weights.size() <= 3, name, "takes one to three matrices");
    require(biases.empty() || biases.size() == weights.size(), name, "takes a bias for each matrix, or none");
    require(norm.empty() || norm.size() == 2, name, "a norm has a weight and a bias");
    const Activation act = activation_of(activation);
    const ggml_tensor* in = x.get();
    require_rows(in, name, "x");
    require(ggmlpy::is_matrix(in) || ggmlpy::contiguous(in), name, "x must be contiguous");
    const std::int64_t n_in = in->ne[0], n_out = weights.front().get()->ne[1];
    const auto n_parts = static_cast<std::int64_t>(weights.size());
    std::vector<const Tensor*> sources{&x};
    for (const Tensor& weight : weights) {
        const ggml_tensor* w = weight.get();
        require(w->ne[0] == n_in && w->ne[1] == n_out && ggml_nelements(w) == n_in * n_out &&
                    ggmlpy::contiguous(w),
                name, [&] {
                    return "the matrix " + ggmlpy::describe(w) + " does not fit x " + ggmlpy::describe(in);
                });
        require(ggmlpy::reads_rows(w->type), name,
                [&] { return std::string("cannot unpack weights of type ") + ggml_type_name(w->type); });
        sources.push_back(&weight);
    }
    for (const Tensor& bias : biases) {
        require_vector(bias.get(), n_out, name, "the bias");
        sources.push_back(&bias);
    }
    for (const Tensor& part : norm) {
        require_vector(part.get(), n_in, name, "the norm's weight or bias");
        sources.push_back(&part);
    }
    const bool gated = act == Activation::gated;
    require(!gated || n_out % 2 == 0, name, "a gated result needs an even number of rows");
    const std::int64_t width = n_parts * (gated ? n_out / 2 : n_out);
    if (residual != nullptr) {
        const ggml_tensor* r = residual->get();
        require_rows(r, name, "the residual");
        require(r->ne[0] == width && ggml_nrows(r) == ggml_nrows(in) && ggmlpy::contiguous(r), name,
                [&] { return "the residual " + ggmlpy::describe(r) + " has not the result's shape"; });
        sources.push_back(residual);
    }
    const LinearOptions options{
        act, static_cast<std::uint8_t>(n_parts), !biases.empty(), !norm.empty(), residual != nullptr, half};
    return add_node(*context, {width, in->ne[1], in->ne[2], in->ne[3]}, sources, compute_linear,
                    to_userdata(options));
}

void compute_layer_norm(ggml_tensor* y, int ith, int nth, void*) {
    const ggml_tensor* x = y->src[0];
    const LayerNorm op{x->ne[0],
                       ggml_nrows(x),
                       floats(x),
                       row_stride(x),
                       {floats(y->src[1]), floats(y->src[2]), kNormEps},
                       static_cast<float*>(y->data)};
    kernels().layer_norm(op, ith, nth);
}

Tensor layer_norm(const ContextPtr& context, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const ggml_tensor* in = x.get();
    require_rows(in, "layer_norm", "x");
    require(ggmlpy::contiguous(in), "layer_norm", "x must be contiguous");
    require_vector(weight.get(), in->ne[0], "layer_norm", "the weight");
    require_vector(bias.get(), in->ne[0], "layer_norm", "the bias");
    return add_node(*context, {in->ne[0], in->ne[1], in->ne[2], in->ne[3]}, {&x, &weight, &bias},
                    compute_layer_norm, nullptr);
}

}  // namespace

void bind_linear_operators(py::module_& m) {
    m.def(
        "kernel_sets",
        [] {
            std::vector<std::string> names;
            for (const Kernels* set : kernel_sets()) names.emplace_back(set->name);
            return names;
        },
        "The sets of kernels that this processor can run, the best first.");
    m.def(
        "reference_kernels", [](const std::string& name) { return kernel_set(name).reference; },
        py::arg("name"), "The set that computes in plain loops what another does.");
    m.def("kernels", [] { return kernels().name; }, "The set of kernels in use.");
    m.def("use_kernels", use_kernels, py::arg("name"), "Compute with another set from now on, for tests.");

    m.def("linear", linear, py::arg("ctx"), py::arg("x"), py::arg("weights"), py::kw_only(),
          py::arg("biases") = std::vector<Tensor>{}, py::arg("norm") = std::vector<Tensor>{},
          py::arg("activation") = "none", py::arg("residual") = py::none(), py::arg("half") = false,
          "residual + activation(norm(x) W^T + bias), the results of several W side by side.");
    m.def("layer_norm", layer_norm, py::arg("ctx"), py::arg("x"), py::arg("weight"), py::arg("bias"),
          "Layer norm over the features of each frame.");
}

}  // namespace asr
