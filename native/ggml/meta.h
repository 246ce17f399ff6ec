// The meta device: one device made of several, tensors split between them by a Python function.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "ggml/busy.h"
#include "ggml/context.h"
#include "ggml/device.h"
#include "ggml/guard.h"
#include "ggml/internal.h"

namespace ggmlpy {

// `split_fn(info, n_devices)` is called for every tensor that is given memory on the device (weights,
// inputs).
Device meta_device(std::vector<Device> devices, pybind11::object split_fn);

// Under the GIL, after a call into ggml that may have asked a split_fn: raises what it raised.
void raise_split_error();

// Runs an action of ggml that may ask a split_fn, and raises what that raised, after `undo` where the action
// itself went well.
template <typename Action, typename Undo>
void asking_splits(Action&& action, Undo&& undo) {
    try {
        action();
    } catch (const GgmlFailure&) {
        raise_split_error();
        throw;
    }
    try {
        raise_split_error();
    } catch (...) {
        undo();
        throw;
    }
}
template <typename Action>
void asking_splits(Action&& action) {
    asking_splits(std::forward<Action>(action), [] {});
}

// The same for reading or writing a tensor, which stays where it is meanwhile.
template <typename Action>
void asking_splits(const Tensor& tensor, Action&& action) {
    const ggml_tensor* t = tensor.get();
    if (!ggml_backend_buffer_is_meta(t->view_src != nullptr ? t->view_src->buffer : t->buffer))
        return action();
    const Busy busy(tensor.context(), Busy::With::memory);
    asking_splits(std::forward<Action>(action));
}

}  // namespace ggmlpy
