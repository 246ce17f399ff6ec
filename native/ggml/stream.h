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
    // The event to wait for without the GIL, while another thread may close this.
    std::shared_ptr<ggml_backend_event> handle() const;
    void wait(Backend& backend);
    // What waits for it in another thread goes on waiting.
    void close() { handle_.reset(); }
    bool closed() const { return handle_ == nullptr; }

  private:
    ggml_backend_event_t get() const;
    Device device_;
    std::vector<Use> uses_;
    std::shared_ptr<ggml_backend_event> handle_;
};

// A graph prepared for repeated computation; ggml has plans on the CPU only. Keeps the graph and the backend.
// Threads and thread pool are those of the backend at creation: a change there makes the plan stale.
class GraphPlan {
  public:
    GraphPlan(std::shared_ptr<Backend> backend, std::shared_ptr<Graph> graph);
    ~GraphPlan() { close(); }
    GraphPlan(const GraphPlan&) = delete;
    GraphPlan& operator=(const GraphPlan&) = delete;
    // Throws GgmlFailure unless the graph can be computed.
    void check_computable() const;
    // With the backend's lock held; needs no GIL.
    void compute();
    const std::shared_ptr<Graph>& graph() const { return graph_; }
    const std::shared_ptr<Backend>& backend() const { return backend_; }
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
