// Events and graph plans.

#include "ggml/bind.h"
#include "ggml/stream.h"

namespace py = pybind11;

namespace ggmlpy {

void bind_stream(py::module_& m) {
    py::class_<Event, std::shared_ptr<Event>> event(m, "Event", "A point in a backend's stream of work.");
    event
        .def(
            "record",
            [](Event& e, Backend& b) {
                const ComputeLock lock = lock_backend(b);
                e.record(b);
            },
            py::arg("backend"), "The point after all that the backend was given so far.")
        .def(
            "wait",
            [](Event& e, Backend& b) {
                const ComputeLock lock = lock_backend(b);
                e.wait(b);
            },
            py::arg("backend"), "Have a backend's later work wait for the point.")
        .def("synchronize", &Event::synchronize, py::call_guard<Guard, ggmlpy::GilRelease>(),
             "Wait here until the point is reached.");
    bind_closing(event);

    py::class_<GraphPlan, std::shared_ptr<GraphPlan>> plan(m, "GraphPlan",
                                                           "A graph prepared for computing again.");
    plan.def("compute", [](GraphPlan& p) {
        const Busy busy(p.graph());
        const Guard guard;
        const ggmlpy::GilRelease release;
        p.compute();
    });
    bind_closing(plan);
}

}  // namespace ggmlpy
