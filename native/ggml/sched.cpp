#include "ggml/sched.h"

#include <algorithm>
#include <stdexcept>

#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {
namespace {

// A scheduler would give memory to a tensor of another context, which does not know of it, and compute on the
// made-up addresses of a meta device, whose memory a CPU device says that it supports.
void check_memory(const std::unordered_set<const ggml_tensor*>& own, const ggml_tensor* t) {
    if (t == nullptr || ggml_nelements(t) == 0) return;
    if (t->data == nullptr && own.count(t) == 0) {
        throw GgmlFailure("tensor " + describe(t) + " of another context has no memory: allocate it first");
    }
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (buffer != nullptr && ggml_backend_buffer_is_meta(buffer)) {
        throw Unsupported("tensor " + describe(t) + " lies on a meta device, which a scheduler cannot use");
    }
}

}  // namespace

Sched::Sched(std::vector<std::shared_ptr<Backend>> backends, std::size_t graph_size, bool parallel,
             bool op_offload)
    : backends_(std::move(backends)), graph_size_(graph_size), parallel_(parallel), op_offload_(op_offload) {
    if (backends_.empty() || backends_.size() > 16)
        throw std::invalid_argument("a scheduler takes 1 to 16 backends");
    if (!backends_.back()->is_cpu())
        throw std::invalid_argument("the last backend of a scheduler must be a CPU");
    std::unordered_set<ggml_backend_t> handles;
    for (const auto& backend : backends_) {
        if (!handles.insert(backend->get()).second) throw std::invalid_argument("a backend is given twice");
        if (backend->is_meta()) throw Unsupported("a scheduler cannot use a meta backend");
    }
    check_graph_size(graph_size);
    Guard guard;
    start_anew();
}

void Sched::start_anew() {
    if (handle_ != nullptr) ggml_backend_sched_free(handle_);
    handle_ = nullptr;
    output_nodes_.clear();
    std::vector<ggml_backend_t> handles;
    for (const auto& backend : backends_) handles.push_back(backend->get());
    // Its table of tensors also takes those that are told about and are not in the graph, and must not fill.
    const std::size_t table = 2 * graph_size_ + 64;
    handle_ = ggml_backend_sched_new(handles.data(), nullptr, static_cast<int>(handles.size()), table,
                                     parallel_, op_offload_);
    if (handle_ == nullptr) throw GgmlFailure("cannot make a scheduler");
}

template <typename Allocate>
void Sched::allocate(Allocate&& allocate_graph) {
    // ggml goes on with a buffer that it did not get, and takes its plan for good afterwards.
    try {
        const Guard::AllocationsThrow fail;
        if (allocate_graph()) return;
    } catch (const NoGraphBuffer&) {
        start_anew();
        throw;
    } catch (...) {
        handle_ = nullptr;  // stopped anywhere, it may not be in an order to be freed
        start_anew();
        throw;
    }
    start_anew();
    throw NoGraphBuffer();
}

// No context whose tensors lie in its memory is left: it would have kept it.
Sched::~Sched() {
    if (handle_ != nullptr) ggml_backend_sched_free(handle_);
}

void Sched::close() {
    if (handle_ == nullptr) return;
    forget_graph();
    ggml_backend_sched_free(handle_);
    handle_ = nullptr;
}

void Sched::forget_graph() {
    const ContextPtr context = context_.lock();
    if (context) context->check_idle();
    advance();
    if (context) context->forget_allocation(this);
    graph_.reset();
    context_.reset();
    has_graph_ = false;
    tensors_.clear();
    assigned_.clear();
}

ggml_backend_sched_t Sched::get() const {
    if (handle_ == nullptr) throw GgmlFailure("this scheduler was closed");
    for (const auto& backend : backends_) backend->get();
    return handle_;
}

std::unordered_set<const ggml_tensor*> Sched::check_graph(const Graph& graph) const {
    if (graph.is_split()) throw GgmlFailure("this graph was split by a scheduler before: build it anew");
    std::unordered_set<const ggml_tensor*> tensors;
    for (int i = 0; i < graph.n_nodes(); ++i) {
        const ggml_tensor* node = ggml_graph_node(graph.get(), i);
        tensors.insert(node);
        for (const ggml_tensor* src : node->src) {
            if (src != nullptr) tensors.insert(src);
        }
    }
    if (tensors.size() > graph_size_) {
        throw GgmlFailure("the graph has " + std::to_string(tensors.size()) +
                          " nodes and leaves, the scheduler was made for " + std::to_string(graph_size_) +
                          " (graph_size)");
    }
    return tensors;
}

