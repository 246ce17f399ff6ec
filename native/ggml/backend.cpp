#include "ggml/backend.h"

#include <algorithm>
#include <utility>

#include "ggml/guard.h"
#include "ggml/internal.h"
#include "ggml/stream.h"

namespace ggmlpy {

Threadpool::Threadpool(int n_threads) : n_threads_(n_threads < 1 ? 1 : n_threads), pid_(current_pid()) {
    if (n_threads_ > GGML_MAX_N_THREADS) {
        throw GgmlFailure("ggml runs at most " + std::to_string(GGML_MAX_N_THREADS) + " threads, not " +
                          std::to_string(n_threads_));
    }
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads_);
    handle_ = ggml_threadpool_new(&params);
    if (handle_ == nullptr) throw GgmlFailure("cannot start " + std::to_string(n_threads_) + " threads");
}

namespace {
thread_local int held = 0;  // compute mutexes, by this thread
}

bool ComputeMutex::try_lock_for(std::chrono::milliseconds time) {
    if (owner_ == std::this_thread::get_id())
        throw GgmlFailure("this backend is computing on this thread: it cannot be used from within that");
    if (!mutex_.try_lock_for(time)) return false;
    owner_ = std::this_thread::get_id();
    ++held;
    return true;
}

void ComputeMutex::unlock() {
    owner_ = std::thread::id();
    --held;
    mutex_.unlock();
}

std::optional<ComputeLocks> ComputeLocks::try_for(const std::vector<Backend*>& backends,
                                                  std::chrono::milliseconds time) {
    const auto each_once = [](auto values) {
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
        return values;
    };
    // A thread that computes does not wait for one that may be waiting for it.
    const bool computing = held > 0;
    ComputeLocks locks;
    const auto take = [&](ComputeMutex& mutex) {
        if (!mutex.try_lock_for(computing ? std::chrono::milliseconds(0) : time)) {
            if (!computing) return false;
            throw GgmlFailure(
                "another thread computes on this backend, and this thread computes too: it cannot wait for "
                "the other from within that");
        }
        locks.held_.emplace_back(&mutex);
        return true;
    };
    const std::vector<Backend*> sorted = each_once(backends);
    for (Backend* backend : sorted) {
        if (!take(backend->mutex())) return std::nullopt;
    }
    // Only now do the backends keep their pools, which several of them may share.
    for (const Backend* backend : sorted)
        locks.pools_.insert(locks.pools_.end(), backend->pools().begin(), backend->pools().end());
    locks.pools_ = each_once(std::move(locks.pools_));
    for (const auto& pool : locks.pools_) {
        if (!take(pool->mutex())) return std::nullopt;
    }
    return locks;
}

ggml_threadpool_t Threadpool::get() const {
    if (forked_since(pid_)) {
        throw GgmlFailure(
            "this thread pool was made before os.fork(): its threads do not exist in the child process; make "
            "it in the child");
    }
    return handle_;
}

Threadpool::~Threadpool() {
    if (!forked_since(pid_)) ggml_threadpool_free(handle_);
}

Backend::Backend(Device device, const char* params)
    : device_(std::move(device)),
      uses_(device_.uses()),
      handle_(ggml_backend_dev_init(device_.get(), params)),
      pid_(current_pid()) {
    if (!handle_) {
        throw GgmlFailure(std::string("cannot initialise device ") + ggml_backend_dev_name(device_.get()));
    }
}

Backend::~Backend() { close(); }

ggml_backend_t Backend::get() const {
    if (!handle_) throw GgmlFailure("this backend was closed");
    return handle_.get();
}

bool Backend::is_meta() const { return ggml_backend_is_meta(get()); }

std::vector<ggml_backend_t> Backend::cpu_parts() const {
    if (is_cpu()) return {get()};
    std::vector<ggml_backend_t> parts;
    for (std::size_t i = 0; is_meta() && i < ggml_backend_meta_n_backends(get()); ++i) {
        ggml_backend_t part = ggml_backend_meta_simple_backend(get(), i);
        if (ggml_backend_is_cpu(part)) parts.push_back(part);
    }
    return parts;
}

void Backend::set_n_threads(int n_threads) {
    check_process();
    const int wanted = n_threads < 1 ? 1 : n_threads;
    const std::vector<ggml_backend_t> parts = cpu_parts();
    if (!parts.empty() && (wanted != n_threads_ || pools_.empty())) start_threads(parts, wanted);
}

void Backend::start_threads(const std::vector<ggml_backend_t>& parts, int n_threads) {
    // The parts of a meta backend compute one after the other, but a pool belongs to one at a time.
    std::vector<std::shared_ptr<Threadpool>> pools;
    for (std::size_t i = 0; i < parts.size(); ++i) pools.push_back(std::make_shared<Threadpool>(n_threads));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        ggml_backend_cpu_set_threadpool(parts[i], pools[i]->get());
        ggml_backend_cpu_set_n_threads(parts[i], n_threads);
    }
    pools_ = std::move(pools);
    n_threads_ = n_threads;
}

void Backend::set_threadpool(const std::shared_ptr<Threadpool>& pool) {
    check_process();
    if (!is_cpu()) throw Unsupported("backend " + name() + " has no use for a thread pool");
    if (!pool) return start_threads(cpu_parts(), n_threads_);
    ggml_backend_cpu_set_threadpool(get(), pool->get());
    ggml_backend_cpu_set_n_threads(get(), pool->n_threads());
    pools_ = {pool};
    n_threads_ = pool->n_threads();
}

void Backend::check_process() const {
    if (forked()) {
        throw GgmlFailure(
            "this backend was made before os.fork(): its threads do not exist in the child process; "
            "make (or load) it in the child");
    }
}

std::vector<std::shared_ptr<const void>> Backend::synchronize() {
    ggml_backend_synchronize(get());
    return std::exchange(pending_, {});
}

void Backend::keep_until_synchronized(std::shared_ptr<const void> what) {
    pending_.push_back(std::move(what));
}

void Backend::remove_plan(GraphPlan* plan) {
    plans_.erase(std::remove(plans_.begin(), plans_.end(), plan), plans_.end());
}

void Backend::close() {
    if (!handle_) return;
    if (!forked()) ggml_backend_synchronize(handle_.get());
    pending_.clear();
    const std::vector<GraphPlan*> plans = plans_;
    for (GraphPlan* plan : plans) plan->close();
    handle_.reset();
    pools_.clear();
    uses_.clear();
}

}  // namespace ggmlpy
