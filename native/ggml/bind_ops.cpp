// Graph operators: one table from ggml's functions to Python's, wrapped by one template.

#include "ggml/bind.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

// ggml_tensor * becomes a Tensor; every other argument keeps its type.
template <typename T>
struct Argument {
    using type = T;
    static T pass(Context&, T value) { return value; }
};

template <>
struct Argument<ggml_tensor*> {
    using type = const Tensor&;
    static ggml_tensor* pass(Context& context, const Tensor& t) { return context.use(t); }
};

template <>
struct Argument<ggml_type> {
    using type = int;
    static ggml_type pass(Context&, int t) { return check_type(t); }
};

template <typename... A>
auto op(ggml_tensor* (*function)(ggml_context*, A...)) {
    return [function](const ContextPtr& context, typename Argument<A>::type... arguments) {
        Guard guard;
        ggml_tensor* result = function(context->get(), Argument<A>::pass(*context, arguments)...);
        check_sizes(result);
        return context->wrap(result);
    };
}

// ggml divides by the strides of a convolution.
void check_strides(std::initializer_list<int> strides_and_dilations) {
    for (const int n : strides_and_dilations) {
        if (n < 1) throw py::value_error("a stride or dilation must be 1 or more, not " + std::to_string(n));
    }
}

Tensor im2col(const ContextPtr& context, const Tensor& a, const Tensor& b, int s0, int s1, int p0, int p1,
              int d0, int d1, bool is_2d, int type) {
    check_strides({s0, is_2d ? s1 : 1, d0, is_2d ? d1 : 1});
    return op(ggml_im2col)(context, a, b, s0, s1, p0, p1, d0, d1, is_2d, type);
}

Tensor conv_2d_dw_direct(const ContextPtr& context, const Tensor& a, const Tensor& b, int stride0,
                         int stride1, int pad0, int pad1, int dilation0, int dilation1) {
    check_strides({stride0, stride1, dilation0, dilation1});
    return op(ggml_conv_2d_dw_direct)(context, a, b, stride0, stride1, pad0, pad1, dilation0, dilation1);
}

Tensor soft_max_ext(const ContextPtr& context, const Tensor& a, const Tensor* mask, float scale,
                    float max_bias) {
    Guard guard;
    ggml_tensor* m = mask != nullptr ? context->use(*mask) : nullptr;
    return context->wrap(ggml_soft_max_ext(context->get(), context->use(a), m, scale, max_bias));
}

}  // namespace

void bind_ops(py::module_& m) {
    const auto ctx = py::arg("ctx");
    const auto a = py::arg("a");
    const auto b = py::arg("b");
    const auto ne0 = py::arg("ne0"), ne1 = py::arg("ne1"), ne2 = py::arg("ne2"), ne3 = py::arg("ne3");
    const auto nb1 = py::arg("nb1"), nb2 = py::arg("nb2"), nb3 = py::arg("nb3"), offset = py::arg("offset");

    m.def("add", op(ggml_add), ctx, a, b, "a + b, b repeated where its sizes are 1.");
    m.def("sub", op(ggml_sub), ctx, a, b, "a - b.");
    m.def("mul", op(ggml_mul), ctx, a, b, "a * b, element by element.");
    m.def("div", op(ggml_div), ctx, a, b, "a / b, element by element.");
    m.def("scale", op(ggml_scale), ctx, a, py::arg("s"), "a times a number.");
    m.def("silu", op(ggml_silu), ctx, a, "a * sigmoid(a), called Swish in NeMo.");
    m.def("sigmoid", op(ggml_sigmoid), ctx, a);
    m.def("relu", op(ggml_relu), ctx, a);
    m.def("tanh", op(ggml_tanh), ctx, a);
    m.def("norm", op(ggml_norm), ctx, a, py::arg("eps"), "Layer normalisation along ne0, without weights.");
    m.def("soft_max_ext", soft_max_ext, ctx, a, py::arg("mask"), py::arg("scale"), py::arg("max_bias") = 0.0F,
          "softmax(a * scale + mask) along ne0.");
    m.def("mul_mat", op(ggml_mul_mat), ctx, a, b, "a [k, n], b [k, m] -> [n, m]: b times a transposed.");
    m.def("get_rows", op(ggml_get_rows), ctx, a, b, "Rows of a at the int32 indices b, as float32.");
    m.def("cpy", op(ggml_cpy), ctx, a, b, "Copy a into b; the result is a view of b.");
    m.def("cont", op(ggml_cont), ctx, a, "A contiguous copy.");
    m.def("concat", op(ggml_concat), ctx, a, b, py::arg("dim"));
    m.def("cast", op(ggml_cast), ctx, a, py::arg("type"));
    m.def("permute", op(ggml_permute), ctx, a, py::arg("axis0"), py::arg("axis1"), py::arg("axis2"),
          py::arg("axis3"), "axisN says where dimension N goes.");
    m.def("transpose", op(ggml_transpose), ctx, a, "A view with ne0 and ne1 exchanged.");
    m.def("reshape_1d", op(ggml_reshape_1d), ctx, a, ne0);
    m.def("reshape_2d", op(ggml_reshape_2d), ctx, a, ne0, ne1);
    m.def("reshape_3d", op(ggml_reshape_3d), ctx, a, ne0, ne1, ne2);
    m.def("reshape_4d", op(ggml_reshape_4d), ctx, a, ne0, ne1, ne2, ne3);
    m.def("view_1d", op(ggml_view_1d), ctx, a, ne0, offset);
    m.def("view_2d", op(ggml_view_2d), ctx, a, ne0, ne1, nb1, offset);
    m.def("view_3d", op(ggml_view_3d), ctx, a, ne0, ne1, ne2, nb1, nb2, offset);
    m.def("view_4d", op(ggml_view_4d), ctx, a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset);
    m.def("pad_ext", op(ggml_pad_ext), ctx, a, py::arg("lp0"), py::arg("rp0"), py::arg("lp1"), py::arg("rp1"),
          py::arg("lp2"), py::arg("rp2"), py::arg("lp3"), py::arg("rp3"),
          "Zeros before (lp) and after (rp) each dimension.");
    m.def("im2col", im2col, ctx, a, b, py::arg("s0"), py::arg("s1"), py::arg("p0"), py::arg("p1"),
          py::arg("d0"), py::arg("d1"), py::arg("is_2d"), py::arg("type"),
          "The patches of b under a kernel of a's size: [KW*KH*IC, OW, OH, N].");
    m.def("conv_2d_dw_direct", conv_2d_dw_direct, ctx, a, b, py::arg("stride0"), py::arg("stride1"),
          py::arg("pad0"), py::arg("pad1"), py::arg("dilation0"), py::arg("dilation1"),
          "Depthwise convolution; the layout of the result follows b's.");
}

}  // namespace ggmlpy
