// The extension module ggml._core.

#include "ggml/bind.h"

namespace {

newfunc original_new = nullptr;

PyObject* new_object(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    if (!pybind11::detail::all_type_info(type).empty()) return original_new(type, args, kwargs);
    PyErr_SetString(PyExc_TypeError, "such an object can neither be made from nothing nor be pickled");
    return nullptr;
}

// pickle (protocols 0 and 1) instantiates the base of pybind11's classes, which answers by throwing a C++
// exception through the interpreter. Classes that are made after this inherit the check.
void check_new() {
    auto* base = reinterpret_cast<PyTypeObject*>(pybind11::detail::get_internals().instance_base);
    if (base->tp_new == new_object) return;
    original_new = base->tp_new;
    base->tp_new = new_object;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
    m.doc() =
        "ggml for Python: contexts, tensors, operators, backends, GGUF. Use it through the package ggml.";
    check_new();
    ggmlpy::watch_interpreter_exit();
    ggmlpy::install_abort_handler();
    ggmlpy::register_failure();
    ggmlpy::bind_tensor(m);
    ggmlpy::bind_ops(m);
    ggmlpy::bind_device(m);
    ggmlpy::bind_buffer(m);
    ggmlpy::bind_graph(m);
    ggmlpy::bind_backend(m);
    ggmlpy::bind_stream(m);
    ggmlpy::bind_gguf(m);
    ggmlpy::bind_gguf_write(m);
    ggmlpy::bind_quantize(m);
    ggmlpy::bind_features(m);
    ggmlpy::bind_log(m);
}
