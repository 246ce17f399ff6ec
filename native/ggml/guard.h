// ggml answers a failed GGML_ASSERT by aborting the process. Under a Guard it throws instead.
#pragma once

#include <stdexcept>
#include <string>

#include "ggml.h"

namespace ggmlpy {

// Becomes ggml.GgmlError in Python.
class GgmlFailure : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Becomes ggml.UnsupportedError in Python: the device or backend does not have what was asked for.
class Unsupported : public GgmlFailure {
    using GgmlFailure::GgmlFailure;
};

// Becomes ggml.OutOfMemoryError in Python.
class OutOfMemory : public GgmlFailure {
    using GgmlFailure::GgmlFailure;
};

// ggml's graph allocator did not get a buffer, and is in order otherwise.
class NoGraphBuffer : public OutOfMemory {
  public:
    NoGraphBuffer() : OutOfMemory("out of memory for the graph's tensors") {}
};

// While a Guard lives on this thread, an assertion that fails inside ggml on this thread throws GgmlFailure.
// It cannot help on ggml's worker threads, nor against a wild pointer: those are closed off by checks made
// before ggml is called.
//
// Where the GIL is held, the end of the outermost Guard hands ggml's messages to Python's logging, which may
// run anything. So a Guard comes before (and goes after) locks, and before a release of the GIL.
class Guard {
  public:
    Guard();
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    // While it lives, a buffer that ggml cannot get for a graph throws NoGraphBuffer at once, on this thread.
    class AllocationsThrow {
      public:
        AllocationsThrow();
        ~AllocationsThrow();
        AllocationsThrow(const AllocationsThrow&) = delete;
        AllocationsThrow& operator=(const AllocationsThrow&) = delete;
    };

    // What ggml logged on this thread since the outermost Guard began (gguf says there what it refused).
    static std::string log();
    // Called with each message that ggml logs.
    static void collect(ggml_log_level level, const char* text);
};

// Called once by each extension module. Several modules may do so: each passes on what is not its own.
void install_abort_handler();

// `hook` is called at the end of every outermost Guard from now on.
void set_guard_end(void (*hook)() noexcept);

}  // namespace ggmlpy
