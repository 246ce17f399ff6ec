// The meta device: one device made of several, tensors split between them by a Python function.
#pragma once

#include <pybind11/pybind11.h>

#include "ggml/device.h"
#include "ggml/guard.h"

namespace ggmlpy {

// `split_fn(info, n_devices)` is called for every tensor that is given memory on the device (weights,
// inputs).
Device meta_device(std::vector<Device> devices, pybind11::object split_fn);

// Under the GIL, after a call into ggml that may have asked a split_fn: raises what it raised.
void raise_split_error();

// Runs an action of ggml that may ask a split_fn, and raises what that raised.
template <typename Action>
void asking_splits(Action&& action) {
    try {
        action();
    } catch (const GgmlFailure&) {
        raise_split_error();
        throw;
    }
    raise_split_error();
}

}  // namespace ggmlpy
