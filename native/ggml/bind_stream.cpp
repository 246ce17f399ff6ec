// Events and graph plans.

#include "ggml/bind.h"
#include "ggml/stream.h"

namespace py = pybind11;

namespace ggmlpy {

namespace {

void plan_compute(GraphPlan& plan) {
    const Busy busy(plan.graph(), Busy::With::values);
    Interrupt interrupt;
    {
        const Guard guard;
        plan.check_computable();
        const GilRelease release;
        if (const auto locks = interrupt.lock({plan.backend().get()})) plan.compute();
    }
    if (interrupt.stopped()) interrupt.raise();
}

}  // namespace

void bind_stream(py::module_& m) {
    py::class_<Event, std::shared_ptr<Event>> event(m, "Event", "A point in a backend's stream of work.");
    event
        .def(
            "record",
            [](Event& e, Backend& b) {
                const Guard guard;
                const ComputeLocks locks = lock_backends({&b});
                e.record(b);
            },
            py::arg("backend"), "The point after all that the backend was given so far.")
        .def(
            "wait",
            [](Event& e, Backend& b) {
                const Guard guard;
                const ComputeLocks locks = lock_backends({&b});
                e.wait(b);
            },
            py::arg("backend"), "Have a backend's later work wait for the point.")
        .def(
            "synchronize",
            [](const Event& e) {
                const Guard guard;
                const auto handle = e.handle();
                const GilRelease release;
                ggml_backend_event_synchronize(handle.get());
            },
            "Wait here until the point is reached.");
    bind_closing(event);
    bind_repr(event, "Event", [](const Event&) { return std::string("(open)"); });

    py::class_<GraphPlan, std::shared_ptr<GraphPlan>> plan(m, "GraphPlan",
                                                           "A graph prepared for computing again.");
    plan.def(
        "compute", plan_compute,
        "Run the graph; the GIL is released. A signal is heard when it is done, and no `cancel`: ggml has "
        "none for plans.");
    bind_closing(plan);
    bind_repr(plan, "GraphPlan", [](const GraphPlan& p) {
        return count_of(static_cast<std::size_t>(p.graph()->n_nodes()), "node");
    });
}

}  // namespace ggmlpy
