#include "ggml/context.h"

#include <algorithm>
#include <limits>

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
    used_.clear();
    gallocr_.reset();
    placed_.clear();
    ++generation_;
}

ggml_tensor* Context::use(const Tensor& t) {
    ggml_tensor* raw = t.get();
    Context* other = t.context().get();
    if (other == this) return raw;
    // A graph uses a handful of others, most often the same one in a row.
    const auto same = [&](const Used& u) {
        return u.context.get() == other && u.generation == other->generation_ &&
               u.allocations == other->allocations_;
    };
    if (std::find_if(used_.rbegin(), used_.rend(), same) == used_.rend()) {
        used_.push_back({t.context(), other->generation_, other->allocations_});
    }
    return raw;
}

void Context::check_used() const {
    for (const Used& used : used_) {
        if (used.context->generation_ != used.generation) {
            throw GgmlFailure("the graph uses a tensor of another context, which was reset since");
        }
        if (used.context->allocations_ != used.allocations || used.context->allocation_is_stale()) {
            throw GgmlFailure("the graph uses a tensor whose graph allocator has since moved it");
        }
    }
}

void Context::keep(const std::shared_ptr<const void>& what) {
    const auto same = [&](const auto& k) { return k == what; };
    if (std::find_if(kept_.rbegin(), kept_.rend(), same) == kept_.rend()) kept_.push_back(what);
}

void Context::set_gallocr(const std::shared_ptr<Gallocr>& gallocr,
                          std::unordered_set<const ggml_tensor*> placed) {
    gallocr_ = gallocr;
    gallocr_generation_ = gallocr->generation();
    placed_ = std::move(placed);
}

void Context::forget_gallocr() {
    for (ggml_tensor* t = ggml_get_first_tensor(get()); t != nullptr; t = ggml_get_next_tensor(get(), t)) {
        if (placed_.count(t) + placed_.count(t->view_src) == 0) continue;
        t->data = nullptr;
        t->buffer = nullptr;
    }
    if (!placed_.empty()) ++allocations_;
    placed_.clear();
    gallocr_.reset();
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

void allocate(const std::shared_ptr<Gallocr>& gallocr, const Graph& graph) {
    ggml_cgraph* g = graph.get();
    const ContextPtr& context = graph.context();
    context->forget_gallocr();
    std::unordered_set<const ggml_tensor*> own;
    std::unordered_set<const ggml_tensor*> placed;
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
    gallocr->advance();
    if (!ggml_gallocr_alloc_graph(gallocr->get(), g))
        throw GgmlFailure("cannot allocate the graph's tensors: out of memory");
    for (auto t = placed.begin(); t != placed.end();)
        t = (*t)->data == nullptr ? placed.erase(t) : std::next(t);
    context->set_gallocr(gallocr, std::move(placed));
}

void check_sizes(const ggml_tensor* t) {
    // No type takes more than 16 bytes an element.
    std::int64_t left = std::numeric_limits<std::int64_t>::max() / 16;
    for (const std::int64_t n : t->ne) {
        if (n < 0) throw GgmlFailure("tensor " + describe(t) + " would have a negative size");
        if (n > 1) left /= n;
    }
    if (left == 0) throw GgmlFailure("tensor " + describe(t) + " would be larger than any memory");
    if (t->view_src == nullptr || ggml_nbytes(t) == 0) return;
    const std::size_t end = ggml_nbytes(t->view_src);
    if (t->view_offs > end || ggml_nbytes(t) > end - t->view_offs) {
        throw GgmlFailure("the view " + describe(t) + " ends past the " + std::to_string(end) + " bytes of " +
                          describe(t->view_src));
    }
}

void check_computable(const Graph& graph, ggml_backend_t backend) {
    graph.context()->check_used();
    check_writes(graph);
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
