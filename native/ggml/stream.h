// What a backend can do besides computing at once: events, plans, asynchronous copies.
#pragma once

#include <memory>

#include "ggml/backend.h"
#include "ggml/context.h"

namespace ggmlpy {

// A point in a backend's stream of work. Throws Unsupported on a device without events.
class Event {
  public:
    explicit Event(Device device);
    void record(Backend& backend);
    void synchronize();
    void wait(Backend& backend);
    void close() { handle_.reset(); }
    bool closed() const { return handle_ == nullptr; }

  private:
    ggml_backend_event_t get() const;
    struct Free {
        void operator()(ggml_backend_event_t e) const { ggml_backend_event_free(e); }
    };
    Device device_;
    std::vector<Use> uses_;
    std::unique_ptr<ggml_backend_event, Free> handle_;
};

// A graph prepared for repeated computation; ggml has plans on the CPU only. Keeps the graph and the backend.
// Threads and thread pool are those of the backend at creation: a change there makes the plan stale.
class GraphPlan {
  public:
    GraphPlan(std::shared_ptr<Backend> backend, std::shared_ptr<Graph> graph);
    ~GraphPlan() { close(); }
    GraphPlan(const GraphPlan&) = delete;
    GraphPlan& operator=(const GraphPlan&) = delete;
    void compute();
    const std::shared_ptr<Graph>& graph() const { return graph_; }
    void close();
    bool closed() const { return handle_ == nullptr; }

  private:
    std::shared_ptr<Backend> backend_;
    std::vector<std::shared_ptr<Threadpool>> pools_;  // that the plan computes on
    std::shared_ptr<Graph> graph_;
    int n_threads_;
    int n_nodes_;
    ggml_backend_graph_plan_t handle_;
};

}  // namespace ggmlpy
