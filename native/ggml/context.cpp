#include "ggml/context.h"

#include <algorithm>

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

Context::Context(std::size_t bytes) {
    ggml_init_params params = {};
    params.mem_size = bytes;
    params.mem_buffer = nullptr;
    params.no_alloc = true;
    // ggml asserts that malloc succeeds.
    try {
        handle_.reset(ggml_init(params));
    } catch (const GgmlFailure&) {
    }
    if (!handle_)
        throw OutOfMemory("cannot create a ggml context of " + std::to_string(bytes) +
                          " bytes: out of memory");
}

Context::Context(ggml_context* adopted) : handle_(adopted) {}

ggml_context* Context::get() const {
    if (!handle_) throw GgmlFailure("this context was closed");
    return handle_.get();
}

ggml_context* Context::arena() const {
    if (busy_.now().giving_memory > 0)
        throw GgmlFailure("the tensors of this context are being given memory: it cannot get new ones now");
    return get();
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

void Context::check_host_may_write(const ggml_tensor* t) const {
    check_writable(t);
    const auto home = owner(t->view_src != nullptr ? t->view_src : t);
    if (home) home->check_not_computing();
}

void Context::check_not_computing() const {
    if (busy_.now().computing > 0)
        throw GgmlFailure("a graph over these tensors is being computed: wait for it, or cancel it");
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
    const BusyCounts busy = busy_.now();
    if (busy.all == 0) return;
    check_not_computing();
    throw GgmlFailure(
        busy.giving_memory > 0
            ? "the tensors of this context are being given memory"
            : "these tensors are in use: wait for what a backend has begun, with synchronize()");
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

std::shared_ptr<const Context> Context::owner(const ggml_tensor* t) const {
    for (const Context* context : reachable()) {
        if (context->handle_ && context->owns(t)) return context->shared_from_this();
    }
    return nullptr;
}

bool Context::owns(const ggml_tensor* t) const {
    const auto* begin = static_cast<const char*>(ggml_get_mem_buffer(get()));
    const auto* at = reinterpret_cast<const char*>(t);
    return at >= begin && at < begin + ggml_get_mem_size(get());
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
                throw GgmlFailure(
                    "the graph uses a tensor of another context whose memory was closed, or used for another "
                    "graph, since");
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

void Context::forget_allocation(const Allocator* allocator) {
    if (allocator_.get() == allocator) forget_allocation();
}

void Context::forget_allocation() {
    // Closed or reset since, it has no such tensors.
    if (placed_.empty()) return allocator_.reset();
    for (ggml_tensor* t = ggml_get_first_tensor(get()); t != nullptr; t = ggml_get_next_tensor(get(), t)) {
        if (placed_.count(t) + placed_.count(t->view_src) == 0) continue;
        t->data = nullptr;
        t->buffer = nullptr;
    }
    ++allocations_;
    placed_.clear();
    allocator_.reset();
}

bool Context::allocation_is_stale() const {
    return allocator_ != nullptr && allocator_->generation() != allocator_generation_;
}

std::string describe(const ggml_tensor* t) {
    std::string text = std::string("'") + t->name + "' [";
    for (int i = 0; i < ggml_n_dims(t); ++i) text += (i != 0 ? ", " : "") + std::to_string(t->ne[i]);
    return text + "] " + ggml_type_name(t->type);
}

}  // namespace ggmlpy
