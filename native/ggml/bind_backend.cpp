// Devices, backends, buffers.

#include "ggml/bind.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

struct Device {
    ggml_backend_dev_t handle;
};

py::list devices() {
    py::list out;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) out.append(Device{ggml_backend_dev_get(i)});
    return out;
}

const char* device_type(ggml_backend_dev_t device) {
    switch (ggml_backend_dev_type(device)) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return "CPU";
        case GGML_BACKEND_DEVICE_TYPE_GPU:
            return "GPU";
        case GGML_BACKEND_DEVICE_TYPE_IGPU:
            return "IGPU";
        case GGML_BACKEND_DEVICE_TYPE_ACCEL:
            return "ACCEL";
        case GGML_BACKEND_DEVICE_TYPE_META:
            return "META";
    }
    return "unknown";
}

std::size_t device_memory(ggml_backend_dev_t device, bool total) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    return total ? total_bytes : free_bytes;
}

std::shared_ptr<Buffer> alloc_ctx_tensors(const ContextPtr& context, const Backend& backend) {
    Guard guard;
    bool anything = false;
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        anything = anything || (t->data == nullptr && t->view_src == nullptr);
    }
    if (!anything) throw GgmlFailure("the context has no tensor that needs memory");
    auto buffer = std::make_shared<Buffer>(ggml_backend_alloc_ctx_tensors(context->get(), backend.get()));
    context->keep(buffer);
    return buffer;
}

void compute(Backend& backend, const Graph& graph) {
    backend.check_process();
    py::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(backend.mutex());
    Guard guard;
    check_computable(graph, backend.get());
    check_indices(graph);
    const ggml_status status = ggml_backend_graph_compute(backend.get(), graph.get());
    if (status != GGML_STATUS_SUCCESS)
        throw GgmlFailure(std::string("compute failed: ") + ggml_status_to_string(status));
}

}  // namespace

void bind_backend(py::module_& m) {
    py::class_<Device>(m, "Device", "A compute device of ggml's registry.")
        .def_property_readonly("name", [](const Device& d) { return ggml_backend_dev_name(d.handle); })
        .def_property_readonly("description",
                               [](const Device& d) { return ggml_backend_dev_description(d.handle); })
        .def_property_readonly("type", [](const Device& d) { return device_type(d.handle); })
        .def_property_readonly("memory_free", [](const Device& d) { return device_memory(d.handle, false); })
        .def_property_readonly("memory_total", [](const Device& d) { return device_memory(d.handle, true); });
    m.def("devices", devices, "The devices that ggml knows, in its order.");

    py::class_<Buffer, std::shared_ptr<Buffer>>(m, "Buffer", "Device memory that tensors lie in.")
        .def_property_readonly("size", [](const Buffer& b) { return ggml_backend_buffer_get_size(b.get()); })
        .def_property_readonly("is_host",
                               [](const Buffer& b) { return ggml_backend_buffer_is_host(b.get()); });
    m.def("alloc_ctx_tensors", alloc_ctx_tensors, py::arg("context"), py::arg("backend"),
          "Memory on the backend's device for every tensor of a context, which keeps it alive.");

    py::class_<Backend, std::shared_ptr<Backend>>(m, "Backend", "A compute stream on a device.")
        .def(py::init([](const std::string& device, int n_threads) {
                 Guard guard;
                 auto backend = std::make_shared<Backend>(find_device(device));
                 backend->set_n_threads(n_threads);
                 return backend;
             }),
             py::arg("device") = "CPU", py::arg("n_threads") = 1)
        .def_property_readonly("name", &Backend::name)
        .def_property_readonly("is_cpu", &Backend::is_cpu)
        .def_property_readonly("n_threads", &Backend::n_threads)
        .def(
            "set_n_threads",
            [](Backend& b, int n_threads) {
                b.check_process();
                py::gil_scoped_release release;
                const std::lock_guard<std::mutex> lock(b.mutex());
                Guard guard;
                b.set_n_threads(n_threads);
            },
            py::arg("n_threads"))
        .def("compute", compute, py::arg("graph"),
             "Run a graph whose tensors have memory; the GIL is released.");
}

}  // namespace ggmlpy
