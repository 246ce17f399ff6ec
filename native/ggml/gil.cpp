#include "ggml/gil.h"

#include <chrono>
#include <thread>

namespace ggmlpy {
namespace {

unsigned long main_thread = 0;

bool finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

void remember_main_thread() {
    main_thread =
        pybind11::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
}

void wait_if_finalizing() {
    if (!finalizing() || PyThread_get_thread_ident() == main_thread) return;
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace ggmlpy
