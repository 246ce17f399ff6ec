#include "ggml/meta.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <unordered_map>
#include <utility>

#include "ggml/bind.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace py = pybind11;

namespace ggmlpy {
namespace {

using SplitState = ggml_backend_meta_split_state;

// One for each meta device. ggml caches devices by this address and never frees them, so neither is this.
struct Splitter {
    py::object function;
    std::size_t n_devices;
    // How each tensor was split when it was given memory: what ggml is told when the function later raises or
    // answers otherwise, since the memory is as it is.
    struct Answer {
        ggml_backend_buffer_t buffer;
        std::array<std::int64_t, GGML_MAX_DIMS> ne;
        SplitState state;
    };
    std::unordered_map<const ggml_tensor*, Answer> answers;
};

bool same_split(const SplitState& a, const SplitState& b, std::size_t n_devices) {
    if (a.axis != b.axis || a.n_segments != b.n_segments) return false;
    if (a.axis == GGML_BACKEND_SPLIT_AXIS_MIRRORED) return true;
    return std::equal(a.ne, a.ne + a.n_segments * n_devices, b.ne) &&
           std::equal(a.nr, a.nr + a.n_segments, b.nr);
}

// The first exception of a split function on this thread; ggml must be answered, so it is kept until the call
// that asked returns.
thread_local std::exception_ptr split_error;

SplitState mirrored() {
    SplitState state = {};
    state.axis = GGML_BACKEND_SPLIT_AXIS_MIRRORED;
    state.n_segments = 1;
    state.nr[0] = 1;
    return state;
}

py::dict describe_tensor(const ggml_tensor* t) {
    py::dict info;
    info["name"] = text(t->name);
    info["type"] = static_cast<int>(t->type);
    info["ne"] = py::make_tuple(t->ne[0], t->ne[1], t->ne[2], t->ne[3]);
    info["op"] = ggml_op_name(t->op);
    info["flags"] = t->flags;
    return info;
}

[[noreturn]] void bad_split(const ggml_tensor* t, const std::string& why) {
    throw py::value_error("split of tensor " + describe(t) + ": " + why);
}

// (axis, sizes, repeats): an axis of 0 to 3 with one size for each segment and device, segments outermost,
// and one repeat count for each segment; or MIRRORED without sizes.
SplitState parse_split(const ggml_tensor* t, const py::object& answer, std::size_t n_devices) {
    std::int64_t axis = 0;
    std::vector<std::int64_t> sizes;
    std::vector<std::uint32_t> repeats;
    try {
        std::tie(axis, sizes, repeats) =
            answer.cast<std::tuple<std::int64_t, std::vector<std::int64_t>, std::vector<std::uint32_t>>>();
    } catch (const py::cast_error&) {
        bad_split(t, "a number of it is negative or too large");
    }
    if (axis == GGML_BACKEND_SPLIT_AXIS_MIRRORED) {
        if (!sizes.empty()) bad_split(t, "a mirrored tensor has no sizes");
        return mirrored();
    }
    if (axis < 0 || axis >= GGML_MAX_DIMS)
        bad_split(t, "axis " + std::to_string(axis) + " is not 0 to 3 or MIRRORED");
    if (sizes.empty() || sizes.size() % n_devices != 0) {
        bad_split(t, std::to_string(sizes.size()) + " sizes for " + std::to_string(n_devices) + " devices");
    }
    const std::size_t n_segments = sizes.size() / n_devices;
    if (n_segments > 16) bad_split(t, "more than 16 segments");
    if (repeats.empty()) repeats.assign(n_segments, 1);
    if (repeats.size() != n_segments) bad_split(t, "one repeat count for each segment is needed");
    SplitState state = {};
    state.axis = static_cast<ggml_backend_meta_split_axis>(axis);
    state.n_segments = static_cast<std::uint32_t>(n_segments);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 0) bad_split(t, "a size is negative");
        if (axis == 0 && sizes[i] % ggml_blck_size(t->type) != 0)
            bad_split(t, "a size cuts a quantisation block");
        state.ne[i] = sizes[i];
        if (sizes[i] > t->ne[axis] || repeats[i / n_devices] > std::uint64_t(t->ne[axis]))
            bad_split(t, "a size or repeat count is larger than the axis");
        total += sizes[i] * repeats[i / n_devices];
        if (total > t->ne[axis]) break;
    }
    for (std::size_t s = 0; s < n_segments; ++s) {
        if (repeats[s] == 0) bad_split(t, "a repeat count is 0");
        state.nr[s] = repeats[s];
    }
    if (total != t->ne[axis]) {
        bad_split(t, "the sizes add up to " + std::to_string(total) + ", the axis has " +
                         std::to_string(t->ne[axis]));
    }
    return state;
}

SplitState split(const ggml_tensor* t, void* data) {
    auto* splitter = static_cast<Splitter*>(data);
    const ggmlpy::GilAcquire acquire;
    const std::array<std::int64_t, GGML_MAX_DIMS> ne{t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
    const auto found = splitter->answers.find(t);
    // A tensor without an address is about to be given memory.
    const bool known = t->data != nullptr && found != splitter->answers.end() &&
                       found->second.buffer == t->buffer && found->second.ne == ne;
    // Otherwise a function that makes ggml ask again would go on until the stack ends.
    static thread_local bool asking = false;
    if (asking) {
        if (!split_error) {
            split_error = std::make_exception_ptr(
                GgmlFailure("a split function cannot itself work on tensors of a meta device"));
        }
        return known ? found->second.state : mirrored();
    }
    asking = true;
    const std::unique_ptr<bool, void (*)(bool*)> done(&asking, [](bool* flag) { *flag = false; });
    try {
        const SplitState state =
            parse_split(t, splitter->function(describe_tensor(t), splitter->n_devices), splitter->n_devices);
        if (known && !same_split(state, found->second.state, splitter->n_devices))
            bad_split(t, "it is another one than when the tensor was given memory");
        if (!known) splitter->answers[t] = {t->buffer, ne, state};
        return state;
    } catch (...) {
        if (!split_error) split_error = std::current_exception();
        return known ? found->second.state : mirrored();
    }
}

}  // namespace

Device meta_device(std::vector<Device> devices, py::object split_fn) {
    if (devices.empty() || devices.size() > GGML_BACKEND_META_MAX_DEVICES) {
        throw py::value_error("a meta device is made of 1 to 16 devices, not " +
                              std::to_string(devices.size()));
    }
    std::vector<ggml_backend_dev_t> handles;
    for (const Device& device : devices) handles.push_back(device.get());
    auto* splitter = new Splitter{std::move(split_fn), handles.size(), {}};
    Guard guard;
    return Device(ggml_backend_meta_device(handles.data(), handles.size(), split, splitter),
                  std::move(devices));
}

void raise_split_error() {
    if (!split_error) return;
    const std::exception_ptr error = std::exchange(split_error, nullptr);
    std::rethrow_exception(error);
}

}  // namespace ggmlpy
