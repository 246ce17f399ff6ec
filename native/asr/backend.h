// The persistent backend: one ggml backend, one graph allocator and one arena for graphs, for the life of a
// model. Once the longest utterance was seen, nothing here allocates or starts threads.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ggml/backend.h"
#include "ggml/context.h"
#include "ggml/guard.h"
#include "ggml/interrupt.h"

namespace asr {

using ggmlpy::Interrupt;

class PersistentBackend {
  public:
    PersistentBackend(std::shared_ptr<ggmlpy::Backend> backend, std::size_t max_nodes);

    const std::shared_ptr<ggmlpy::Backend>& handle() const { return backend_; }

    // An empty context for the next graph; what the last one held becomes stale.
    ggmlpy::ContextPtr begin();
    // Makes the graph of `outputs` (built in begin()'s context) and gives its tensors memory.
    void allocate(const std::vector<ggmlpy::Tensor>& outputs);
    // Runs the allocated graph. Called with the GIL held; releases it.
    void run(const pybind11::object& cancel);

    // For loops over graphs of their own: calls `body(interrupt)` with the backend locked and the GIL
    // released; the body runs its graphs with step().
    template <typename Body>
    void exclusive(const pybind11::object& cancel, Body&& body) {
        exclusive(cancel, [this] { return cancel_requests_.load(); }, std::forward<Body>(body));
    }
    void step(ggml_cgraph* graph, Interrupt& interrupt);

    // Stops what runs now: a loop in exclusive(), or a graph from its begin() on.
    void cancel() { ++cancel_requests_; }
    std::uint64_t graphs_run() const { return graphs_run_; }
    std::size_t compute_buffer_size() const { return gallocr_ ? gallocr_->buffer_size() : 0; }
    // Where the compute buffer begins: the same for ever once the largest graph was seen. 0 before the first.
    std::uintptr_t compute_buffer_address() const { return buffer_address_; }

  private:
    // `seen` says, once it is our turn, how many requests to cancel were made for what went before.
    template <typename Seen, typename Body>
    void exclusive(const pybind11::object& cancel, Seen&& seen, Body&& body);

    std::shared_ptr<ggmlpy::Backend> backend_;
    std::size_t max_nodes_;
    ggmlpy::ContextPtr context_;
    std::shared_ptr<ggmlpy::Gallocr> gallocr_;  // made at the first compute
    std::unique_ptr<ggmlpy::Graph> graph_;
    std::uintptr_t buffer_address_ = 0;
    std::atomic<std::uint64_t> graphs_run_{0};
    std::atomic<std::uint64_t> cancel_requests_{0};
    std::uint64_t requests_at_begin_ = 0;
};

template <typename Seen, typename Body>
void PersistentBackend::exclusive(const pybind11::object& cancel, Seen&& seen, Body&& body) {
    backend_->check_process();
    Interrupt interrupt(cancel, cancel_requests_);
    {
        const ggmlpy::Guard guard;
        const ggmlpy::GilRelease release;
        if (const auto lock = interrupt.lock({backend_.get()})) {
            interrupt.begin(seen());
            const ggmlpy::InterruptScope scope({backend_.get()}, interrupt);
            body(interrupt);
        }
    }
    if (interrupt.stopped()) interrupt.raise();
}

}  // namespace asr
