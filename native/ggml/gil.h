// Letting go of the GIL and taking it, also while the interpreter is on its way out.
#pragma once

#include <pybind11/pybind11.h>

namespace ggmlpy {

// Once the interpreter is finalising, a thread other than the main one that asks for the GIL is ended inside
// Python, which C++ frames with noexcept destructors do not survive. Such a thread waits here for the end of
// the process instead, as Python itself does from 3.14 on.
void wait_if_finalizing();

// Remembers which thread is the main one; called when a module is imported.
void remember_main_thread();

class GilRelease {
  public:
    GilRelease() : state_(PyEval_SaveThread()) {}
    ~GilRelease() {
        wait_if_finalizing();
        PyEval_RestoreThread(state_);
    }
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

  private:
    PyThreadState* state_;
};

class GilAcquire {
  public:
    GilAcquire() : state_((wait_if_finalizing(), PyGILState_Ensure())) {}
    ~GilAcquire() { PyGILState_Release(state_); }
    GilAcquire(const GilAcquire&) = delete;
    GilAcquire& operator=(const GilAcquire&) = delete;

  private:
    PyGILState_STATE state_;
};

}  // namespace ggmlpy
