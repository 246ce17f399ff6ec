#include "ggml/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#endif

namespace py = pybind11;

namespace ggmlpy {
namespace {

std::atomic<bool> exiting{false};
std::atomic<int> waiting{0};
std::atomic<int> parked{0};
std::atomic<unsigned long> main_thread{0};

// Runs first of all that Python does to exit, on the main thread, with the GIL.
void begin_exit() {
    exiting = true;
    PyThreadState* state = PyEval_SaveThread();
    while (waiting > 0) std::this_thread::yield();
    PyEval_RestoreThread(state);
}

}  // namespace

void watch_interpreter_exit() {
    const auto threading = py::module_::import("threading");
    main_thread = threading.attr("main_thread")().attr("ident").cast<unsigned long>();
    py::module_::import("atexit").attr("register")(py::cpp_function(begin_exit));
#ifndef _WIN32
    // Those who waited do not exist in the child, whose one thread is its main thread.
    pthread_atfork(nullptr, nullptr, [] {
        waiting = parked = 0;
        main_thread = PyThread_get_thread_ident();
    });
#endif
}

int& releases() {
    static thread_local int count = 0;
    return count;
}

bool threads_are_parked() { return parked > 0; }

GilWait::GilWait() {
    ++waiting;
    if (!exiting || PyThread_get_thread_ident() == main_thread) return;
    --waiting;
    ++parked;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

GilWait::~GilWait() { --waiting; }

}  // namespace ggmlpy
