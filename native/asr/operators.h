// The kernels as operators of a ggml graph on the CPU (ggml_custom_4d).
#pragma once

#include <pybind11/pybind11.h>

namespace asr {

// Add operators to the module, each of them a function (context, tensors..., options) -> tensor.
void bind_linear_operators(pybind11::module_& m);
void bind_attention_operator(pybind11::module_& m);
void bind_convolution_operators(pybind11::module_& m);

}  // namespace asr
