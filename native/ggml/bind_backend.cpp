// Backends: computing, asynchronous copies, thread pools.

#include "ggml/backend.h"
#include "ggml/bind.h"
#include "ggml/internal.h"
#include "ggml/meta.h"
#include "ggml/stream.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

// An object of Python held from C++; let go of under the GIL.
std::shared_ptr<const void> hold(py::object object) {
    return std::shared_ptr<const void>(object.release().ptr(), [](const void* p) {
        const ggmlpy::GilAcquire acquire;
        Py_DECREF(static_cast<PyObject*>(const_cast<void*>(p)));
    });
}

// A device, its name or its type. Raises KeyError when there is none. (Without calling into Python: a thread
// that is ended there at the interpreter's exit would be unwound through C++.)
Device to_device(const py::object& which) {
    if (py::isinstance<Device>(which)) return which.cast<Device>();
    const bool by_type = py::isinstance<py::int_>(which);
    ggml_backend_dev_t found =
        by_type ? ggml_backend_dev_by_type(static_cast<enum ggml_backend_dev_type>(which.cast<int>()))
                : ggml_backend_dev_by_name(which.cast<std::string>().c_str());
    if (found != nullptr) return Device(found);
    std::string known;
    for (const Device& device : devices())
        known += (known.empty() ? "" : ", ") + std::string(ggml_backend_dev_name(device.get()));
    throw py::key_error("there is no device " + std::string(py::repr(which)) +
                        "; there are: " + (known.empty() ? "none" : known));
}

void check_status(ggml_status status) {
    if (status != GGML_STATUS_SUCCESS)
        throw GgmlFailure(std::string("compute failed: ") + ggml_status_to_string(status));
}

void compute(Backend& backend, const std::shared_ptr<Graph>& held, const py::object& cancel) {
    backend.check_process();
    const Graph& graph = *held;
    const Busy busy(held, Busy::With::values);
    Interrupt interrupt(cancel);
    asking_splits([&] {
        const Guard guard;
        check_computable(graph, backend.get());
        const GilRelease release;
        const auto locks = interrupt.lock({&backend});
        if (!locks) return;
        // What was computed meanwhile may have changed these.
        check_indices(graph);
        const InterruptScope scope({&backend}, interrupt);
        const ggml_status status = ggml_backend_graph_compute(backend.get(), graph.get());
        if (!interrupt.stopped()) check_status(status);
    });
    if (interrupt.stopped()) interrupt.raise();
}

void compute_async(Backend& backend, const std::shared_ptr<Graph>& graph) {
    backend.check_process();
    const Busy computing(graph, Busy::With::values);
    auto begun = std::make_shared<Busy>(graph, Busy::With::memory);
    Interrupt interrupt;
    asking_splits([&] {
        const Guard guard;
        check_computable(*graph, backend.get());
        const GilRelease release;
        const auto locks = interrupt.lock({&backend});
        if (!locks) return;
        check_indices(*graph);
        check_status(ggml_backend_graph_compute_async(backend.get(), graph->get()));
        // A CPU is done when the call returns.
        if (!backend.is_cpu()) backend.keep_until_synchronized(std::move(begun));
    });
    if (interrupt.stopped()) interrupt.raise();
}

void synchronize(Backend& backend) {
    backend.check_process();
    std::vector<std::shared_ptr<const void>> done;
    Interrupt interrupt;
    {
        const Guard guard;
        const GilRelease release;
        const auto locks = interrupt.lock({&backend});
        if (locks) done = backend.synchronize();
    }
    if (interrupt.stopped()) interrupt.raise();
}

// On a device that really is asynchronous the tensor must stay where it is before synchronize(), and the
// array must not go away or change.
void keep(Backend& backend, const Tensor& tensor) {
    if (backend.is_cpu()) return;
    backend.keep_until_synchronized(std::make_shared<Busy>(tensor.context(), Busy::With::memory));
}

