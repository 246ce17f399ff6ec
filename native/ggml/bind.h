// What the binding files of the ggml module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ggml/backend.h"
#include "ggml/buffer.h"
#include "ggml/context.h"
#include "ggml/gil.h"
#include "ggml/guard.h"
#include "ggml/interrupt.h"

// None is no handle: pybind11 would pass it to a function as a null pointer.
namespace pybind11::detail {
template <typename T>
struct handle_caster : copyable_holder_caster<T, std::shared_ptr<T>> {
    bool load(handle source, bool convert) {
        return !source.is_none() && copyable_holder_caster<T, std::shared_ptr<T>>::load(source, convert);
    }
};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Context>> : handle_caster<ggmlpy::Context> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Backend>> : handle_caster<ggmlpy::Backend> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Graph>> : handle_caster<ggmlpy::Graph> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Buffer>> : handle_caster<ggmlpy::Buffer> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Threadpool>> : handle_caster<ggmlpy::Threadpool> {};
}  // namespace pybind11::detail

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
        const auto raise = [](const char* type, const char* message) {
            // ggml quotes names from files, which may hold any bytes.
            PyErr_SetObject(pybind11::module_::import("ggml.errors").attr(type).ptr(),
                            text(message, "replace").ptr());
        };
        try {
            if (p) std::rethrow_exception(p);
        } catch (const Unsupported& failure) {
            raise("UnsupportedError", failure.what());
        } catch (const GgmlFailure& failure) {
            raise("GgmlError", failure.what());
        } catch (const Cancelled&) {
            raise("Cancelled", "the computation was cancelled");
        }
    });
}

// A member of one of the enumerations in ggml.enums.
inline pybind11::object enum_value(const char* name, int value) {
    return pybind11::module_::import("ggml.enums").attr(name)(value);
}

// A backend's lock, waited for without the GIL: who computes under it may be waiting for the GIL.
inline ComputeLock lock_backend(Backend& backend) {
    const ggmlpy::GilRelease release;
    return ComputeLock(backend.mutex());
}

template <typename T>
void close_handle(T& handle) {
    handle.close();
}
// Waits for what another thread computes on it.
inline void close_handle(Backend& backend) {
    const ComputeLock lock = lock_backend(backend);
    backend.close();
}

// close(), closed and `with` for a handle class; closing twice is harmless.
template <typename Class>
void bind_closing(Class& c) {
    using T = typename Class::type;
    c.def(
         "close", [](T& self) { close_handle(self); },
         "Lets go of what it holds; using it afterwards raises.")
        .def_property_readonly("closed", &T::closed)
        .def("__enter__", [](pybind11::object self) { return self; })
        .def("__exit__", [](T& self, const pybind11::args&) { close_handle(self); });
}

// Tensors to and from NumPy, shared by the copies that wait and those that do not.
void check_element_type(const ggml_tensor* t, const pybind11::array& values);
void check_same_layout(const Tensor& a, const Tensor& b);
pybind11::array empty_array(const ggml_tensor* t);
// A flat array for so many bytes of a tensor; bytes for types that NumPy does not have.
pybind11::array empty_part(const ggml_tensor* t, std::size_t bytes);

void bind_device(pybind11::module_& m);
void bind_buffer(pybind11::module_& m);
void bind_graph(pybind11::module_& m);
void bind_stream(pybind11::module_& m);

}  // namespace ggmlpy
