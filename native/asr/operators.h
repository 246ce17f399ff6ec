// The kernels as operators of a ggml graph on the CPU (ggml_custom_4d).
#pragma once

#include <pybind11/pybind11.h>

namespace asr {

// Adds the operators to the module, each of them a function (context, tensors..., options) -> tensor.
void bind_operators(pybind11::module_& m);

}  // namespace asr
