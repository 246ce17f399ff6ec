// ggml's messages on their way to Python's logging.
//
// ggml logs from any thread, with the GIL or without it, and with locks of its own held. Taking the GIL
// there, or running a logging handler (which may let go of it), can end in a deadlock. So the callback only
// queues the message, and the end of the next Guard on a thread that holds the GIL hands the queue over: that
// is a point where a caller of this package would expect it to log.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <mutex>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "ggml/bind.h"
#include "ggml/internal.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

constexpr std::size_t kCapacity = 1000;        // messages that wait
constexpr std::size_t kLongestLine = 1 << 16;  // bytes

struct Message {
    ggml_log_level level;
    double time;  // seconds since the epoch
    unsigned long thread;
    std::string text;
};

// CONT is only ever a part of another message; NONE is how ggml marks plain output.
int severity(const Message& m) { return m.level == GGML_LOG_LEVEL_NONE ? GGML_LOG_LEVEL_INFO : m.level; }

class Queue {
  public:
    void push(Message message) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (messages_.size() >= kCapacity) {
            ++dropped_;
            const auto less = [](const Message& a, const Message& b) { return severity(a) < severity(b); };
            const auto victim = std::min_element(messages_.begin(), messages_.end(), less);
            if (severity(message) < severity(*victim)) return;
            messages_.erase(victim);
        }
        messages_.push_back(std::move(message));
        waiting_.store(true, std::memory_order_release);
    }

    std::deque<Message> take(std::size_t& dropped) {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::deque<Message> out;
        out.swap(messages_);
        dropped = dropped_;
        dropped_ = 0;
        waiting_.store(false, std::memory_order_release);
        return out;
    }

    bool waiting() const { return waiting_.load(std::memory_order_acquire); }
    void stop() { stopped_.store(true, std::memory_order_release); }
    bool stopped() const { return stopped_.load(std::memory_order_acquire); }

    // Around a fork, so that the child does not inherit a lock that nobody there will release.
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void forget_and_unlock() {  // the parent delivers what it had
        messages_.clear();
        dropped_ = 0;
        waiting_.store(false, std::memory_order_release);
        mutex_.unlock();
    }

  private:
    std::mutex mutex_;
    std::deque<Message> messages_;
    std::size_t dropped_ = 0;
    std::atomic<bool> waiting_{false};
    std::atomic<bool> stopped_{false};
};

// Never destroyed: threads and other libraries log until the very end.
Queue& queue() {
    static Queue& only = *new Queue;
    return only;
}

thread_local bool line_gone = false;

// The line that this thread is writing: ggml logs it in parts.
class Line {
  public:
    ~Line() {
        finish();
        line_gone = true;
    }

    void add(ggml_log_level level, const char* text) {
        if (level != GGML_LOG_LEVEL_CONT) {
            finish();
            level_ = level;
        }
        if (text_.empty()) {
            time_ =
                std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
        }
        text_ += text;
        if ((!text_.empty() && text_.back() == '\n') || text_.size() > kLongestLine) finish();
    }

    void finish() noexcept {
        if (text_.empty()) return;
        try {
            text_.erase(text_.find_last_not_of(" \t\r\n") + 1);
            if (!text_.empty()) queue().push({level_, time_, PyThread_get_thread_ident(), std::move(text_)});
        } catch (const std::bad_alloc&) {  // a message less is better than none of the process
        }
        text_.clear();
    }

  private:
    ggml_log_level level_ = GGML_LOG_LEVEL_INFO;
    double time_ = 0;
    std::string text_;
};

thread_local Line line;

void on_log(ggml_log_level level, const char* text, void*) {
    try {
        Guard::collect(level, text);
        if (!line_gone && !queue().stopped()) {
            line.add(level, text);
        } else if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) {
            std::fputs(text, stderr);  // Python is gone
        }
    } catch (const std::bad_alloc&) {
    }
}

PyObject* receiver = nullptr;  // ggml._log.deliver, never let go of
thread_local bool delivering = false;

// Under the GIL. What handlers do to make ggml log again waits for the next time.
void deliver() noexcept {
    if (receiver == nullptr || delivering) return;
    delivering = true;
    const py::error_scope keep;
    try {
        std::size_t dropped = 0;
        py::list messages;
        for (const Message& m : queue().take(dropped)) {
            messages.append(py::make_tuple(severity(m), m.time, m.thread, text(m.text.c_str(), "replace")));
        }
        py::reinterpret_borrow<py::object>(receiver)(messages, dropped);
    } catch (py::error_already_set& error) {
        // A Ctrl-C that came while a handler ran cannot be raised from here: let it come again.
        if (error.matches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterrupt();
        } else {
            error.discard_as_unraisable("the delivery of ggml's log messages");
        }
    } catch (const std::exception&) {
    }
    delivering = false;
}

void at_guard_end() noexcept {
    if (line_gone || queue().stopped()) return;
    line.finish();
    if (queue().waiting() && PyGILState_Check() == 1) deliver();
}

void start(const py::function& function) {
    if (receiver != nullptr) throw std::runtime_error("ggml's messages are being delivered already");
    receiver = py::object(function).release().ptr();
}

void stop() {
    line.finish();
    deliver();
    queue().stop();
}

}  // namespace

void bind_log(py::module_& m) {
    queue();
    ggml_log_set(on_log, nullptr);
    set_guard_end(at_guard_end);
#ifndef _WIN32
    // ggml's own lock too, under which it makes tables and counts contexts.
    pthread_atfork(
        [] {
            ggml_critical_section_start();
            queue().lock();
        },
        [] {
            queue().unlock();
            ggml_critical_section_end();
        },
        [] {
            queue().forget_and_unlock();
            ggml_critical_section_end();
        });
#endif
    m.def("start_log", start, py::arg("receiver"),
          "Hand ggml's messages, (level, time, thread, text) each, and how many were lost to `receiver`.");
    m.def("stop_log", stop, "Hand over what is left; from then on warnings and errors go to standard error.");
}

}  // namespace ggmlpy
