// Types, contexts, tensors, graphs; tensors to and from NumPy.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_set>

#include "ggml/bind.h"
#include "ggml/internal.h"
#include "ggml/meta.h"

namespace py = pybind11;

namespace ggmlpy {

ggml_type check_type(int type) {
    if (type < 0 || type >= GGML_TYPE_COUNT ||
        ggml_get_type_traits(static_cast<ggml_type>(type))->type_size == 0) {
        throw py::value_error("no such ggml type: " + std::to_string(type));
    }
    return static_cast<ggml_type>(type);
}

namespace {

// NumPy's shape is ggml's ne reversed.
std::vector<py::ssize_t> numpy_shape(const ggml_tensor* t) {
    std::vector<py::ssize_t> shape;
    for (int i = ggml_n_dims(t) - 1; i >= 0; --i) shape.push_back(static_cast<py::ssize_t>(t->ne[i]));
    return shape;
}

py::dtype numpy_dtype(const ggml_tensor* t) {
    switch (t->type) {
        case GGML_TYPE_F32:
            return py::dtype("float32");
        case GGML_TYPE_F16:
            return py::dtype("float16");
        case GGML_TYPE_F64:
            return py::dtype("float64");
        case GGML_TYPE_I8:
            return py::dtype("int8");
        case GGML_TYPE_I16:
            return py::dtype("int16");
        case GGML_TYPE_I32:
            return py::dtype("int32");
        case GGML_TYPE_I64:
            return py::dtype("int64");
        default:
            throw GgmlFailure("NumPy has no type for " + describe(t) + ": use to_float32()");
    }
}

void require_contiguous(const ggml_tensor* t) {
    if (!ggml_is_contiguous(t))
        throw GgmlFailure("tensor " + describe(t) + " is not contiguous: use ggml.cont");
}

// The memory that a tensor lies in, or the one that it looks at.
ggml_backend_buffer_t buffer_of(const ggml_tensor* t) {
    return t->view_src != nullptr ? t->view_src->buffer : t->buffer;
}

// All bytes of a tensor, from whatever device.
void read_bytes(const Tensor& tensor, void* to) {
    const ggml_tensor* t = tensor.get();
    const auto read = [&] {
        try {
            ggml_backend_tensor_get(t, to, 0, ggml_nbytes(t));
        } catch (const GgmlFailure&) {
            if (!ggml_backend_buffer_is_meta(buffer_of(t))) throw;
            throw GgmlFailure(
                "tensor " + describe(t) + " cannot be put together from the parts of a meta device: a " +
                "product whose sum is split lies there as partial sums until the next operator; put " +
                "one after it (such as ggml.scale by 1) and read that");
        }
    };
    asking_splits(tensor, read);
}

// Sizes of 1 aside, the shape is the tensor's. A flat array is one in the order of the memory, and so are the
// bytes of blocks.
void check_shape(const ggml_tensor* t, const py::array& array) {
    const auto longer_than_one = [](auto begin, auto end) {
        std::vector<py::ssize_t> sizes;
        std::copy_if(begin, end, std::back_inserter(sizes), [](py::ssize_t n) { return n != 1; });
        return sizes;
    };
    const auto own = numpy_shape(t);
    const auto given = longer_than_one(array.shape(), array.shape() + array.ndim());
    if (ggml_is_quantized(t->type) || t->type == GGML_TYPE_BF16 || given.size() <= 1) return;
    if (longer_than_one(own.begin(), own.end()) == given) return;
    throw py::value_error("tensor " + describe(t) + " takes an array of shape " +
                          std::string(py::str(py::tuple(py::cast(own)))) + ", not " +
                          std::string(py::str(array.attr("shape"))));
}

py::array tensor_get(const Tensor& tensor) {
    Guard guard;
    const ggml_tensor* t = tensor.allocated();
    require_contiguous(t);
    py::array out = empty_array(t);
    read_bytes(tensor, out.mutable_data());
    return out;
}

// What was given as an array: lists are made one, as NumPy makes them, and bytes are those of blocks.
py::array to_array(const ggml_tensor* t, const py::object& values) {
    if (py::isinstance<py::array>(values)) return values.cast<py::array>();
    const auto numpy = py::module_::import("numpy");
    const bool raw = ggml_is_quantized(t->type) || t->type == GGML_TYPE_BF16;
    if (raw && PyObject_CheckBuffer(values.ptr()) != 0) return numpy.attr("frombuffer")(values, "uint8");
    const py::object array = numpy.attr("asarray")(values);
    // Python's numbers have no type of their own.
    const bool numbers = std::string("if").find(array.cast<py::array>().dtype().kind()) != std::string::npos;
    if (raw || !numbers || py::hasattr(values, "dtype") || PyObject_CheckBuffer(values.ptr()) != 0)
        return array;
    return array.attr("astype")(numpy_dtype(t), py::arg("casting") = "same_kind");
}

void tensor_set(const Tensor& tensor, const py::object& values) {
    Guard guard;
    // NumPy may let go of the GIL: what is checked is checked after it.
    const py::array array = py::array::ensure(to_array(tensor.allocated(), values), py::array::c_style);
    if (!array) throw py::error_already_set();
    ggml_tensor* t = tensor.allocated();
    tensor.context()->check_host_may_write(t);
    require_contiguous(t);
    check_element_type(t, array);
    if (static_cast<std::size_t>(array.nbytes()) != ggml_nbytes(t)) {
        throw py::value_error("tensor " + describe(t) + " takes " + std::to_string(ggml_nbytes(t)) +
                              " bytes, the array has " + std::to_string(array.nbytes()));
    }
    check_shape(t, array);
    asking_splits(tensor, [&] { ggml_backend_tensor_set(t, array.data(), 0, ggml_nbytes(t)); });
}

py::array_t<float> tensor_to_float32(const Tensor& tensor) {
    Guard guard;
    const ggml_tensor* t = tensor.allocated();
    require_contiguous(t);
    const auto n = static_cast<std::size_t>(ggml_nelements(t));
    py::array_t<float> out(numpy_shape(t));
    if (t->type == GGML_TYPE_F32) {
        read_bytes(tensor, out.mutable_data());
        return out;
    }
    std::vector<char> bytes(ggml_nbytes(t));
    read_bytes(tensor, bytes.data());
    float* to = out.mutable_data();
    const auto convert = [&](auto sample) {
        using T = decltype(sample);
        const T* from = reinterpret_cast<const T*>(bytes.data());
        for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
    };
    switch (t->type) {
        case GGML_TYPE_F64:
            convert(double{});
            return out;
        case GGML_TYPE_I8:
            convert(std::int8_t{});
            return out;
        case GGML_TYPE_I16:
            convert(std::int16_t{});
            return out;
        case GGML_TYPE_I32:
            convert(std::int32_t{});
            return out;
        case GGML_TYPE_I64:
            convert(std::int64_t{});
            return out;
        default:
            break;
    }
    const ggml_type_traits* traits = ggml_get_type_traits(t->type);
    if (traits->to_float == nullptr) throw GgmlFailure("ggml cannot convert " + describe(t) + " to float32");
    traits->to_float(bytes.data(), to, static_cast<std::int64_t>(n));
    return out;
}

void tensor_copy(const Tensor& from, const Tensor& to) {
    Guard guard;
    check_same_layout(from, to);
    to.context()->check_host_may_write(to.get());
    if (!ggml_backend_buffer_is_meta(buffer_of(from.get())) &&
        !ggml_backend_buffer_is_meta(buffer_of(to.get()))) {
        ggml_backend_tensor_copy(from.get(), to.get());
        return;
    }
    // ggml would follow the made-up addresses of a meta device: go through host memory.
    std::vector<char> bytes(ggml_nbytes(from.get()));
    read_bytes(from, bytes.data());
    asking_splits(to, [&] { ggml_backend_tensor_set(to.get(), bytes.data(), 0, bytes.size()); });
}

// A view of host memory. It keeps the buffer, and the buffer cannot be closed while it is there.
py::array tensor_numpy(const Tensor& tensor) {
    ggml_tensor* t = tensor.allocated();
    if (!is_host(buffer_of(t))) {
        throw GgmlFailure("tensor " + describe(t) + " does not lie in host memory: use get()");
    }
    const std::shared_ptr<Buffer> buffer = tensor.context()->find_buffer(buffer_of(t));
    if (!buffer) {
        throw GgmlFailure("tensor " + describe(t) +
                          " lies in the memory of a graph allocator, which is used again: "
                          "use get()");
    }
    std::vector<py::ssize_t> strides;
    for (int i = ggml_n_dims(t) - 1; i >= 0; --i) strides.push_back(static_cast<py::ssize_t>(t->nb[i]));
    auto* share = new Buffer::Share(buffer);
    const py::capsule owner(share, [](void* p) { delete static_cast<Buffer::Share*>(p); });
    py::array view(numpy_dtype(t), numpy_shape(t), strides, t->data, owner);
    if (buffer->read_only()) view.attr("setflags")(py::arg("write") = false);
    return view;
}

py::tuple context_tensors(const ContextPtr& context) {
    py::list out;
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        out.append(context->wrap(t));
    }
    return py::tuple(out);
}

// A source of another context has no Tensor to be found by: only this context's own are given.
py::tuple tensor_sources(const Tensor& tensor) {
    std::unordered_set<const ggml_tensor*> own;
    const ContextPtr& context = tensor.context();
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        own.insert(t);
    }
    py::list out;
    for (ggml_tensor* src : tensor.get()->src) {
        if (src != nullptr && own.count(src) != 0) out.append(context->wrap(src));
    }
    return py::tuple(out);
}

