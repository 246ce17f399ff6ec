// Buffers: device memory, who owns it, and which tensors lie in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ggml/context.h"
#include "ggml/device.h"

namespace ggmlpy {

// A kind of memory that a device offers.
struct BufferType {
    ggml_backend_buffer_type_t handle;
    Device device;  // checked before every use of the handle
    ggml_backend_buffer_type_t get() const {
        device.get();
        return handle;
    }
};

// Is it memory that this process may read and write by address? ggml says so of a meta buffer too, whose
// addresses are made up.
bool is_host(ggml_backend_buffer_t buffer);
bool is_host(ggml_backend_buffer_type_t type);

// Device memory, and the host memory that it may lie in (`memory`). Closing it takes the memory away from
// the tensors that lie in it, which then raise when used.
class Buffer {
  public:
    // Throws GgmlFailure when `handle` is null (out of memory).
    Buffer(ggml_backend_buffer_t handle, BufferType type, std::shared_ptr<const void> memory = nullptr);
    virtual ~Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // Throws GgmlFailure when closed or taken over by a MultiBuffer.
    ggml_backend_buffer_t get() const;
    const BufferType& type() const { return type_; }
    bool closed() const { return handle_ == nullptr; }
    virtual void close();
    // Tensors of `context` lie in it: the context keeps the buffer, which will tell it when it closes.
    void add_user(const std::shared_ptr<Buffer>& self, const ContextPtr& context);
    // The same for the tensors that got memory now. ggml may have made several buffers, where a device has a
    // largest size: each tensor then has the handle of its own.
    void add_user(const std::shared_ptr<Buffer>& self, const ContextPtr& context,
                  const std::vector<ggml_tensor*>& tensors);
    // A look at the memory from outside, for as long as it lives: close() is refused meanwhile.
    class Share {
      public:
        explicit Share(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) { ++buffer_->shares_; }
        ~Share() { --buffer_->shares_; }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;

      private:
        std::shared_ptr<Buffer> buffer_;
    };
    // Memory that must not be written, such as the map of a file; a MultiBuffer with a part that is so.
    bool read_only() const { return read_only_; }
    void set_read_only() { read_only_ = true; }
    bool shared() const { return shares_ > 0; }
    // Sets every byte. Throws GgmlFailure when it must not be written, or tensors in it are being computed.
    void clear(std::uint8_t value) const;
    // Places a tensor at an offset; throws when it has memory, does not fit or is not aligned.
    void place(const std::shared_ptr<Buffer>& self, const Tensor& tensor, std::size_t offset);

    // Throws GgmlFailure while something is at work on the tensors in it.
    void check_idle() const;

  protected:
    friend class MultiBuffer;
    void forget_tensors();
    struct Free {
        void operator()(ggml_backend_buffer_t b) const { ggml_backend_buffer_free(b); }
    };
    BufferType type_;
    std::vector<Use> uses_;
    std::shared_ptr<const void> memory_;  // freed after the handle
    std::unique_ptr<ggml_backend_buffer, Free> handle_;
    // What ggml knows the memory by: the handle, or those of the buffers that it consists of.
    struct Part {
        ggml_backend_buffer_t handle;
        BufferType type;
    };
    std::vector<Part> parts_;
    std::vector<std::weak_ptr<Context>> users_;
    int shares_ = 0;
    bool read_only_ = false;
    bool taken_ = false;
};

// Several buffers as one. It takes its children over: they live as long as it does, and only through it.
class MultiBuffer : public Buffer {
  public:
    static std::shared_ptr<MultiBuffer> make(const std::vector<std::shared_ptr<Buffer>>& children);
    MultiBuffer(ggml_backend_buffer_t handle, BufferType type, std::vector<std::shared_ptr<Buffer>> children);
    ~MultiBuffer() override { close(); }
    void close() override;
    const std::vector<std::shared_ptr<Buffer>>& children() const { return children_; }

  private:
    std::vector<std::shared_ptr<Buffer>> children_;
};

}  // namespace ggmlpy
