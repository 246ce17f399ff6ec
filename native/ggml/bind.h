// What the binding files of the ggml module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ggml/backend.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace ggmlpy {

// Throws ValueError unless ggml has such a type.
ggml_type check_type(int type);

void bind_tensor(pybind11::module_& m);
void bind_ops(pybind11::module_& m);
void bind_backend(pybind11::module_& m);
void bind_gguf(pybind11::module_& m);
void bind_gguf_write(pybind11::module_& m);
void bind_quantize(pybind11::module_& m);
void bind_features(pybind11::module_& m);
void bind_log(pybind11::module_& m);

// Text from a file, whatever its bytes: what is not UTF-8 is escaped as Python does in file names.
inline pybind11::str text(const char* bytes, const char* errors = "surrogateescape") {
    const auto length = static_cast<pybind11::ssize_t>(std::char_traits<char>::length(bytes));
    PyObject* decoded = PyUnicode_DecodeUTF8(bytes, length, errors);
    if (decoded == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

// Raises GgmlFailure as ggml.GgmlError; each extension module registers it for itself.
inline void register_failure() {
    pybind11::register_local_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const GgmlFailure& failure) {
            const auto type = pybind11::module_::import("ggml.errors").attr("GgmlError");
            // ggml quotes names from files, which may hold any bytes.
            PyErr_SetObject(type.ptr(), text(failure.what(), "replace").ptr());
        }
    });
}

}  // namespace ggmlpy