Tensor new_tensor(const ContextPtr& context, int type, const std::vector<std::int64_t>& ne) {
    Guard guard;
    if (ne.empty() || ne.size() > GGML_MAX_DIMS) throw py::value_error("a tensor has one to four dimensions");
    const ggml_type t = check_type(type);
    for (const std::int64_t n : ne) {
        if (n < 0) throw py::value_error("a tensor's sizes cannot be negative");
    }
    if (ne[0] % ggml_blck_size(t) != 0) {
        throw py::value_error(std::string("rows of type ") + ggml_type_name(t) + " come in blocks of " +
                              std::to_string(ggml_blck_size(t)) + ", not " + std::to_string(ne[0]));
    }
    ggml_tensor* tensor = ggml_new_tensor(context->arena(), t, static_cast<int>(ne.size()), ne.data());
    check_sizes(tensor);
    return context->wrap(tensor);
}

py::list type_table() {
    py::list out;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const ggml_type_traits* traits = ggml_get_type_traits(static_cast<ggml_type>(i));
        if (traits->type_size == 0 || traits->type_name == nullptr) continue;
        out.append(py::make_tuple(i, traits->type_name, traits->blck_size, traits->type_size));
    }
    return out;
}

}  // namespace

void check_element_type(const ggml_tensor* t, const py::array& values) {
    if (ggml_is_quantized(t->type) || t->type == GGML_TYPE_BF16) {
        if (std::string("uif").find(values.dtype().kind()) != std::string::npos) return;  // their bytes
        throw py::type_error("tensor " + describe(t) + " takes the bytes of an array of numbers");
    }
    if (values.dtype().is(numpy_dtype(t)) || values.dtype().equal(numpy_dtype(t))) return;
    throw py::type_error("tensor " + describe(t) + " takes an array of " +
                         std::string(py::str(numpy_dtype(t))) + ", not " +
                         std::string(py::str(values.dtype())));
}

