#include "ggml/buffer.h"

#include <set>

#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {
namespace {

// Vulkan's own clear (ggml 0.20.2) sets one byte of every four where the memory is not the processor's; its
// memset of a tensor is right, so a tensor as large as the buffer is put over it.
void clear_bytes(ggml_backend_buffer_t buffer, const BufferType& type, std::uint8_t value) {
    const std::shared_ptr<RegistryState>& registry = type.device.registry();
    if (value == 0 || !registry || registry->name != "Vulkan") {
        ggml_backend_buffer_clear(buffer, value);
        return;
    }
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
        ggml_init({ggml_tensor_overhead(), nullptr, true}), &ggml_free);
    if (!context) throw OutOfMemory("out of memory");
    const std::size_t size = ggml_backend_buffer_get_size(buffer);
    ggml_tensor* whole = ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<std::int64_t>(size));
    if (ggml_backend_tensor_alloc(buffer, whole, ggml_backend_buffer_get_base(buffer)) != GGML_STATUS_SUCCESS)
        throw GgmlFailure("cannot clear the buffer");
    ggml_backend_tensor_memset(whole, value, 0, size);
}

}  // namespace

bool is_host(ggml_backend_buffer_t buffer) {
    return ggml_backend_buffer_is_host(buffer) && !ggml_backend_buffer_is_meta(buffer);
}

bool is_host(ggml_backend_buffer_type_t type) {
    return ggml_backend_buft_is_host(type) && !ggml_backend_buft_is_meta(type);
}

Buffer::Buffer(ggml_backend_buffer_t handle, BufferType type, std::shared_ptr<const void> memory)
    : type_(std::move(type)), uses_(type_.device.uses()), memory_(std::move(memory)), handle_(handle) {
    if (handle == nullptr) throw OutOfMemory("cannot allocate a device buffer: out of memory");
    parts_.push_back({handle, type_});
}

ggml_backend_buffer_t Buffer::get() const {
    if (taken_) throw GgmlFailure("this buffer was taken over by a MultiBuffer");
    if (!handle_) throw GgmlFailure("this buffer was closed");
    return handle_.get();
}

void Buffer::clear(std::uint8_t value) const {
    get();
    if (read_only_) throw GgmlFailure("this buffer is memory that must not be written");
    for (const std::weak_ptr<Context>& user : users_) {
        if (const ContextPtr context = user.lock()) context->check_not_computing();
    }
    for (const Part& part : parts_) clear_bytes(part.handle, part.type, value);
}

void Buffer::check_idle() const {
    for (const std::weak_ptr<Context>& user : users_) {
        if (const ContextPtr context = user.lock()) context->check_idle();
    }
}

void Buffer::close() {
    if (!handle_) return;
    check_idle();
    if (shared())
        throw GgmlFailure("arrays look at this buffer's memory (Tensor.numpy): let go of them first");
    forget_tensors();
    handle_.reset();
    uses_.clear();
    memory_.reset();
}

void Buffer::forget_tensors() {
    for (const std::weak_ptr<Context>& user : users_) {
        const ContextPtr context = user.lock();
        for (const Part& part : parts_) {
            if (context) context->forget_buffer(part.handle);
        }
    }
    users_.clear();
}

void Buffer::add_user(const std::shared_ptr<Buffer>& self, const ContextPtr& context) {
    for (const Part& part : parts_) context->add_buffer(self, part.handle);
    users_.push_back(context);
}

void Buffer::add_user(const std::shared_ptr<Buffer>& self, const ContextPtr& context,
                      const std::vector<ggml_tensor*>& tensors) {
    if (ggml_backend_buffer_is_multi_buffer(get())) {
        std::set<ggml_backend_buffer_t> handles;
        for (const ggml_tensor* t : tensors) {
            if (t->buffer != nullptr) handles.insert(t->buffer);
        }
        parts_.clear();
        for (ggml_backend_buffer_t handle : handles) parts_.push_back({handle, type_});
    }
    add_user(self, context);
}