// The part [offset, offset + size) of a tensor in bytes; all that is left without a size.
std::size_t part_size(const ggml_tensor* t, std::size_t offset, const std::optional<std::size_t>& size) {
    const std::size_t bytes = ggml_nbytes(t);
    if (!ggml_is_contiguous(t))
        throw GgmlFailure("tensor " + describe(t) + " is not contiguous: use ggml.cont");
    if (offset > bytes)
        throw py::value_error("offset " + std::to_string(offset) + " lies past the end of " + describe(t));
    const std::size_t part = size.value_or(bytes - offset);
    if (part > bytes - offset) {
        throw py::value_error("bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
                              std::to_string(part) + " reach past the end of " + describe(t));
    }
    return part;
}

void check_reachable(const Backend& backend, const ggml_tensor* t, std::size_t offset) {
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (ggml_backend_buffer_is_meta(buffer)) {
        if (offset != 0) throw Unsupported("parts of a tensor on a meta device cannot be copied");
        if (!backend.is_meta())
            throw Unsupported("tensor " + describe(t) + " lies on a meta device, this backend does not");
    } else if (!ggml_backend_supports_buft(backend.get(), ggml_backend_buffer_get_type(buffer))) {
        throw GgmlFailure("backend " + backend.name() + " cannot reach tensor " + describe(t));
    }
}

void set_async(Backend& backend, const Tensor& tensor, const py::array& values, std::size_t offset,
               const std::optional<std::size_t>& size) {
    const Guard guard;
    // NumPy may let go of the GIL: what is checked is checked after it.
    const py::array array = py::array::ensure(values, py::array::c_style);
    if (!array) throw py::error_already_set();
    const ComputeLocks locks = lock_backends({&backend});
    ggml_tensor* t = tensor.allocated();
    tensor.context()->check_host_may_write(t);
    check_element_type(t, array);
    const std::size_t part = part_size(t, offset, size ? size : std::optional<std::size_t>(array.nbytes()));
    if (static_cast<std::size_t>(array.nbytes()) < part) {
        throw py::value_error("the array has " + std::to_string(array.nbytes()) + " bytes, fewer than " +
                              std::to_string(part));
    }
    check_reachable(backend, t, offset);
    asking_splits(tensor,
                  [&] { ggml_backend_tensor_set_async(backend.get(), t, array.data(), offset, part); });
    backend.keep_until_synchronized(hold(array));
    keep(backend, tensor);
}

py::array get_async(Backend& backend, const Tensor& tensor, std::size_t offset,
                    const std::optional<std::size_t>& size) {
    const Guard guard;
    const ComputeLocks locks = lock_backends({&backend});
    const ggml_tensor* t = tensor.allocated();
    const std::size_t part = part_size(t, offset, size);
    check_reachable(backend, t, offset);
    py::array out = offset == 0 && part == ggml_nbytes(t) ? empty_array(t) : empty_part(t, part);
    asking_splits(tensor,
                  [&] { ggml_backend_tensor_get_async(backend.get(), t, out.mutable_data(), offset, part); });
    backend.keep_until_synchronized(hold(out));
    keep(backend, tensor);
    return out;
}

void copy_async(Backend& from, Backend& to, const Tensor& source, const Tensor& destination) {
    const Guard guard;
    const ComputeLocks locks = lock_backends({&from, &to});
    check_same_layout(source, destination);
    destination.context()->check_host_may_write(destination.get());
    check_reachable(from, source.get(), 0);
    check_reachable(to, destination.get(), 0);
    if (from.is_meta() || to.is_meta())
        throw Unsupported("asynchronous copies do not reach into a meta device: use tensor_copy");
    ggml_backend_tensor_copy_async(from.get(), to.get(), source.get(), destination.get());
    for (Backend* backend : {&from, &to}) {
        keep(*backend, source);
        keep(*backend, destination);
    }
}

}  // namespace

