#include "ggml/backend.h"

#include "ggml/guard.h"

#ifdef _WIN32
#include <process.h>
#else
#include <unistd.h>
#endif

namespace ggmlpy {

long current_pid() {
#ifdef _WIN32
    return static_cast<long>(_getpid());
#else
    return static_cast<long>(getpid());
#endif
}

bool forked_since(long pid) { return current_pid() != pid; }

Threadpool::Threadpool(int n_threads) : n_threads_(n_threads < 1 ? 1 : n_threads), pid_(current_pid()) {
    if (n_threads_ > GGML_MAX_N_THREADS) {
        throw GgmlFailure("ggml runs at most " + std::to_string(GGML_MAX_N_THREADS) + " threads, not " +
                          std::to_string(n_threads_));
    }
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads_);
    handle_ = ggml_threadpool_new(&params);
    if (handle_ == nullptr) throw GgmlFailure("cannot start " + std::to_string(n_threads_) + " threads");
}

Threadpool::~Threadpool() {
    if (!forked_since(pid_)) ggml_threadpool_free(handle_);
}

Buffer::Buffer(ggml_backend_buffer_t handle, std::shared_ptr<const void> memory)
    : memory_(std::move(memory)), handle_(handle) {
    if (handle == nullptr) throw GgmlFailure("cannot allocate a device buffer: out of memory");
}

Backend::Backend(ggml_backend_dev_t device)
    : handle_(ggml_backend_dev_init(device, nullptr)), pid_(current_pid()) {
    if (!handle_) throw GgmlFailure(std::string("cannot initialise device ") + ggml_backend_dev_name(device));
}

void Backend::set_n_threads(int n_threads) {
    check_process();
    n_threads_ = n_threads < 1 ? 1 : n_threads;
    if (!is_cpu() || (pool_ && pool_->n_threads() == n_threads_)) return;
    auto pool = std::make_unique<Threadpool>(n_threads_);
    ggml_backend_cpu_set_threadpool(handle_.get(), pool->get());
    ggml_backend_cpu_set_n_threads(handle_.get(), n_threads_);
    pool_ = std::move(pool);
}

void Backend::check_process() const {
    if (forked_since(pid_)) {
        throw GgmlFailure(
            "this backend was made before os.fork(): its threads do not exist in the child process; "
            "make (or load) it in the child");
    }
}

ggml_backend_dev_t find_device(const std::string& name) {
    if (ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str())) return device;
    std::string known;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        known += std::string(i != 0 ? ", " : "") + ggml_backend_dev_name(ggml_backend_dev_get(i));
    }
    throw GgmlFailure("no device '" + name + "'; there are: " + known);
}

}  // namespace ggmlpy
