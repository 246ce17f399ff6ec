// Backends, buffers and thread pools with their ownership.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace ggmlpy {

// True in a process that was forked after `pid` was taken.
bool forked_since(long pid);
long current_pid();

// Worker threads that live as long as this object. In a forked child they do not exist: there the handle is
// left alone, since joining them would wait for ever.
class Threadpool {
  public:
    explicit Threadpool(int n_threads);
    ~Threadpool();
    Threadpool(const Threadpool&) = delete;
    Threadpool& operator=(const Threadpool&) = delete;
    ggml_threadpool_t get() const { return handle_; }
    int n_threads() const { return n_threads_; }

  private:
    ggml_threadpool_t handle_;
    int n_threads_;
    long pid_;
};

// A device buffer, and the host memory that it may lie in (`memory`).
class Buffer {
  public:
    explicit Buffer(ggml_backend_buffer_t handle, std::shared_ptr<const void> memory = nullptr);
    ggml_backend_buffer_t get() const { return handle_.get(); }

  private:
    struct Free {
        void operator()(ggml_backend_buffer_t b) const { ggml_backend_buffer_free(b); }
    };
    std::shared_ptr<const void> memory_;  // freed after the handle
    std::unique_ptr<ggml_backend_buffer, Free> handle_;
};

// A compute stream on a device. One compute at a time: callers hold `mutex`.
class Backend {
  public:
    explicit Backend(ggml_backend_dev_t device);
    ggml_backend_t get() const { return handle_.get(); }
    ggml_backend_dev_t device() const { return ggml_backend_get_device(handle_.get()); }
    std::string name() const { return ggml_backend_name(handle_.get()); }
    bool is_cpu() const { return ggml_backend_is_cpu(handle_.get()); }
    // Persistent worker threads for a CPU backend; nothing to do on other devices.
    void set_n_threads(int n_threads);
    int n_threads() const { return n_threads_; }
    std::mutex& mutex() { return mutex_; }
    // Throws GgmlFailure in a forked child.
    void check_process() const;

  private:
    struct Free {
        void operator()(ggml_backend_t b) const { ggml_backend_free(b); }
    };
    std::unique_ptr<Threadpool> pool_;  // freed after the handle, which refers to it
    std::unique_ptr<ggml_backend, Free> handle_;
    std::mutex mutex_;
    int n_threads_ = 1;
    long pid_;
};

// The device of that registry name, "cpu" in any case among them; throws GgmlFailure listing what exists.
ggml_backend_dev_t find_device(const std::string& name);

}  // namespace ggmlpy