void bind_backend(py::module_& m) {
    py::class_<Threadpool, std::shared_ptr<Threadpool>>(m, "Threadpool",
                                                        "Worker threads that backends may share.")
        .def(py::init([](int n_threads) {
                 Guard guard;
                 return std::make_shared<Threadpool>(n_threads);
             }),
             py::arg("n_threads"))
        .def_property_readonly("n_threads", &Threadpool::n_threads)
        .def("__repr__", [](const Threadpool& p) {
            return "<ggml.Threadpool " + count_of(static_cast<std::size_t>(p.n_threads()), "thread") + ">";
        });

    py::class_<Backend, std::shared_ptr<Backend>> backend(m, "Backend", "A compute stream on a device.");
    backend
        .def(py::init([](const py::object& device, int n_threads, const std::optional<std::string>& params) {
                 const Device on = to_device(device);
                 Guard guard;
                 auto made = std::make_shared<Backend>(on, params ? params->c_str() : nullptr);
                 made->set_n_threads(n_threads);
                 return made;
             }),
             py::arg("device") = "CPU", py::arg("n_threads") = 1, py::arg("params") = py::none())
        .def_property_readonly("name", &Backend::name, "ggml_backend_name.")
        .def_property_readonly("device", &Backend::device, "The device that it computes on.")
        .def_property_readonly("is_cpu", &Backend::is_cpu, "Whether that is a CPU.")
        .def_property_readonly("n_threads", &Backend::n_threads, "Threads that a CPU computes with.")
        .def_property_readonly("buffer_type", &Backend::buffer_type, "The device's own memory.")
        .def(
            "set_n_threads",
            [](Backend& b, int n_threads) {
                const Guard guard;
                const ComputeLocks locks = lock_backends({&b});
                b.set_n_threads(n_threads);
            },
            py::arg("n_threads"), "Threads of its own, that many; nothing to do on devices but CPUs.")
        .def(
            "set_threadpool",
            [](Backend& b, const std::optional<std::shared_ptr<Threadpool>>& pool) {
                const Guard guard;
                const ComputeLocks locks = lock_backends({&b});
                b.set_threadpool(pool.value_or(nullptr));
            },
            py::arg("pool"), "Threads of a shared pool; None for threads of its own again.")
        .def("compute", compute, py::arg("graph"), py::arg("cancel") = py::none(),
             "Run a graph whose tensors have memory; the GIL is released. `cancel`: anything with is_set().")
        .def("compute_async", compute_async, py::arg("graph"),
             "Begin to run a graph; synchronize() waits for it.")
        .def("synchronize", synchronize, "Wait for all that was begun.")
        .def(
            "plan",
            [](const std::shared_ptr<Backend>& b, const std::shared_ptr<Graph>& g) {
                return std::make_shared<GraphPlan>(b, g);
            },
            py::arg("graph"))
        .def("set_async", set_async, py::arg("tensor"), py::arg("values"), py::arg("offset") = 0,
             py::arg("size") = py::none())
        .def("get_async", get_async, py::arg("tensor"), py::arg("offset") = 0, py::arg("size") = py::none(),
             "A copy of a tensor or part of it; its values are there after synchronize().")
        .def(
            "supports_op",
            [](const Backend& b, const Tensor& t) {
                Guard guard;
                return ggml_backend_supports_op(b.get(), t.with_sources());
            },
            py::arg("tensor"))
        .def(
            "alloc_buffer",
            [](const Backend& b, std::size_t size) {
                Guard guard;
                return std::make_shared<Buffer>(ggml_backend_alloc_buffer(b.get(), size), b.buffer_type());
            },
            py::arg("size"));
    bind_closing(backend);
    bind_repr(backend, "Backend", [](const Backend& b) { return b.name(); });
    m.def("copy_async", copy_async, py::arg("src_backend"), py::arg("dst_backend"), py::arg("src"),
          py::arg("dst"));
}

}  // namespace ggmlpy