void check_same_layout(const Tensor& from, const Tensor& to) {
    const ggml_tensor* a = from.allocated();
    const ggml_tensor* b = to.allocated();
    if (a->type != b->type || !ggml_are_same_shape(a, b) || !ggml_are_same_stride(a, b)) {
        throw py::value_error("cannot copy " + describe(a) + " into " + describe(b) +
                              ": type or layout differ");
    }
    require_contiguous(a);
}

py::array empty_array(const ggml_tensor* t) { return py::array(numpy_dtype(t), numpy_shape(t)); }

py::array empty_part(const ggml_tensor* t, std::size_t bytes) {
    const bool raw = ggml_is_quantized(t->type) || t->type == GGML_TYPE_BF16;
    const py::dtype dtype = raw ? py::dtype("uint8") : numpy_dtype(t);
    const auto item = static_cast<std::size_t>(dtype.itemsize());
    if (bytes % item != 0) throw py::value_error("a part of " + describe(t) + " must be whole elements");
    return py::array(dtype, static_cast<py::ssize_t>(bytes / item));
}

void bind_tensor(py::module_& m) {
    m.def("type_table", type_table, "(value, name, block size, bytes a block) of every ggml type.");
    m.def("tensor_copy", tensor_copy, py::arg("source"), py::arg("destination"),
          "Copy a tensor's data into one of the same type and layout, between devices too.");
    m.def("tensor_overhead", ggml_tensor_overhead, "Bytes of context that a tensor takes.");
    m.def(
        "graph_overhead",
        [](std::size_t n) {
            check_graph_size(n);
            return ggml_graph_overhead_custom(n, false);
        },
        py::arg("max_nodes"), "Bytes of context that a graph of so many nodes takes.");
    m.def(
        "can_mul_mat",
        [](int type) { return ggml_get_type_traits_cpu(check_type(type))->vec_dot != nullptr; },
        py::arg("type"), "Whether the CPU multiplies by weights of this type as they are.");

    py::class_<Context, ContextPtr> context(m, "Context", "A metadata arena (ggml_context, no_alloc).");
    bind_closing(context);
    bind_repr(context, "Context", [](const Context& c) {
        return std::to_string(c.used_bytes()) + " of " + count_of(c.used_bytes() + c.free_bytes(), "byte") +
               " used";
    });
    context
        .def(py::init([](std::size_t bytes) {
                 Guard guard;
                 return std::make_shared<Context>(bytes);
             }),
             py::arg("bytes"))
        .def_property_readonly("free_bytes", &Context::free_bytes)
        .def_property_readonly("used_bytes", &Context::used_bytes)
        .def("reset", &Context::reset,
             "Forget all tensors and graphs; what is left of them raises when used.")
        .def("tensors", context_tensors, "The tensors in it, in the order in which they were made.")
        .def("new_tensor", new_tensor, py::arg("type"), py::arg("ne"),
             "A tensor of sizes `ne` (ggml's order).");

    py::class_<Tensor>(m, "Tensor",
                       "A ggml_tensor. `ne` is ggml's order of sizes, `shape` NumPy's (reversed).")
        .def_property(
            "name", [](const Tensor& t) { return text(t.get()->name); },
            [](const Tensor& t, const std::string& name) { ggml_set_name(t.get(), name.c_str()); })
        .def_property_readonly("type", [](const Tensor& t) { return static_cast<int>(t.get()->type); })
        .def_property_readonly("ne",
                               [](const Tensor& t) {
                                   const auto& ne = t.get()->ne;
                                   return py::make_tuple(ne[0], ne[1], ne[2], ne[3]);
                               })
        .def_property_readonly("nb",
                               [](const Tensor& t) {
                                   const auto& nb = t.get()->nb;
                                   return py::make_tuple(nb[0], nb[1], nb[2], nb[3]);
                               })
        .def_property_readonly("shape",
                               [](const Tensor& t) { return py::tuple(py::cast(numpy_shape(t.get()))); })
        .def_property_readonly("nbytes", [](const Tensor& t) { return ggml_nbytes(t.get()); })
        .def_property_readonly("is_contiguous", [](const Tensor& t) { return ggml_is_contiguous(t.get()); })
        .def_property_readonly("is_allocated", [](const Tensor& t) { return t.get()->data != nullptr; })
        .def_property_readonly("is_view", [](const Tensor& t) { return t.get()->view_src != nullptr; })
        .def_property_readonly("op", [](const Tensor& t) { return ggml_op_desc(t.get()); })
        .def_property_readonly("flags", [](const Tensor& t) { return t.get()->flags; })
        .def_property_readonly("src", tensor_sources, "The tensors that it is computed from.")
        .def("numpy", tensor_numpy, "A view of its memory, without a copy; only of host memory.")
        .def("set_input", [](const Tensor& t) { ggml_set_input(t.get()); })
        .def("set_output", [](const Tensor& t) { ggml_set_output(t.get()); })
        .def("get", tensor_get, "A copy as an array of the tensor's own type.")
        .def("set", tensor_set, py::arg("values"), "Copy an array of the tensor's own type in.")
        .def("to_float32", tensor_to_float32,
             "A copy as float32; quantised types through ggml's conversions.")
        .def("__repr__", [](const Tensor& t) { return "<ggml.Tensor " + describe(t.get()) + ">"; });
}

}  // namespace ggmlpy
