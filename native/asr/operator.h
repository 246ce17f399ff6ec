// What every operator does: check its tensors, add a node to the graph, find the tensors again when it runs.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "ggml/checks.h"
#include "ggml/context.h"
#include "ggml/guard.h"

namespace asr {

using ggmlpy::Context;
using ggmlpy::ContextPtr;
using ggmlpy::GgmlFailure;
using ggmlpy::Tensor;

// Options of an operator travel in the node's one pointer for its user: nothing is allocated for them.
template <typename Options>
void* to_userdata(const Options& options) {
    static_assert(sizeof(Options) <= sizeof(void*));
    void* out = nullptr;
    std::memcpy(&out, &options, sizeof(options));
    return out;
}

template <typename Options>
Options from_userdata(void* userdata) {
    Options options;
    std::memcpy(&options, &userdata, sizeof(options));
    return options;
}

// Options that are too large for that travel in the node's parameters, behind those of ggml's custom operator
// (two pointers and an int), which leave room for 32 bytes.
inline constexpr std::size_t kOptionsOffset = 32;

template <typename Options>
void set_options(ggml_tensor* node, const Options& options) {
    static_assert(sizeof(Options) <= GGML_MAX_OP_PARAMS - kOptionsOffset);
    std::memcpy(reinterpret_cast<char*>(node->op_params) + kOptionsOffset, &options, sizeof(options));
}

template <typename Options>
Options get_options(const ggml_tensor* node) {
    Options options;
    std::memcpy(&options, reinterpret_cast<const char*>(node->op_params) + kOptionsOffset, sizeof(options));
    return options;
}

// Throws unless `holds`. What to say is text, or a function that makes it: a graph is built for every
// utterance, and nothing is wrong with most.
template <typename What>
void require(bool holds, const char* op, const What& what) {
    if (holds) return;
    if constexpr (std::is_invocable_v<What>) {
        throw GgmlFailure(std::string(op) + ": " + what());
    } else {
        throw GgmlFailure(std::string(op) + ": " + what);
    }
}

// A float32 tensor whose rows are contiguous.
inline void require_rows(const ggml_tensor* t, const char* op, const char* name) {
    require(ggmlpy::is_f32(t) && ggmlpy::dense(t), op, [&] {
        return std::string(name) + " " + ggmlpy::describe(t) + " must be float32 with contiguous rows";
    });
}

// A contiguous float32 tensor of n values.
inline void require_vector(const ggml_tensor* t, std::int64_t n, const char* op, const char* name) {
    require(ggmlpy::is_f32(t) && ggmlpy::contiguous(t) && ggml_nelements(t) == n, op, [&] {
        return std::string(name) + " " + ggmlpy::describe(t) + " must be float32 of " + std::to_string(n) +
               " values";
    });
}

inline const float* floats(const ggml_tensor* t) { return static_cast<const float*>(t->data); }

// From one row of a tensor to the next, in floats.
inline std::int64_t row_stride(const ggml_tensor* t) {
    return static_cast<std::int64_t>(t->nb[1] / sizeof(float));
}

// The node that computes float32 [ne0, ne1, ne2] from `sources` with `compute` on all threads.
inline Tensor add_node(Context& context, std::initializer_list<std::int64_t> ne,
                       const std::vector<const Tensor*>& sources, ggml_custom_op_t compute, void* userdata) {
    std::int64_t size[4] = {1, 1, 1, 1};
    std::copy(ne.begin(), ne.end(), size);
    std::vector<ggml_tensor*> raw;
    for (const Tensor* t : sources) raw.push_back(context.use(*t));
    const ggmlpy::Guard guard;
    return context.wrap(ggml_custom_4d(context.arena(), GGML_TYPE_F32, size[0], size[1], size[2], size[3],
                                       raw.data(), static_cast<int>(raw.size()), compute, GGML_N_TASKS_MAX,
                                       userdata));
}

}  // namespace asr
