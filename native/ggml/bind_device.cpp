// Devices, registries, loading and unloading; the meta device.

#include "ggml/bind.h"
#include "ggml/device.h"
#include "ggml/meta.h"
#include "ggml/stream.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

std::size_t device_memory(const Device& device, bool total) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ggml_backend_dev_memory(device.get(), &free_bytes, &total_bytes);
    return total ? total_bytes : free_bytes;
}

// ggml.DeviceProps
py::object device_props(const Device& device) {
    Guard guard;
    ggml_backend_dev_props props = {};
    ggml_backend_dev_get_props(device.get(), &props);
    const auto string = [](const char* s) -> py::object {
        return s == nullptr ? py::none() : py::object(text(s));
    };
    const auto devices = py::module_::import("ggml.devices");
    const auto& caps = props.caps;
    return devices.attr("DeviceProps")(
        string(props.name), string(props.description), props.memory_free, props.memory_total,
        enum_value("DeviceType", props.type), string(props.device_id),
        devices.attr("DeviceCaps")(caps.async, caps.host_buffer, caps.buffer_from_host_ptr, caps.events,
                                   caps.mmap_support));
}

std::optional<BufferType> buffer_type(const Device& device, ggml_backend_buffer_type_t handle) {
    if (handle == nullptr) return std::nullopt;
    return BufferType{handle, device};
}

std::shared_ptr<Backend> init(const Device& device, const std::optional<std::string>& params) {
    Guard guard;
    auto backend = std::make_shared<Backend>(device, params ? params->c_str() : nullptr);
    backend->set_n_threads(1);
    return backend;
}

std::optional<Device> device_by_name(const std::string& name) {
    ggml_backend_dev_t handle = ggml_backend_dev_by_name(name.c_str());
    return handle == nullptr ? std::nullopt : std::optional<Device>(Device(handle));
}

std::optional<Device> device_by_type(int type) {
    ggml_backend_dev_t handle = ggml_backend_dev_by_type(static_cast<enum ggml_backend_dev_type>(type));
    return handle == nullptr ? std::nullopt : std::optional<Device>(Device(handle));
}

std::optional<Registry> registry_by_name(const std::string& name) {
    ggml_backend_reg_t handle = ggml_backend_reg_by_name(name.c_str());
    return handle == nullptr ? std::nullopt : std::optional<Registry>(Registry(handle));
}

Registry load_backend(const std::string& path) {
    Guard guard;
    ggml_backend_reg_t handle = ggml_backend_load(path.c_str());
    if (handle == nullptr) {
        const std::string log = Guard::log();
        throw GgmlFailure("cannot load a ggml backend from " + path + (log.empty() ? "" : ": " + log));
    }
    Registry registry(handle);
    registry.state()->loaded_from_library = true;
    return registry;
}

void register_again(const Registry& registry) {
    Guard guard;
    ggml_backend_register(registry.get());
}

void register_device(const Device& device) {
    Guard guard;
    ggml_backend_device_register(device.get());
}

}  // namespace

