// The meta device: one device made of several, tensors split between them by a Python function.
#pragma once

#include <pybind11/pybind11.h>

#include "ggml/device.h"

namespace ggmlpy {

// `split_fn(info, n_devices)` is called for every tensor that is given memory on the device (weights,
// inputs).
Device meta_device(std::vector<Device> devices, pybind11::object split_fn);

// Under the GIL, after a call into ggml that may have asked a split_fn: raises what it raised.
void raise_split_error();

}  // namespace ggmlpy
