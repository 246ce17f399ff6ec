#include "ggml/context.h"

#include <algorithm>
#include <limits>

#include "ggml/buffer.h"
#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {

Tensor::Tensor(ggml_tensor* raw, std::shared_ptr<Context> context)
    : raw_(raw), context_(std::move(context)), generation_(context_->generation()) {}

ggml_tensor* Tensor::get() const {
    if (context_->generation() != generation_) {
        throw GgmlFailure("this tensor belongs to a graph that is gone: its context was reset or closed");
    }
    return raw_;
}

ggml_tensor* Tensor::with_sources() const {
    ggml_tensor* t = get();
    context_->check_alive();
    return t;
}

ggml_tensor* Tensor::allocated() const {
    ggml_tensor* t = get();
    // What a view looks at may be gone together with its context.
    if (t->view_src != nullptr && !context_->owns(t->view_src)) context_->check_used();
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

Gallocr::Gallocr(ggml_backend_buffer_type_t type, std::vector<Use> uses)
    : uses_(std::move(uses)), handle_(ggml_gallocr_new(type)) {
    if (!handle_) throw GgmlFailure("cannot create a graph allocator");
}

ggml_gallocr_t Gallocr::get() const {
    if (!handle_) throw GgmlFailure("this graph allocator was closed");
    return handle_.get();
}

void Gallocr::alloc(ggml_cgraph* graph) {
    advance();
    // For a graph of the same nodes ggml takes over the last one's plan, in which an output that is new may
    // share its memory: a change of outputs needs a new plan.
    std::vector<int> outputs;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        if ((ggml_graph_node(graph, i)->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) outputs.push_back(i);
    }
    if (outputs != output_nodes_) reserve(graph);
    output_nodes_ = std::move(outputs);
    if (!ggml_gallocr_alloc_graph(get(), graph)) {
        throw GgmlFailure("cannot allocate the graph's tensors: out of memory");
    }
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
    if (!ggml_gallocr_reserve(get(), graph)) {
        throw GgmlFailure("cannot allocate the graph's tensors: out of memory");
    }
}

std::size_t Gallocr::buffer_size() const { return ggml_gallocr_get_buffer_size(get(), 0); }

void Gallocr::check_idle() const {
    if (const auto context = context_.lock()) context->check_idle();
}

void Gallocr::close() {
    check_idle();
    advance();  // what it allocated is stale
    handle_.reset();
    uses_.clear();
}

Context::Context(std::size_t bytes) {
    ggml_init_params params = {};
    params.mem_size = bytes;
    params.mem_buffer = nullptr;
    params.no_alloc = true;
    handle_.reset(ggml_init(params));
    if (!handle_) throw GgmlFailure("cannot create a ggml context of " + std::to_string(bytes) + " bytes");
}

Context::Context(ggml_context* adopted) : handle_(adopted) {}

ggml_context* Context::get() const {
    if (!handle_) throw GgmlFailure("this context was closed");
    return handle_.get();
}

std::size_t Context::free_bytes() const { return ggml_get_mem_size(get()) - ggml_used_mem(get()); }

void Context::close() {
    if (!handle_) return;
    reset();
    handle_.reset();
}

void Context::add_buffer(const std::shared_ptr<Buffer>& buffer, ggml_backend_buffer_t handle) {
    for (auto& [known, owner] : buffers_) {
        if (known != handle) continue;
        owner = buffer;  // taken over by a MultiBuffer
        return;
    }
    buffers_.emplace_back(handle, buffer);
}

std::shared_ptr<Buffer> Context::find_buffer(ggml_backend_buffer_t handle) const {
    for (const Context* context : reachable()) {
        for (const auto& [known, owner] : context->buffers_) {
            if (known == handle) return owner;
        }
    }
    return nullptr;
}

void Context::check_writable(const ggml_tensor* t) const {
    const auto owner = find_buffer(t->view_src != nullptr ? t->view_src->buffer : t->buffer);
    if (owner && owner->read_only()) {
        throw GgmlFailure("tensor " + describe(t) + " lies in memory that must not be written");
    }
}

void Context::forget_buffer(ggml_backend_buffer_t buffer) {
    if (!handle_) return;
    for (ggml_tensor* t = ggml_get_first_tensor(get()); t != nullptr; t = ggml_get_next_tensor(get(), t)) {
        if (t->buffer != buffer) continue;
        t->data = nullptr;
        t->buffer = nullptr;
        ++allocations_;
    }
    const auto same = [&](const auto& entry) { return entry.first == buffer; };
    buffers_.erase(std::remove_if(buffers_.begin(), buffers_.end(), same), buffers_.end());
}

void Context::check_idle() const {
    if (busy_ > 0)
        throw GgmlFailure("a graph over these tensors is being computed: wait for it, or cancel it");
}

std::vector<const Context*> Context::reachable() const {
    std::vector<const Context*> out{this};
    std::unordered_set<const Context*> seen{this};
    for (std::size_t i = 0; i < out.size(); ++i) {
        for (const Used& used : out[i]->used_) {
            if (seen.insert(used.context.get()).second) out.push_back(used.context.get());
        }
    }
    return out;
}

bool Context::owns(const ggml_tensor* t) const {
    const auto* begin = static_cast<const char*>(ggml_get_mem_buffer(get()));
    const auto* at = reinterpret_cast<const char*>(t);
    return at >= begin && at < begin + ggml_get_mem_size(get());
}

Busy::Busy(const std::shared_ptr<Graph>& graph) : graph_(graph) {
    for (const Context* context : graph->context()->reachable()) {
        // Contexts are only ever made shared.
        contexts_.push_back(std::const_pointer_cast<Context>(context->shared_from_this()));
    }
    for (const auto& context : contexts_) ++context->busy_;
    ++graph_->busy_;
}

Busy::~Busy() {
    for (const auto& context : contexts_) --context->busy_;
    --graph_->busy_;
}

void Context::reset() {
    check_idle();
    ggml_reset(get());
    kept_.clear();
    buffers_.clear();
    used_.clear();
    allocator_.reset();
    placed_.clear();
    ++generation_;
}

ggml_tensor* Context::use(const Tensor& t) {
    ggml_tensor* raw = t.with_sources();
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

// Most contexts use one or a few others that use none.
bool Context::uses_only_leaves() const {
    return std::all_of(used_.begin(), used_.end(), [](const Used& u) { return u.context->used_.empty(); });
}

void Context::check_alive() const {
    const auto check = [](const Context& context) {
        for (const Used& used : context.used_) {
            if (used.context->generation_ != used.generation) {
                throw GgmlFailure("this uses a tensor of another context, which was reset or closed since");
            }
        }
    };
    check(*this);
    if (uses_only_leaves()) return;
    for (const Context* context : reachable()) check(*context);
}

void Context::check_used() const {
    check_alive();
    const auto check = [](const Context& context) {
        for (const Used& used : context.used_) {
            if (used.context->allocations_ != used.allocations || used.context->allocation_is_stale()) {
                throw GgmlFailure("the graph uses a tensor whose graph allocator has since moved it");
            }
        }
    };
    check(*this);
    if (uses_only_leaves()) return;
    for (const Context* context : reachable()) check(*context);
}

void Context::keep(const std::shared_ptr<const void>& what) {
    const auto same = [&](const auto& k) { return k == what; };
    if (std::find_if(kept_.rbegin(), kept_.rend(), same) == kept_.rend()) kept_.push_back(what);
}

void Context::set_allocator(const std::shared_ptr<Allocator>& allocator,
                            std::unordered_set<const ggml_tensor*> placed) {
    allocator_ = allocator;
    allocator_generation_ = allocator->generation();
    placed_ = std::move(placed);
}

void Context::forget_allocation() {
    for (ggml_tensor* t = ggml_get_first_tensor(get()); t != nullptr; t = ggml_get_next_tensor(get(), t)) {
        if (placed_.count(t) + placed_.count(t->view_src) == 0) continue;
        t->data = nullptr;
        t->buffer = nullptr;
    }
    if (!placed_.empty()) ++allocations_;
    placed_.clear();
    allocator_.reset();
}

bool Context::allocation_is_stale() const {
    return allocator_ != nullptr && allocator_->generation() != allocator_generation_;
}

Graph::Graph(ContextPtr context, std::size_t max_nodes) : context_(std::move(context)) {
    constexpr std::size_t most = std::size_t{1} << 24;
    if (max_nodes < 1 || max_nodes > most) {
        throw GgmlFailure("a graph has 1 to " + std::to_string(most) + " nodes, not " +
                          std::to_string(max_nodes));
    }
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
        throw GgmlFailure("this graph is gone: its context was reset or closed");
    return raw_;
}

void Graph::expand(const Tensor& result) {
    if (busy_ > 0) throw GgmlFailure("this graph is being computed: wait for it, or cancel it");
    // ggml follows the sources by recursion: a chain of this many would overflow the stack.
    constexpr std::size_t most = 100000;
    if (context_->used_bytes() / ggml_tensor_overhead() > most) {
        throw GgmlFailure("the context holds more than " + std::to_string(most) +
                          " tensors: too many for a graph");
    }
    context_->check_alive();
    ggml_build_forward_expand(get(), context_->use(result));
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
    gallocr->alloc(g);
    for (auto t = placed.begin(); t != placed.end();)
        t = (*t)->data == nullptr ? placed.erase(t) : std::next(t);
    context->set_allocator(gallocr, std::move(placed));
    gallocr->set_context(context);
}

void check_sizes(const ggml_tensor* t) {
    // No type takes more than 16 bytes an element.
    std::int64_t left = std::numeric_limits<std::int64_t>::max() / 16;
    for (const std::int64_t n : t->ne) {
        if (n < 0) throw GgmlFailure("tensor " + describe(t) + " would have a negative size");
        if (n > 1) left /= n;
    }
    if (left == 0) throw GgmlFailure("tensor " + describe(t) + " would be larger than any memory");
    if (t->view_src == nullptr) return;
    const std::size_t end = ggml_nbytes(t->view_src);
    for (int i = 0; i < GGML_MAX_DIMS; ++i) {
        // A larger stride would reach past the end, or wrap around in the sum that ggml makes of them.
        if (t->ne[i] > 1 && t->nb[i] > end) {
            throw GgmlFailure("the view " + describe(t) + " has a stride of " + std::to_string(t->nb[i]) +
                              " bytes over the " + std::to_string(end) + " of " + describe(t->view_src));
        }
    }
    if (t->view_offs > end || ggml_nbytes(t) > end - t->view_offs) {
        throw GgmlFailure("the view " + describe(t) + " ends past the " + std::to_string(end) + " bytes of " +
                          describe(t->view_src));
    }
}

namespace {

// Does the operator write into the tensor, which only looks at memory when it is a view?
bool writes(ggml_op op) {
    return op != GGML_OP_NONE && op != GGML_OP_VIEW && op != GGML_OP_RESHAPE && op != GGML_OP_PERMUTE &&
           op != GGML_OP_TRANSPOSE;
}

// Throws unless `backend` can read and write the memory of a tensor of a graph.
void check_memory(const ggml_tensor* t, const char* what, ggml_backend_t backend) {
    if (ggml_nelements(t) == 0) return;
    const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
    if (t->data == nullptr || buffer == nullptr) {
        throw GgmlFailure(std::string("graph ") + what + " " + describe(t) +
                          " has no memory: allocate its context or graph first");
    }
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
    // A CPU device says that it supports the memory of a meta device made of CPUs, whose addresses are made
    // up.
    if (ggml_backend_buffer_is_meta(buffer) != ggml_backend_is_meta(backend) ||
        !ggml_backend_supports_buft(backend, type)) {
        throw GgmlFailure(std::string("graph ") + what + " " + describe(t) + " lies in memory (" +
                          ggml_backend_buft_name(type) + ") that backend " + ggml_backend_name(backend) +
                          " cannot use");
    }
}

}  // namespace

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
        check_memory(node, "node", backend);
        if (node->view_src != nullptr && writes(node->op)) graph.context()->check_writable(node);
        for (const ggml_tensor* src : node->src) {
            if (src != nullptr) check_memory(src, "leaf", backend);
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