void bind_device(py::module_& m) {
    py::class_<BufferType>(m, "BufferType", "A kind of memory that a device offers.")
        .def_property_readonly(
            "name", [](const BufferType& t) { return text(ggml_backend_buft_name(t.get())); },
            "ggml_backend_buft_name.")
        .def_property_readonly(
            "alignment", [](const BufferType& t) { return ggml_backend_buft_get_alignment(t.get()); },
            "Bytes that tensors in it are aligned to.")
        .def_property_readonly(
            "max_size", [](const BufferType& t) { return ggml_backend_buft_get_max_size(t.get()); },
            "Bytes of the largest buffer.")
        .def_property_readonly(
            "is_host", [](const BufferType& t) { return is_host(t.get()); },
            "Whether it is memory of this process.")
        .def_property_readonly(
            "device", [](const BufferType& t) { return t.device; }, "The device that offers it.")
        .def(
            "alloc_size",
            [](const BufferType& t, const Tensor& tensor) {
                Guard guard;
                return ggml_backend_buft_get_alloc_size(t.get(), tensor.with_sources());
            },
            py::arg("tensor"), "Bytes that a tensor takes in such a buffer, padding included.")
        .def(
            "alloc_buffer",
            [](const BufferType& t, std::size_t size) {
                Guard guard;
                return std::make_shared<Buffer>(ggml_backend_buft_alloc_buffer(t.get(), size), t);
            },
            py::arg("size"), "A buffer of so many bytes (ggml_backend_buft_alloc_buffer).")
        .def("__repr__",
             [](const BufferType& t) {
                 const auto& registry = t.device.registry();
                 const bool gone = registry && registry->gone;
                 return "<ggml.BufferType " +
                        std::string(gone ? "(unloaded)" : ggml_backend_buft_name(t.get())) + ">";
             })
        .def(
            "__eq__", [](const BufferType& a, const BufferType& b) { return a.handle == b.handle; },
            py::is_operator())
        .def("__hash__", [](const BufferType& t) {
            return py::hash(py::int_(reinterpret_cast<std::uintptr_t>(t.handle)));
        });

    py::class_<Device>(m, "Device", "A compute device.")
        .def_property_readonly(
            "name", [](const Device& d) { return text(ggml_backend_dev_name(d.get())); },
            "ggml_backend_dev_name.")
        .def_property_readonly(
            "description", [](const Device& d) { return text(ggml_backend_dev_description(d.get())); },
            "The name of the hardware.")
        .def_property_readonly(
            "type", [](const Device& d) { return enum_value("DeviceType", ggml_backend_dev_type(d.get())); },
            "A DeviceType.")
        .def_property_readonly(
            "memory_free", [](const Device& d) { return device_memory(d, false); }, "Bytes.")
        .def_property_readonly(
            "memory_total", [](const Device& d) { return device_memory(d, true); }, "Bytes.")
        .def_property_readonly("props", device_props,
                               "Everything that ggml says of it (ggml_backend_dev_get_props).")
        .def_property_readonly(
            "registry",
            [](const Device& d) -> std::optional<Registry> {
                d.get();
                return d.registry() ? std::optional<Registry>(Registry(d.registry())) : std::nullopt;
            },
            "The library that it belongs to; None for a meta device.")
        .def_property_readonly(
            "parts", [](const Device& d) { return d.parts(); }, "A meta device's devices.")
        .def_property_readonly(
            "buffer_type",
            [](const Device& d) { return buffer_type(d, ggml_backend_dev_buffer_type(d.get())); },
            "Its own memory.")
        .def_property_readonly(
            "host_buffer_type",
            [](const Device& d) { return buffer_type(d, ggml_backend_dev_host_buffer_type(d.get())); },
            "Host memory that it copies to and from faster; None where it has none.")
        .def(
            "supports_op",
            [](const Device& d, const Tensor& t) {
                Guard guard;
                return ggml_backend_dev_supports_op(d.get(), t.with_sources());
            },
            py::arg("tensor"), "Whether it can compute the tensor.")
        .def(
            "supports_buffer_type",
            [](const Device& d, const BufferType& t) {
                Guard guard;
                return ggml_backend_dev_supports_buft(d.get(), t.get()) &&
                       is_host(t.get()) == ggml_backend_buft_is_host(t.get());
            },
            py::arg("buffer_type"), "Whether it can compute with tensors in such memory.")
        .def(
            "offload_op",
            [](const Device& d, const Tensor& t) {
                Guard guard;
                return ggml_backend_dev_offload_op(d.get(), t.with_sources());
            },
            py::arg("tensor"), "Whether computing the tensor here pays although its weights lie elsewhere.")
        .def("init", init, py::arg("params") = py::none(),
             "A new backend on the device (ggml_backend_dev_init).")
        .def(
            "event", [](const Device& d) { return std::make_shared<Event>(d); },
            "A new event (ggml_backend_event_new).")
        .def(
            "__eq__", [](const Device& a, const Device& b) { return a == b; }, py::is_operator())
        .def("__hash__", [](const Device& d) { return py::hash(py::int_(d.id())); })
        .def("__repr__", [](const Device& d) {
            const bool gone = d.registry() && d.registry()->gone;
            return "<ggml.Device " + std::string(gone ? "(unloaded)" : ggml_backend_dev_name(d.get())) + ">";
        });

    py::class_<Registry>(m, "Registry", "A backend library: CPU, CUDA, Vulkan, ...")
        .def_property_readonly(
            "name", [](const Registry& r) { return text(ggml_backend_reg_name(r.get())); },
            "ggml_backend_reg_name.")
        .def_property_readonly(
            "devices", [](const Registry& r) { return py::tuple(py::cast(r.devices())); }, "Its devices.")
        .def_property_readonly("is_registered", &Registry::registered,
                               "Whether ggml.registries() has it now.")
        .def("__repr__",
             [](const Registry& r) {
                 return "<ggml.Registry " + (r.state()->gone ? "(unloaded)" : r.state()->name) + ">";
             })
        .def("unload", &Registry::unload,
             "Unregister it, and close its library; refused while anything of it lives.")
        .def(
            "__eq__", [](const Registry& a, const Registry& b) { return a.state() == b.state(); },
            py::is_operator())
        .def("__hash__", [](const Registry& r) {
            return py::hash(py::int_(reinterpret_cast<std::uintptr_t>(r.state().get())));
        });

    m.def("devices", [] { return py::tuple(py::cast(devices())); });
    m.def("device_by_name", device_by_name, py::arg("name"));
    m.def("device_by_type", device_by_type, py::arg("type"));
    m.def("registries", [] { return py::tuple(py::cast(registries())); });
    m.def("registry_by_name", registry_by_name, py::arg("name"));
    m.def("load_backend", load_backend, py::arg("path"));
    m.def("register", register_again, py::arg("registry"));
    m.def("register_device", register_device, py::arg("device"));
    m.def("meta_device", meta_device, py::arg("devices"), py::arg("split_fn"));
}

}  // namespace ggmlpy
