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
#include "ggml/sched.h"
#include "ggml/stream.h"

namespace ggmlpy {

template <typename T, typename... Others>
inline constexpr bool is_one_of = (std::is_same_v<T, Others> || ...);
// The classes whose objects Python holds.
template <typename T>
inline constexpr bool is_handle =
    is_one_of<T, Backend, Buffer, BufferType, Context, Device, Event, Gallocr, Graph, GraphPlan, MultiBuffer,
              Registry, Sched, Tensor, Threadpool>;

// Has the object been through __init__? K.__new__(K) makes one that has not, and pybind11 would give it
// memory that nobody initialised.
inline bool is_initialised(pybind11::handle object) {
    namespace detail = pybind11::detail;
    if (!object || !PyObject_TypeCheck(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())),
                                       detail::get_internals().default_metaclass)) {
        return true;  // none of pybind11's
    }
    auto* instance = reinterpret_cast<detail::instance*>(object.ptr());
    return instance->get_value_and_holder().value_ptr() != nullptr;
}

}  // namespace ggmlpy

namespace pybind11::detail {

template <typename T>
struct type_caster<T, std::enable_if_t<ggmlpy::is_handle<T>>> : type_caster_base<T> {
    bool load(handle source, bool convert) {
        return ggmlpy::is_initialised(source) && type_caster_base<T>::load(source, convert);
    }
};

// None is no handle either: pybind11 would pass it to a function as a null pointer.
template <typename T>
struct handle_caster : copyable_holder_caster<T, std::shared_ptr<T>> {
    bool load(handle source, bool convert) {
        return !source.is_none() && ggmlpy::is_initialised(source) &&
               copyable_holder_caster<T, std::shared_ptr<T>>::load(source, convert);
    }
};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Backend>> : handle_caster<ggmlpy::Backend> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Buffer>> : handle_caster<ggmlpy::Buffer> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Context>> : handle_caster<ggmlpy::Context> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Gallocr>> : handle_caster<ggmlpy::Gallocr> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Graph>> : handle_caster<ggmlpy::Graph> {};
template <>
struct type_caster<std::shared_ptr<ggmlpy::Sched>> : handle_caster<ggmlpy::Sched> {};
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
        } catch (const OutOfMemory& failure) {
            raise("OutOfMemoryError", failure.what());
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

// The locks of backends under the GIL. They are waited for without it, since who computes may be waiting for
// the GIL, and the GIL is not waited for with them, since at exit a thread may wait for ever.
inline ComputeLocks lock_backends(const std::vector<Backend*>& backends) {
    for (const Backend* backend : backends) backend->check_process();
    for (;;) {
        if (auto locks = ComputeLocks::try_for(backends, std::chrono::milliseconds(0)))
            return std::move(*locks);
        if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
        if (threads_are_parked())
            throw GgmlFailure("the interpreter is exiting in the middle of a computation on this backend");
        const GilRelease release;
        const auto waited = ComputeLocks::try_for(backends, std::chrono::milliseconds(20));
    }
}

inline std::vector<Backend*> members(const Sched& sched) {
    std::vector<Backend*> out;
    for (const auto& backend : sched.backends()) out.push_back(backend.get());
    return out;
}

template <typename T>
void close_handle(T& handle) {
    handle.close();
}
// These wait for what another thread computes on it. In a forked child nobody does, but a lock that was taken
// at the fork stays so for ever.
template <typename T>
void close_locked(T& handle, const std::vector<Backend*>& backends) {
    if (handle.closed() || backends.front()->forked()) return handle.close();
    const ComputeLocks locks = lock_backends(backends);
    handle.close();
}
inline void close_handle(Backend& backend) { close_locked(backend, {&backend}); }
inline void close_handle(GraphPlan& plan) { close_locked(plan, {plan.backend().get()}); }
inline void close_handle(Sched& sched) { close_locked(sched, members(sched)); }

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

// "<ggml.Name what>", where `what` says which one it is; of a closed one that it is closed.
template <typename Class, typename What>
void bind_repr(Class& c, const char* name, What&& what) {
    using T = typename Class::type;
    c.def("__repr__", [name, what](const T& self) {
        return std::string("<ggml.") + name + " " + (self.closed() ? "(closed)" : what(self)) + ">";
    });
}
inline std::string count_of(std::size_t n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
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
