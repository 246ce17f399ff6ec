// Backends, the compute streams of devices, and thread pools.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ggml-cpu.h"
#include "ggml/buffer.h"
#include "ggml/device.h"
#include "ggml/process.h"

namespace ggmlpy {

// One compute at a time. A thread that asks while it computes itself (a cancel object or a split function
// that calls back) would wait for ever: try_lock_for() throws GgmlFailure instead.
class ComputeMutex {
  public:
    // False when another thread has it for longer.
    bool try_lock_for(std::chrono::milliseconds time);
    void unlock();

  private:
    std::timed_mutex mutex_;
    std::atomic<std::thread::id> owner_{};
};

// Worker threads that live as long as this object. In a forked child they do not exist: there the handle is
// left alone, since joining them would wait for ever.
class Threadpool {
  public:
    explicit Threadpool(int n_threads);
    ~Threadpool();
    Threadpool(const Threadpool&) = delete;
    Threadpool& operator=(const Threadpool&) = delete;
    // Throws GgmlFailure in a forked child.
    ggml_threadpool_t get() const;
    int n_threads() const { return n_threads_; }
    // Held while one of the backends that share the pool computes on it.
    ComputeMutex& mutex() { return mutex_; }

  private:
    ggml_threadpool_t handle_;
    int n_threads_;
    long pid_;
    ComputeMutex mutex_;
};

class GraphPlan;

// A compute stream on a device. One compute at a time: callers hold `mutex`.
class Backend {
  public:
    explicit Backend(Device device, const char* params = nullptr);
    ~Backend();
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    // Throws GgmlFailure when closed, or in a forked child.
    ggml_backend_t get() const;
    const Device& device() const { return device_; }
    std::string name() const { return ggml_backend_name(get()); }
    bool is_cpu() const { return ggml_backend_is_cpu(get()); }
    bool is_meta() const;
    // Itself where it is a CPU's; those that it is made of where it is a meta backend.
    std::vector<ggml_backend_t> cpu_parts() const;
    BufferType buffer_type() const { return {ggml_backend_get_default_buffer_type(get()), device_}; }
    // Persistent worker threads for a CPU backend, and for each CPU backend of a meta backend; nothing to do
    // on other devices. Throws GgmlFailure for more than ggml can run.
    void set_n_threads(int n_threads);
    int n_threads() const { return n_threads_; }
    // A pool that other backends may share; it lives as long as they do. Null for threads of its own again.
    void set_threadpool(const std::shared_ptr<Threadpool>& pool);
    ComputeMutex& mutex() { return mutex_; }
    const std::vector<std::shared_ptr<Threadpool>>& pools() const { return pools_; }
    bool forked() const { return forked_since(pid_); }
    // Throws GgmlFailure in a forked child.
    void check_process() const;

    // Waits for what was begun; gives back what keep_until_synchronized was given, to be let go of under the
    // GIL.
    std::vector<std::shared_ptr<const void>> synchronize();
    void keep_until_synchronized(std::shared_ptr<const void> what);
    // Plans are freed with the backend at the latest.
    void add_plan(GraphPlan* plan) { plans_.push_back(plan); }
    void remove_plan(GraphPlan* plan);
    bool closed() const { return handle_ == nullptr; }
    void close();

  private:
    struct Free {
        void operator()(ggml_backend_t b) const { ggml_backend_free(b); }
    };
    void start_threads(const std::vector<ggml_backend_t>& parts, int n_threads);
    Device device_;
    std::vector<Use> uses_;
    std::vector<std::shared_ptr<Threadpool>> pools_;  // freed after the handle, which refers to them
    std::unique_ptr<ggml_backend, Free> handle_;
    std::vector<std::shared_ptr<const void>> pending_;
    std::vector<GraphPlan*> plans_;
    ComputeMutex mutex_;
    int n_threads_ = 1;
    long pid_;
};

// The locks of backends and of their thread pools.
class ComputeLocks {
  public:
    // Nothing where one of them is taken and not to be had in that time; what was taken of the others is let
    // go of. Not to be waited for under the GIL, which who computes may be waiting for. Throws GgmlFailure
    // where this thread has locks already and would have to wait: the other may be waiting for those.
    static std::optional<ComputeLocks> try_for(const std::vector<Backend*>& backends,
                                               std::chrono::milliseconds time);

  private:
    struct Unlock {
        void operator()(ComputeMutex* mutex) const { mutex->unlock(); }
    };
    std::vector<std::shared_ptr<Threadpool>> pools_;  // outlive their locks
    std::vector<std::unique_ptr<ComputeMutex, Unlock>> held_;
};

}  // namespace ggmlpy