void Buffer::place(const std::shared_ptr<Buffer>& self, const Tensor& tensor, std::size_t offset) {
    Guard guard;
    ggml_tensor* t = tensor.with_sources();
    if (t->data != nullptr || t->buffer != nullptr)
        throw GgmlFailure("tensor " + describe(t) + " has memory already");
    if (t->view_src != nullptr)
        throw GgmlFailure("tensor " + describe(t) + " is a view: place what it looks at");
    if (ggml_backend_buffer_is_multi_buffer(get()) || ggml_backend_buffer_is_meta(get())) {
        throw Unsupported("tensors cannot be placed by address in a buffer of several buffers");
    }
    const std::size_t size = ggml_backend_buffer_get_size(get());
    const std::size_t needed = ggml_backend_buffer_get_alloc_size(get(), t);
    if (offset > size || needed > size - offset) {
        throw GgmlFailure("tensor " + describe(t) + " needs " + std::to_string(needed) + " bytes at offset " +
                          std::to_string(offset) + " of a buffer of " + std::to_string(size));
    }
    const std::size_t alignment = ggml_backend_buffer_get_alignment(get());
    if (offset % alignment != 0) {
        throw GgmlFailure("offset " + std::to_string(offset) + " is no multiple of " +
                          std::to_string(alignment));
    }
    char* base = static_cast<char*>(ggml_backend_buffer_get_base(get()));
    if (ggml_backend_tensor_alloc(get(), t, base + offset) != GGML_STATUS_SUCCESS) {
        throw GgmlFailure("cannot place tensor " + describe(t));
    }
    add_user(self, tensor.context());
}

std::shared_ptr<MultiBuffer> MultiBuffer::make(const std::vector<std::shared_ptr<Buffer>>& children) {
    if (children.empty()) throw std::invalid_argument("a MultiBuffer needs at least one buffer");
    std::vector<ggml_backend_buffer_t> handles;
    for (const auto& child : children) {
        if (ggml_backend_buffer_is_multi_buffer(child->get()) || ggml_backend_buffer_is_meta(child->get())) {
            throw std::invalid_argument("a MultiBuffer cannot be made of multi or meta buffers");
        }
        // They hold the child, which would no longer be what owns the memory.
        if (child->shared())
            throw GgmlFailure("arrays look at a buffer's memory (Tensor.numpy): let go of them first");
        child->check_idle();
        handles.push_back(child->get());
    }
    if (std::set<ggml_backend_buffer_t>(handles.begin(), handles.end()).size() != handles.size()) {
        throw std::invalid_argument("a buffer is given twice");
    }
    Guard guard;
    ggml_backend_buffer_t handle = ggml_backend_multi_buffer_alloc_buffer(handles.data(), handles.size());
    auto multi = std::make_shared<MultiBuffer>(handle, children.front()->type(), children);
    for (const auto& child : multi->children_) {
        multi->read_only_ = multi->read_only_ || child->read_only_;
        // What lies in a child now lives as long as the whole.
        for (const std::weak_ptr<Context>& user : child->users_) {
            if (const ContextPtr context = user.lock()) {
                context->add_buffer(multi, child->handle_.get());
                multi->users_.push_back(context);
            }
        }
        (void)child->handle_.release();  // ggml frees it with the whole
        child->taken_ = true;
    }
    return multi;
}

MultiBuffer::MultiBuffer(ggml_backend_buffer_t handle, BufferType type,
                         std::vector<std::shared_ptr<Buffer>> children)
    : Buffer(handle, std::move(type)), children_(std::move(children)) {
    parts_.clear();
    for (const auto& child : children_) parts_.push_back({child->get(), child->type()});
}

void MultiBuffer::close() {
    if (!handle_) return;
    Buffer::close();
    for (const auto& child : children_) {
        child->uses_.clear();
        child->memory_.reset();
    }
}

}  // namespace ggmlpy
