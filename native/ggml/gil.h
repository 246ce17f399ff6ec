// Letting go of the GIL and taking it, also while the interpreter is on its way out.
//
// Once Python is finalising, a thread other than the main one that asks for the GIL is ended inside Python,
// which C++ frames do not survive. From the beginning of the exit on such a thread therefore waits here for
// the end of the process, as Python itself has it from 3.14 on.
#pragma once

#include <pybind11/pybind11.h>

namespace ggmlpy {

// Prepares for the interpreter's exit; called when a module is imported.
void watch_interpreter_exit();

// Has the interpreter begun to exit, and does a thread wait for the end of the process, with all that it has
// locked?
bool threads_are_parked();

// While it lives this thread may wait for the GIL. Its constructor does not return, outside the main thread,
// once the interpreter has begun to exit; the exit waits until those who came before have the GIL.
class GilWait {
  public:
    GilWait();
    ~GilWait();
    GilWait(const GilWait&) = delete;
    GilWait& operator=(const GilWait&) = delete;
};

// How many GilRelease this thread is within. Python itself says that any thread has the GIL once it is gone.
int& releases();

class GilRelease {
  public:
    GilRelease() : state_(PyEval_SaveThread()) { ++releases(); }
    ~GilRelease() {
        const GilWait wait;
        PyEval_RestoreThread(state_);
        --releases();
    }
    GilRelease(const GilRelease&) = delete;
    GilRelease& operator=(const GilRelease&) = delete;

  private:
    PyThreadState* state_;
};

class GilAcquire {
  public:
    GilAcquire() : releases_(releases()) {
        if (releases_ == 0 && PyGILState_Check() != 0) {  // has it already, and must not sleep with it
            state_ = PyGILState_Ensure();
            return;
        }
        const GilWait wait;
        state_ = PyGILState_Ensure();
        releases() = 0;
    }
    ~GilAcquire() {
        PyGILState_Release(state_);
        releases() = releases_;
    }
    GilAcquire(const GilAcquire&) = delete;
    GilAcquire& operator=(const GilAcquire&) = delete;

  private:
    int releases_;
    PyGILState_STATE state_;
};

}  // namespace ggmlpy
