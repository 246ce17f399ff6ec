#include "ggml/interrupt.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {
constexpr std::chrono::milliseconds poll_interval{20};
}

Interrupt::Interrupt(py::object cancel, const std::atomic<std::uint64_t>& requests)
    : cancel_(std::move(cancel)), requests_(requests) {}

bool Interrupt::should_stop() noexcept {
    if (stopped_) return true;
    if (requests_.load(std::memory_order_relaxed) != seen_) {
        stopped_ = true;
        return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now < next_poll_) return false;
    next_poll_ = now + poll_interval;
    const ggmlpy::GilAcquire acquire;
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
    return stopped_;
}

void Interrupt::raise() const {
    if (error_) std::rethrow_exception(error_);
    throw Cancelled();
}

InterruptScope::InterruptScope(const Backend& backend, Interrupt& interrupt)
    : cpu_(backend.is_cpu() ? backend.get() : nullptr) {
    if (cpu_ != nullptr) ggml_backend_cpu_set_abort_callback(cpu_, Interrupt::callback, &interrupt);
}

InterruptScope::~InterruptScope() {
    if (cpu_ != nullptr) ggml_backend_cpu_set_abort_callback(cpu_, nullptr, nullptr);
}

}  // namespace ggmlpy
