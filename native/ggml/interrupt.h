// Stopping a computation from Python: a signal (Ctrl-C), a `cancel` event, or a request from another thread.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "ggml/backend.h"
#include "ggml/gil.h"

namespace ggmlpy {

// Polled by the computing thread, which does not hold the GIL: from ggml's abort callback after every graph
// node, and by the decoding loops. Every 20 ms it takes the GIL, lets Python run its signal handlers (they
// run on the main thread only) and asks the `cancel` object (anything with is_set(), or None).
class Interrupt {
  public:
    // Without requests from other threads.
    explicit Interrupt(pybind11::object cancel = pybind11::none());
    Interrupt(pybind11::object cancel, const std::atomic<std::uint64_t>& requests);
    // Requests made so far are those up to `requests`; what comes after them stops the work.
    void begin(std::uint64_t requests) noexcept { seen_ = requests; }
    // Throws in a child that was forked by what it asked: the other threads of the work do not exist there.
    bool should_stop();
    // The locks of these backends, waited for without the GIL; nothing when it should stop before they are
    // had. (Requests to stop are about what runs now, not what waits.)
    std::optional<ComputeLocks> lock(const std::vector<Backend*>& backends);
    bool stopped() const noexcept { return stopped_; }
    // Under the GIL: raises what stopped the work, Cancelled or the signal handler's exception.
    [[noreturn]] void raise() const;

    static bool callback(void* self) { return static_cast<Interrupt*>(self)->should_stop(); }

  private:
    bool asked_to_stop();
    pybind11::object cancel_;
    const std::atomic<std::uint64_t>& requests_;
    std::uint64_t seen_ = 0;
    std::exception_ptr error_;
    std::chrono::steady_clock::time_point next_poll_;
    bool stopped_ = false;
};

// Puts the interrupt's callback into the CPU backends among these, and into those that a meta backend is made
// of, for as long as it lives.
class InterruptScope {
  public:
    InterruptScope(const std::vector<Backend*>& backends, Interrupt& interrupt);
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;

  private:
    std::vector<ggml_backend_t> cpus_;
};

// Becomes ggml.Cancelled in Python, or asr.Cancelled where the computation was one of asr.
class Cancelled : public std::exception {};

}  // namespace ggmlpy
