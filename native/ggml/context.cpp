#include "ggml/context.h"

#include <algorithm>

#include "ggml/guard.h"

namespace ggmlpy {

Tensor::Tensor(ggml_tensor* raw, std::shared_ptr<Context> context)
    : raw_(raw), context_(std::move(context)), generation_(context_->generation()) {}

ggml_tensor* Tensor::get() const {
    if (context_->generation() != generation_) {
        throw GgmlFailure("this tensor belongs to a graph that is gone: its context was reset since");
    }
    return raw_;
}

ggml_tensor* Tensor::allocated() const {
    ggml_tensor* t = get();
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (t->data == nullptr || buffer == nullptr) {
        throw GgmlFailure("tensor " + describe(t) +
                          " has no memory yet: allocate its context or graph first");
    }
    if (context_->allocation_is_stale()) {
        throw GgmlFailure("tensor " + describe(t) +
                          ": its graph allocator has since allocated another graph");
    }
    return t;
}

Gallocr::Gallocr(ggml_backend_buffer_type_t type) : handle_(ggml_gallocr_new(type)) {
    if (!handle_) throw GgmlFailure("cannot create a graph allocator");
}

std::size_t Gallocr::buffer_size() const { return ggml_gallocr_get_buffer_size(handle_.get(), 0); }

Context::Context(std::size_t bytes) {
    ggml_init_params params = {};
    params.mem_size = bytes;
    params.mem_buffer = nullptr;
    params.no_alloc = true;
    handle_.reset(ggml_init(params));
    if (!handle_) throw GgmlFailure("cannot create a ggml context of " + std::to_string(bytes) + " bytes");
}

Context::Context(ggml_context* adopted) : handle_(adopted) {}

std::size_t Context::free_bytes() const {
    return ggml_get_mem_size(handle_.get()) - ggml_used_mem(handle_.get());
}

void Context::reset() {
    ggml_reset(handle_.get());
    kept_.clear();
    gallocr_.reset();
    ++generation_;
}

ggml_tensor* Context::use(const Tensor& t) {
    ggml_tensor* raw = t.get();
    if (t.context().get() != this) keep(t.context());
    return raw;
}

void Context::keep(const std::shared_ptr<const void>& what) {
    // A graph refers to a handful of others, most often the same one in a row.
    const auto same = [&](const auto& k) { return k == what; };
    if (std::find_if(kept_.rbegin(), kept_.rend(), same) == kept_.rend()) kept_.push_back(what);
}

void Context::set_gallocr(const std::shared_ptr<Gallocr>& gallocr) {
    gallocr_ = gallocr;
    gallocr_generation_ = gallocr->generation();
}

bool Context::allocation_is_stale() const {
    return gallocr_ != nullptr && gallocr_->generation() != gallocr_generation_;
}

Graph::Graph(ContextPtr context, std::size_t max_nodes) : context_(std::move(context)) {
    // ggml writes past the end of a context that is too small for a graph, so look first.
    const std::size_t needed = ggml_graph_overhead_custom(max_nodes, false);
    if (context_->free_bytes() < needed) {
        throw GgmlFailure("the context has " + std::to_string(context_->free_bytes()) +
                          " bytes left, a graph of " + std::to_string(max_nodes) + " nodes needs " +
                          std::to_string(needed));
    }
    raw_ = ggml_new_graph_custom(context_->get(), max_nodes, false);
    generation_ = context_->generation();
}

ggml_cgraph* Graph::get() const {
    if (context_->generation() != generation_)
        throw GgmlFailure("this graph is gone: its context was reset since");
    return raw_;
}

void Graph::expand(const Tensor& result) { ggml_build_forward_expand(get(), context_->use(result)); }

void check_computable(const Graph& graph, ggml_backend_t backend) {
    if (graph.context()->allocation_is_stale()) {
        throw GgmlFailure("the graph's allocator has since allocated another graph: allocate this one again");
    }
    ggml_cgraph* g = graph.get();
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    const int n = ggml_graph_n_nodes(g);
    for (int i = 0; i < n; ++i) {
        const ggml_tensor* node = ggml_graph_node(g, i);
        if (node->data == nullptr && ggml_nelements(node) > 0) {
            throw GgmlFailure("graph node " + describe(node) + " has no memory: allocate the graph first");
        }
        for (const ggml_tensor* src : node->src) {
            if (src != nullptr && src->data == nullptr && ggml_nelements(src) > 0) {
                throw GgmlFailure("graph leaf " + describe(src) + " has no memory: allocate it first");
            }
        }
        if (device != nullptr && !ggml_backend_dev_supports_op(device, node)) {
            throw GgmlFailure(std::string("device ") + ggml_backend_dev_name(device) + " cannot compute " +
                              ggml_op_desc(node) + " for " + describe(node));
        }
    }
}

std::string describe(const ggml_tensor* t) {
    std::string text = std::string("'") + t->name + "' [";
    for (int i = 0; i < ggml_n_dims(t); ++i) text += (i != 0 ? ", " : "") + std::to_string(t->ne[i]);
    return text + "] " + ggml_type_name(t->type);
}

}  // namespace ggmlpy
