#include "ggml/interrupt.h"

#include "ggml/guard.h"
#include "ggml/process.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {
constexpr std::chrono::milliseconds poll_interval{20};
const std::atomic<std::uint64_t> no_requests{0};
}  // namespace

Interrupt::Interrupt(py::object cancel) : Interrupt(std::move(cancel), no_requests) {}

Interrupt::Interrupt(py::object cancel, const std::atomic<std::uint64_t>& requests)
    : cancel_(std::move(cancel)), requests_(requests) {}

bool Interrupt::should_stop() {
    if (!stopped_ && requests_.load(std::memory_order_relaxed) != seen_) stopped_ = true;
    return asked_to_stop();
}

bool Interrupt::asked_to_stop() {
    if (stopped_) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_poll_) return false;
    next_poll_ = now + poll_interval;
    const long process = current_pid();
    const GilAcquire acquire;
    try {
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!cancel_.is_none()) {
            const int set = PyObject_IsTrue(cancel_.attr("is_set")().ptr());
            if (set < 0) throw py::error_already_set();
            stopped_ = set != 0;
        }
    } catch (...) {
        error_ = std::current_exception();
        stopped_ = true;
    }
    if (forked_since(process)) {
        stopped_ = true;
        if (error_) std::rethrow_exception(error_);
        throw GgmlFailure("this process was forked in the middle of a computation, which cannot go on here");
    }
    return stopped_;
}

std::optional<ComputeLocks> Interrupt::lock(const std::vector<Backend*>& backends) {
    for (;;) {
        if (auto locks = ComputeLocks::try_for(backends, poll_interval)) return locks;
        if (asked_to_stop()) return std::nullopt;
        if (threads_are_parked())
            throw GgmlFailure("the interpreter is exiting in the middle of a computation on this backend");
    }
}

void Interrupt::raise() const {
    if (error_) std::rethrow_exception(error_);
    throw Cancelled();
}

InterruptScope::InterruptScope(const std::vector<Backend*>& backends, Interrupt& interrupt) {
    // A backend that was closed meanwhile throws here, before any has the callback.
    for (const Backend* backend : backends) {
        const std::vector<ggml_backend_t> parts = backend->cpu_parts();
        cpus_.insert(cpus_.end(), parts.begin(), parts.end());
    }
    for (ggml_backend_t cpu : cpus_)
        ggml_backend_cpu_set_abort_callback(cpu, Interrupt::callback, &interrupt);
}

InterruptScope::~InterruptScope() {
    for (ggml_backend_t cpu : cpus_) ggml_backend_cpu_set_abort_callback(cpu, nullptr, nullptr);
}

}  // namespace ggmlpy