void Sched::reserve(Graph& graph) {
    check_graph(graph);
    graph.context()->check_idle();
    graph.context()->check_used();
    Guard guard;
    reset();
    graph.mark_split();
    allocate([&] { return ggml_backend_sched_reserve(get(), graph.get()); });
}

void Sched::alloc_graph(const std::shared_ptr<Sched>& self, const std::shared_ptr<Graph>& graph) {
    get();
    std::unordered_set<const ggml_tensor*> tensors = check_graph(*graph);
    Guard guard;
    const ContextPtr& context = graph->context();
    context->check_idle();
    context->check_used();
    if (has_graph_)
        reset();  // not otherwise: it would forget what set_tensor_backend was told about this graph
    context->forget_allocation();
    std::unordered_set<const ggml_tensor*> placed;
    std::vector<ggml_tensor*> missing;
    std::unordered_set<const ggml_tensor*> own;
    for (ggml_tensor* t = ggml_get_first_tensor(context->get()); t != nullptr;
         t = ggml_get_next_tensor(context->get(), t)) {
        if (t->data == nullptr) {
            placed.insert(t);
            missing.push_back(t);
        }
        own.insert(t);
    }
    for (int i = 0; i < graph->n_nodes(); ++i) {
        const ggml_tensor* node = ggml_graph_node(graph->get(), i);
        check_memory(own, node);
        for (const ggml_tensor* src : node->src) check_memory(own, src);
    }
    graph->mark_split();
    // For a graph of the same nodes ggml takes over the last one's plan, in which an output that is new may
    // share its memory.
    std::vector<int> outputs;
    for (int i = 0; i < graph->n_nodes(); ++i) {
        if ((ggml_graph_node(graph->get(), i)->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) outputs.push_back(i);
    }
    if (!output_nodes_.empty() && outputs != output_nodes_) {
        start_anew();
        for (const auto& [tensor, backend] : assigned_)
            ggml_backend_sched_set_tensor_backend(get(), tensor, backend->get());
    }
    try {
        allocate([&] { return ggml_backend_sched_alloc_graph(get(), graph->get()); });
    } catch (...) {
        for (ggml_tensor* t : missing) {
            t->data = nullptr;
            t->buffer = nullptr;
        }
        throw;
    }
    output_nodes_ = std::move(outputs);
    context->set_allocator(self, std::move(placed));
    graph_ = graph;
    context_ = context;
    has_graph_ = true;
    tensors_ = std::move(tensors);
}

void Sched::check_computable(const std::shared_ptr<Graph>& graph) const {
    get();
    if (!holds(graph)) throw GgmlFailure("the scheduler gave its memory to another graph meanwhile");
    for (const auto& backend : backends_) backend->check_process();
    graph->context()->check_used();
    if (graph->context()->allocation_is_stale())
        throw GgmlFailure("the graph's memory was given to another graph");
    check_writes(*graph);
}

ggml_status Sched::compute(const Graph& graph) {
    check_indices(graph);
    return ggml_backend_sched_graph_compute(get(), graph.get());
}

void Sched::synchronize() { ggml_backend_sched_synchronize(get()); }

void Sched::reset() {
    get();
    forget_graph();
    ggml_backend_sched_reset(get());
}

void Sched::check_member(const Backend& backend) const {
    for (const auto& member : backends_) {
        if (member.get() == &backend) return;
    }
    throw std::invalid_argument("this backend is not one of the scheduler's");
}

void Sched::set_tensor_backend(const Tensor& tensor, const Backend& backend) {
    check_member(backend);
    Guard guard;
    if (has_graph_) reset();  // what is told is about the next graph
    assigned_[tensor.get()] = &backend;
    if (assigned_.size() > graph_size_) {
        assigned_.erase(tensor.get());
        throw GgmlFailure("more tensors are told about than the scheduler was made for: " +
                          std::to_string(graph_size_) + " (graph_size)");
    }
    ggml_backend_sched_set_tensor_backend(get(), tensor.get(), backend.get());
}

std::shared_ptr<Backend> Sched::tensor_backend(const Tensor& tensor) const {
    get();
    if (tensors_.count(tensor.get()) + assigned_.count(tensor.get()) == 0) return nullptr;
    Guard guard;
    const ggml_backend_t handle = ggml_backend_sched_get_tensor_backend(get(), tensor.get());
    for (const auto& backend : backends_) {
        if (backend->get() == handle) return backend;
    }
    return nullptr;
}

int Sched::n_splits() const { return ggml_backend_sched_get_n_splits(get()); }

int Sched::n_copies() const { return ggml_backend_sched_get_n_copies(get()); }

std::size_t Sched::buffer_size(const Backend& backend) const {
    check_member(backend);
    Guard guard;
    return ggml_backend_sched_get_buffer_size(get(), backend.get());
}

}  // namespace ggmlpy
