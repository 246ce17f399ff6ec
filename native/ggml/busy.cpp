#include "ggml/busy.h"

#include "ggml/context.h"
#include "ggml/process.h"

namespace ggmlpy {

BusyCounts BusyCounts::now() const { return all > 0 && !forked_since(process) ? *this : BusyCounts{}; }

void BusyCounts::add(Busy::With with, int n) {
    all += n;
    if (with == Busy::With::values) computing += n;
    if (with == Busy::With::layout) giving_memory += n;
}

Busy::Busy(const std::shared_ptr<Context>& context, With with) : with_(with), process_(current_pid()) {
    for (const Context* other : context->reachable()) {
        // Contexts are only ever made shared.
        contexts_.push_back(std::const_pointer_cast<Context>(other->shared_from_this()));
    }
    for (const auto& other : contexts_) {
        if (other->busy_.process != process_) other->busy_ = {};
        other->busy_.process = process_;
        // Only the context itself is given memory.
        other->busy_.add(with == With::layout && other != context ? With::memory : with, 1);
    }
}

Busy::Busy(const std::shared_ptr<Graph>& graph, With with) : Busy(graph->context(), with) {
    graph_ = graph;
    if (graph_->busy_.process != process_) graph_->busy_ = {};
    graph_->busy_.process = process_;
    graph_->busy_.add(with, 1);
}

Busy::~Busy() {
    for (const auto& other : contexts_) {
        if (other->busy_.process != process_) continue;
        other->busy_.add(with_ == With::layout && other != contexts_.front() ? With::memory : with_, -1);
    }
    if (graph_ && graph_->busy_.process == process_) graph_->busy_.add(with_, -1);
}

}  // namespace ggmlpy
