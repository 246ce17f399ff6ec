#include "asr/backend.h"

#include <new>

#include "asr/kernels/kernels.h"
#include "ggml/guard.h"

namespace py = pybind11;

namespace asr {

using ggmlpy::Gallocr;
using ggmlpy::GgmlFailure;
using ggmlpy::Graph;
using ggmlpy::Guard;
using ggmlpy::Tensor;

PersistentBackend::PersistentBackend(std::shared_ptr<ggmlpy::Backend> backend, std::size_t max_nodes)
    : backend_(std::move(backend)), max_nodes_(max_nodes) {
    // Leaves (weights, inputs) live in other contexts or count as tensors here: twice the nodes is ample.
    const std::size_t bytes =
        2 * max_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(max_nodes, false);
    context_ = std::make_shared<ggmlpy::Context>(bytes);
}

ggmlpy::ContextPtr PersistentBackend::begin() {
    backend_->check_process();
    requests_at_begin_ = cancel_requests_;
    graph_.reset();
    context_->reset();
    return context_;
}

void PersistentBackend::allocate(const std::vector<Tensor>& outputs) {
    Guard guard;
    graph_ = std::make_unique<Graph>(context_, max_nodes_);
    for (const Tensor& t : outputs) {
        ggml_set_output(t.get());
        graph_->expand(t);
    }
    if (!gallocr_) {
        gallocr_ = std::make_shared<Gallocr>(ggml_backend_get_default_buffer_type(backend_->get()),
                                             backend_->device().uses());
    }
    gallocr_->alloc(graph_->get());
    context_->set_allocator(gallocr_);
    for (int i = 0; i < graph_->n_nodes(); ++i) {
        const ggml_tensor* node = ggml_graph_node(graph_->get(), i);
        if (node->view_src == nullptr && node->buffer != nullptr) {
            buffer_address_ = reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(node->buffer));
            break;
        }
    }
}

void PersistentBackend::run(const py::object& cancel) {
    if (!graph_) throw GgmlFailure("there is no graph to run: allocate one first");
    const ggmlpy::Busy busy(context_, ggmlpy::Busy::With::values);
    check_computable(*graph_, backend_->get());
    const auto seen = [this] { return requests_at_begin_; };
    exclusive(cancel, seen, [this](Interrupt& interrupt) {
        check_indices(*graph_);
        step(graph_->get(), interrupt);
    });
}

void PersistentBackend::step(ggml_cgraph* graph, Interrupt& interrupt) {
    if (interrupt.should_stop()) return;
    const ggml_status status = ggml_backend_graph_compute(backend_->get(), graph);
    ++graphs_run_;
    if (take_out_of_memory()) throw std::bad_alloc();
    if (status == GGML_STATUS_ABORTED && interrupt.stopped()) return;
    if (status != GGML_STATUS_SUCCESS) {
        throw GgmlFailure(std::string("compute failed: ") + ggml_status_to_string(status));
    }
}

}  // namespace asr
