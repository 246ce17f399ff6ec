// Buffers, multi-buffers, and memory for whole contexts.

#include <algorithm>

#include "ggml/bind.h"
#include "ggml/buffer.h"
#include "ggml/internal.h"
#include "ggml/meta.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

std::shared_ptr<Buffer> alloc_ctx_tensors(const ContextPtr& context, const BufferType& type) {
    context->check_idle();
    context->check_alive();
    std::vector<ggml_tensor*> fresh;
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        if (t->data == nullptr) fresh.push_back(t);
    }
    const auto is_view = [](const ggml_tensor* t) { return t->view_src != nullptr; };
    if (std::all_of(fresh.begin(), fresh.end(), is_view))
        throw GgmlFailure("the context has no tensor that needs memory");
    // ggml would ask the split function about results too, whose parts follow from those of their operands.
    const auto is_result = [](const ggml_tensor* t) { return t->op != GGML_OP_NONE; };
    if (ggml_backend_buft_is_meta(type.get()) && std::any_of(fresh.begin(), fresh.end(), is_result)) {
        throw Unsupported(
            "this context has operators: on a meta device alloc_ctx_tensors gives memory to weights only; "
            "put "
            "them into a context of their own, and give the graph memory with a Gallocr");
    }
    Guard guard;
    std::shared_ptr<Buffer> buffer;
    const auto allocate = [&] {
        try {
            const Busy busy(context, Busy::With::layout);
            buffer = std::make_shared<Buffer>(
                ggml_backend_alloc_ctx_tensors_from_buft(context->get(), type.get()), type);
        } catch (const GgmlFailure&) {
            for (ggml_tensor* t : fresh) {
                t->data = nullptr;
                t->buffer = nullptr;
            }
            throw;
        }
        buffer->add_user(buffer, context, fresh);
    };
    asking_splits(allocate, [&] { buffer->close(); });
    return buffer;
}

void set_usage(const Buffer& buffer, int usage) {
    if (usage < GGML_BACKEND_BUFFER_USAGE_ANY || usage > GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
        throw py::value_error("no such buffer usage: " + std::to_string(usage));
    }
    Guard guard;
    ggml_backend_buffer_set_usage(buffer.get(), static_cast<ggml_backend_buffer_usage>(usage));
}

py::object base(const Buffer& buffer) {
    if (!is_host(buffer.get()) || ggml_backend_buffer_is_multi_buffer(buffer.get())) return py::none();
    return py::int_(reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer.get())));
}

}  // namespace

void bind_buffer(py::module_& m) {
    py::class_<Buffer, std::shared_ptr<Buffer>> buffer(m, "Buffer", "Device memory that tensors lie in.");
    buffer
        .def_property_readonly(
            "name", [](const Buffer& b) { return text(ggml_backend_buffer_name(b.get())); },
            "ggml_backend_buffer_name.")
        .def_property_readonly(
            "size", [](const Buffer& b) { return ggml_backend_buffer_get_size(b.get()); }, "Bytes.")
        .def_property_readonly(
            "alignment", [](const Buffer& b) { return ggml_backend_buffer_get_alignment(b.get()); },
            "Bytes that offsets in it are multiples of.")
        .def_property_readonly(
            "is_host", [](const Buffer& b) { return is_host(b.get()); },
            "Whether it is memory of this process.")
        .def_property_readonly(
            "is_multi", [](const Buffer& b) { return ggml_backend_buffer_is_multi_buffer(b.get()); },
            "Whether it consists of several.")
        .def_property_readonly("base", base, "Its address; None where it is not this process's memory.")
        .def_property_readonly(
            "buffer_type",
            [](const Buffer& b) {
                b.get();
                return b.type();
            },
            "The kind of memory.")
        .def_property(
            "usage",
            [](const Buffer& b) { return enum_value("BufferUsage", ggml_backend_buffer_get_usage(b.get())); },
            set_usage, "What it is for; setting it on a MultiBuffer sets it on its parts.")
        .def(
            "clear",
            [](const Buffer& b, int value) {
                if (value < 0 || value > 255) throw py::value_error("clear takes a byte, 0 to 255");
                Guard guard;
                b.clear(static_cast<std::uint8_t>(value));
            },
            py::arg("value") = 0, "Set every byte.")
        .def(
            "reset",
            [](const Buffer& b) {
                Guard guard;
                b.check_idle();
                ggml_backend_buffer_reset(b.get());
            },
            "Undo what the device did to the tensors in it (most devices: nothing).")
        .def(
            "place",
            [](const std::shared_ptr<Buffer>& b, const Tensor& t, std::size_t offset) {
                b->place(b, t, offset);
            },
            py::arg("tensor"), py::arg("offset") = 0,
            "Give a tensor the memory at an offset (ggml_backend_tensor_alloc).");
    bind_closing(buffer);
    const auto what = [](const Buffer& b) {
        return std::string(ggml_backend_buffer_name(b.get())) + ", " +
               count_of(ggml_backend_buffer_get_size(b.get()), "byte");
    };
    bind_repr(buffer, "Buffer", what);

    py::class_<MultiBuffer, Buffer, std::shared_ptr<MultiBuffer>> multi(
        m, "MultiBuffer",
        "Several buffers as one, which owns them. It must not be written when one of them must not.");
    multi.def(py::init(&MultiBuffer::make), py::arg("buffers"))
        .def_property_readonly(
            "buffers", [](const MultiBuffer& b) { return py::tuple(py::cast(b.children())); },
            "What it was made of.");
    bind_repr(multi, "MultiBuffer", what);

    const char* doc =
        "Memory for every tensor of a context that has none, on a backend's device or of a buffer type; the "
        "context keeps it.";
    m.def("alloc_ctx_tensors", alloc_ctx_tensors, py::arg("context"), py::arg("where"), doc);
    m.def(
        "alloc_ctx_tensors",
        [](const ContextPtr& context, const Backend& backend) {
            return alloc_ctx_tensors(context, backend.buffer_type());
        },
        py::arg("context"), py::arg("where"), doc);
}

}  // namespace ggmlpy
