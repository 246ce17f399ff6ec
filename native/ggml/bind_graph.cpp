// Graphs and what gives their tensors memory: the graph allocator and the scheduler.

#include "ggml/bind.h"
#include "ggml/meta.h"
#include "ggml/sched.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

// Runs `action`; a split function of a meta device that raised is raised here.
template <typename Action>
void guarded(Action&& action) {
    try {
        const Guard guard;
        action();
    } catch (const GgmlFailure&) {
        raise_split_error();
        throw;
    }
    raise_split_error();
}

// The same without the GIL, which otherwise keeps two threads from allocating at once.
template <typename Action>
void guarded_without_gil(Action&& action) {
    guarded([&] {
        const ggmlpy::GilRelease release;
        action();
    });
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
        .def_property_readonly("n_nodes", &Graph::n_nodes);

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
        .def(
            "alloc_graph",
            [](const std::shared_ptr<Gallocr>& self, const Graph& graph) {
                guarded([&] { allocate(self, graph); });
            },
            py::arg("graph"), "Give the graph's tensors memory; the graph before becomes stale.")
        .def(
            "reserve",
            [](Gallocr& self, const Graph& graph) {
                guarded([&] {
                    self.check_idle();
                    graph.context()->check_used();
                    self.reserve(graph.get());
                });
                self.advance();
            },
            py::arg("graph"), "Make the buffer large enough for a graph; what was allocated becomes stale.")
        .def_property_readonly("buffer_size", &Gallocr::buffer_size);
    bind_closing(gallocr);

    py::class_<Sched, std::shared_ptr<Sched>> sched(m, "Sched", "Computes a graph over several backends.");
    sched
        .def(py::init<std::vector<std::shared_ptr<Backend>>, std::size_t, bool, bool>(), py::arg("backends"),
             py::arg("graph_size") = GGML_DEFAULT_GRAPH_SIZE, py::arg("parallel") = false,
             py::arg("op_offload") = true)
        .def(
            "reserve", [](Sched& s, Graph& g) { guarded([&] { s.reserve(g); }); }, py::arg("graph"))
        .def(
            "alloc_graph",
            [](const std::shared_ptr<Sched>& s, const std::shared_ptr<Graph>& g) {
                guarded([&] { s->alloc_graph(s, g); });
            },
            py::arg("graph"))
        .def(
            "compute",
            [](const std::shared_ptr<Sched>& s, const std::shared_ptr<Graph>& g) {
                if (!s->holds(g)) guarded([&] { s->alloc_graph(s, g); });
                const Busy busy(g);
                guarded_without_gil([&] { s->compute(s, g); });
            },
            py::arg("graph"))
        .def("synchronize", [](Sched& s) { guarded_without_gil([&] { s.synchronize(); }); })
        .def("reset", &Sched::reset)
        .def("set_tensor_backend", &Sched::set_tensor_backend, py::arg("tensor"), py::arg("backend"))
        .def("tensor_backend", &Sched::tensor_backend, py::arg("tensor"))
        .def_property_readonly("n_splits", &Sched::n_splits)
        .def_property_readonly("n_copies", &Sched::n_copies)
        .def("buffer_size", &Sched::buffer_size, py::arg("backend"))
        .def_property_readonly("backends", [](const Sched& s) { return py::tuple(py::cast(s.backends())); });
    bind_closing(sched);
}

}  // namespace ggmlpy
