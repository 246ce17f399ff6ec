// Graphs and what gives their tensors memory: the graph allocator and the scheduler.

#include "ggml/bind.h"
#include "ggml/meta.h"
#include "ggml/sched.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

void alloc_graph(const std::shared_ptr<Gallocr>& gallocr, const Graph& graph) {
    const Guard guard;
    asking_splits([&] { allocate(gallocr, graph); }, [&] { graph.context()->forget_allocation(); });
}

void reserve(Gallocr& gallocr, const Graph& graph) {
    const Guard guard;
    ggml_cgraph* g = graph.get();
    gallocr.check_idle();
    graph.context()->check_used();
    const Busy busy(graph.context(), Busy::With::layout);
    gallocr.advance();
    asking_splits([&] { gallocr.reserve(g); });
}

py::tuple graph_nodes(const Graph& graph) {
    ggml_cgraph* g = graph.get();
    graph.context()->check_alive();
    py::list out;
    for (int i = 0; i < ggml_graph_n_nodes(g); ++i) {
        ggml_tensor* node = ggml_graph_node(g, i);
        const auto home = std::const_pointer_cast<Context>(graph.context()->owner(node));
        if (home) out.append(home->wrap(node));
    }
    return py::tuple(out);
}

// Under the GIL and the locks of the scheduler's backends.
template <typename Action>
auto locked(Sched& sched, Action&& action) {
    const Guard guard;
    const ComputeLocks locks = lock_backends(members(sched));
    return action();
}

void sched_compute(const std::shared_ptr<Sched>& sched, const std::shared_ptr<Graph>& graph,
                   const py::object& cancel) {
    if (!sched->holds(graph)) locked(*sched, [&] { sched->alloc_graph(sched, graph); });
    const Busy busy(graph, Busy::With::values);
    Interrupt interrupt(cancel);
    {
        const Guard guard;
        sched->check_computable(graph);
        const std::vector<Backend*> backends = members(*sched);
        const GilRelease release;
        if (const auto locks = interrupt.lock(backends)) {
            const InterruptScope scope(backends, interrupt);
            const ggml_status status = sched->compute(*graph);
            if (status != GGML_STATUS_SUCCESS && !interrupt.stopped()) {
                throw GgmlFailure(std::string("compute failed: ") + ggml_status_to_string(status));
            }
        }
    }
    if (interrupt.stopped()) interrupt.raise();
}

void sched_synchronize(Sched& sched) {
    for (const auto& backend : sched.backends()) backend->check_process();
    Interrupt interrupt;
    {
        const Guard guard;
        const std::vector<Backend*> backends = members(sched);
        const GilRelease release;
        if (const auto locks = interrupt.lock(backends)) sched.synchronize();
    }
    if (interrupt.stopped()) interrupt.raise();
}

}  // namespace

void bind_graph(py::module_& m) {
    py::class_<Graph, std::shared_ptr<Graph>>(m, "Graph", "A computation graph in its context's memory.")
        .def(py::init([](const ContextPtr& context, std::size_t max_nodes) {
                 Guard guard;
                 return std::make_shared<Graph>(context, max_nodes);
             }),
             py::arg("context"), py::arg("max_nodes") = GGML_DEFAULT_GRAPH_SIZE)
        .def(
            "expand",
            [](Graph& g, const Tensor& t) {
                Guard guard;
                g.expand(t);
            },
            py::arg("result"), "Add what `result` depends on, in order (ggml_build_forward_expand).")
        .def_property_readonly("n_nodes", &Graph::n_nodes, "ggml_graph_n_nodes.")
        .def_property_readonly("nodes", graph_nodes, "The tensors that it computes, in that order.")
        .def("__repr__", [](const Graph& g) {
            return "<ggml.Graph " + count_of(static_cast<std::size_t>(g.n_nodes()), "node") + ">";
        });

    py::class_<Gallocr, std::shared_ptr<Gallocr>> gallocr(m, "Gallocr", "A graph allocator with one buffer.");
    gallocr
        .def(py::init([](const BufferType& type) {
                 Guard guard;
                 return std::make_shared<Gallocr>(type.get(), type.device.uses());
             }),
             py::arg("where"))
        .def(py::init([](const Backend& backend) {
                 Guard guard;
                 return std::make_shared<Gallocr>(backend.buffer_type().get(), backend.device().uses());
             }),
             py::arg("where"))
        .def("alloc_graph", alloc_graph, py::arg("graph"),
             "Give the graph's tensors memory; the graph before becomes stale.")
        .def("reserve", reserve, py::arg("graph"),
             "Make the buffer large enough for a graph; what was allocated becomes stale.")
        .def_property_readonly("buffer_size", &Gallocr::buffer_size, "Bytes.");
    bind_closing(gallocr);
    bind_repr(gallocr, "Gallocr", [](const Gallocr& g) { return count_of(g.buffer_size(), "byte"); });

    py::class_<Sched, std::shared_ptr<Sched>> sched(m, "Sched", "Computes a graph over several backends.");
    sched
        .def(py::init<std::vector<std::shared_ptr<Backend>>, std::size_t, bool, bool>(), py::arg("backends"),
             py::arg("graph_size") = GGML_DEFAULT_GRAPH_SIZE, py::arg("parallel") = false,
             py::arg("op_offload") = true)
        .def(
            "reserve", [](Sched& s, Graph& g) { locked(s, [&] { s.reserve(g); }); }, py::arg("graph"),
            "Size the buffers for a worst-case graph, which is used up by it.")
        .def(
            "alloc_graph",
            [](const std::shared_ptr<Sched>& s, const std::shared_ptr<Graph>& g) {
                locked(*s, [&] { s->alloc_graph(s, g); });
            },
            py::arg("graph"),
            "Split the graph and give its tensors memory; what had some before loses its own.")
        .def("compute", sched_compute, py::arg("graph"), py::arg("cancel") = py::none(),
             "Run a graph, which is given memory if it has none. `cancel`: anything with is_set().")
        .def("synchronize", sched_synchronize, "Wait for the work of all backends.")
        .def(
            "reset", [](Sched& s) { locked(s, [&] { s.reset(); }); },
            "Take the memory away from the graph that has it.")
        .def(
            "set_tensor_backend",
            [](Sched& s, const Tensor& t, const Backend& b) {
                locked(s, [&] { s.set_tensor_backend(t, b); });
            },
            py::arg("tensor"), py::arg("backend"), "Where a tensor of the next graph is to be computed.")
        .def("tensor_backend", &Sched::tensor_backend, py::arg("tensor"),
             "The backend that computes a tensor; None before its graph is allocated.")
        .def_property_readonly("n_splits", &Sched::n_splits, "Parts that the graph was split into.")
        .def_property_readonly("n_copies", &Sched::n_copies, "Copies of the inputs of a part (parallel).")
        .def("buffer_size", &Sched::buffer_size, py::arg("backend"), "Bytes that it has on a backend.")
        .def_property_readonly(
            "backends", [](const Sched& s) { return py::tuple(py::cast(s.backends())); },
            "In order of preference.");
    bind_closing(sched);
    bind_repr(sched, "Sched", [](const Sched& s) { return count_of(s.backends().size(), "backend"); });
}

}  // namespace ggmlpy
