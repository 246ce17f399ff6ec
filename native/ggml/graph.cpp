// Graphs, and the graph allocator that gives their tensors memory.

#include <unordered_set>
#include <vector>

#include "ggml/context.h"
#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {

void check_graph_size(std::size_t max_nodes) {
    constexpr std::size_t most = std::size_t{1} << 24;
    if (max_nodes >= 1 && max_nodes <= most) return;
    throw GgmlFailure("a graph has 1 to " + std::to_string(most) + " nodes, not " +
                      std::to_string(max_nodes));
}

Graph::Graph(ContextPtr context, std::size_t max_nodes) : context_(std::move(context)) {
    check_graph_size(max_nodes);
    // ggml writes past the end of a context that is too small for a graph, so look first.
    const std::size_t needed = ggml_graph_overhead_custom(max_nodes, false);
    if (context_->free_bytes() < needed) {
        throw GgmlFailure("the context has " + std::to_string(context_->free_bytes()) +
                          " bytes left, a graph of " + std::to_string(max_nodes) + " nodes needs " +
                          std::to_string(needed));
    }
    raw_ = ggml_new_graph_custom(context_->arena(), max_nodes, false);
    generation_ = context_->generation();
}

ggml_cgraph* Graph::get() const {
    if (context_->generation() != generation_)
        throw GgmlFailure("this graph is gone: its context was reset or closed");
    return raw_;
}

void Graph::expand(const Tensor& result) {
    if (busy_.now().all > 0)
        throw GgmlFailure("this graph is being computed or given memory: wait for that, or cancel it");
    // ggml follows the sources by recursion: a chain of this many would overflow the stack.
    constexpr std::size_t most = 100000;
    if (context_->used_bytes() / ggml_tensor_overhead() > most) {
        throw GgmlFailure("the context holds more than " + std::to_string(most) +
                          " tensors: too many for a graph");
    }
    context_->check_alive();
    context_->arena();
    ggml_build_forward_expand(get(), context_->use(result));
}

Gallocr::Gallocr(ggml_backend_buffer_type_t type, std::vector<Use> uses)
    : type_(type), uses_(std::move(uses)), handle_(ggml_gallocr_new(type)) {
    if (!handle_) throw GgmlFailure("cannot create a graph allocator");
}

ggml_gallocr_t Gallocr::get() const {
    if (!handle_) throw GgmlFailure("this graph allocator was closed");
    return handle_.get();
}

// After a failure ggml takes its plan for good, though the memory is gone: it begins anew.
template <typename Action>
void Gallocr::run(Action&& action) {
    try {
        if (action()) return;
    } catch (...) {
        // It was stopped in the middle of replacing a buffer, and would free the old one again.
        (void)handle_.release();
        start_anew();
        throw;
    }
    start_anew();
    throw NoGraphBuffer();
}

void Gallocr::start_anew() {
    advance();
    output_nodes_.clear();
    handle_.reset(ggml_gallocr_new(type_));
}

class Gallocr::Working {
  public:
    explicit Working(Gallocr& gallocr) : gallocr_(gallocr) { gallocr_.working_ = true; }
    ~Working() { gallocr_.working_ = false; }
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

  private:
    Gallocr& gallocr_;
};

void Gallocr::alloc(ggml_cgraph* graph) {
    advance();
    // For a graph of the same nodes ggml takes over the last one's plan, in which an output that is new may
    // share its memory: a change of outputs needs a new plan.
    std::vector<int> outputs;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        if ((ggml_graph_node(graph, i)->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) outputs.push_back(i);
    }
    const Working working(*this);
    run([&] {
        return (outputs == output_nodes_ || ggml_gallocr_reserve(get(), graph)) &&
               ggml_gallocr_alloc_graph(get(), graph);
    });
    output_nodes_ = std::move(outputs);
    // A part of a meta device whose slice is empty scales what lies in its memory by 0 instead of clearing
    // it, and what lies there at first may be a NaN.
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor* node = ggml_graph_node(graph, i);
        if (node->view_src != nullptr || node->buffer == nullptr) continue;
        if (ggml_backend_buffer_is_meta(node->buffer) &&
            ggml_backend_buffer_get_usage(node->buffer) == GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
            ggml_backend_buffer_clear(node->buffer, 0);
            break;
        }
    }
}

void Gallocr::reserve(ggml_cgraph* graph) {
    const Working working(*this);
    run([&] { return ggml_gallocr_reserve(get(), graph); });
}

std::size_t Gallocr::buffer_size() const { return ggml_gallocr_get_buffer_size(get(), 0); }

void Gallocr::check_idle() const {
    if (working_) throw GgmlFailure("this graph allocator is at work: it cannot be used from within that");
    if (const auto context = context_.lock()) context->check_idle();
}

void Gallocr::close() {
    check_idle();
    advance();  // what it allocated is stale
    handle_.reset();
    uses_.clear();
}

void allocate(const std::shared_ptr<Gallocr>& gallocr, const Graph& graph) {
    ggml_cgraph* g = graph.get();
    if (graph.is_split()) throw GgmlFailure("this graph was split by a scheduler: build it anew");
    gallocr->get();
    gallocr->check_idle();
    const ContextPtr& context = graph.context();
    context->check_idle();
    context->check_used();
    context->forget_allocation();
    std::unordered_set<const ggml_tensor*> own;
    std::unordered_set<ggml_tensor*> placed;
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        own.insert(t);
        if (t->data == nullptr) placed.insert(t);
    }
    // The allocator would place a tensor of another context too, which then does not know of it.
    const auto check = [&](const ggml_tensor* t) {
        if (t != nullptr && t->data == nullptr && own.count(t) == 0 && ggml_nelements(t) > 0) {
            throw GgmlFailure("tensor " + describe(t) +
                              " of another context has no memory: allocate it first");
        }
    };
    for (int i = 0; i < ggml_graph_n_nodes(g); ++i) {
        const ggml_tensor* node = ggml_graph_node(g, i);
        check(node);
        for (const ggml_tensor* src : node->src) check(src);
    }
    try {
        const Busy busy(context, Busy::With::layout);
        gallocr->alloc(g);
    } catch (...) {
        for (ggml_tensor* t : placed) {
            t->data = nullptr;
            t->buffer = nullptr;
        }
        throw;
    }
    std::unordered_set<const ggml_tensor*> got;
    for (const ggml_tensor* t : placed) {
        if (t->data != nullptr) got.insert(t);
    }
    context->set_allocator(gallocr, std::move(got));
    gallocr->set_context(context);
}

}  // namespace ggmlpy
