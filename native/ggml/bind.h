// What the binding files of the ggml module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ggml/backend.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace ggmlpy {

void bind_tensor(pybind11::module_& m);
void bind_ops(pybind11::module_& m);
void bind_backend(pybind11::module_& m);
void bind_gguf(pybind11::module_& m);

// Raises GgmlFailure as ggml.GgmlError; each extension module registers it for itself.
inline void register_failure() {
    pybind11::register_local_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const GgmlFailure& failure) {
            const auto type = pybind11::module_::import("ggml.errors").attr("GgmlError");
            PyErr_SetString(type.ptr(), failure.what());
        }
    });
}

}  // namespace ggmlpy
