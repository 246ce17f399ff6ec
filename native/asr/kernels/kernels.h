// The kernels that the CPU computes a FastConformer with, and what each takes.
//
// There are several sets of them, of the same results up to rounding: "reference" (plain loops in double
// precision, for tests and for processors that have no other set) and one for each instruction set that the
// kernels were compiled for. All are called by ggml's threads as custom operators: thread `ith` of `nth` does
// its part, and no result depends on `nth`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace asr {

enum class Activation : std::uint8_t { none, relu, silu, gated };

// Unpacks n values of a row of weights to float32.
using Unpack = void (*)(const void* row, float* to, std::int64_t n);

// The weight and bias of a layer norm, [n] each; a weight of nullptr is no norm.
struct Norm {
    const float* weight;
    const float* bias;
    float eps;
};

struct LayerNorm {
    std::int64_t n, n_frames;
    const float* x;  // [n_frames, n], x_stride apart
    std::int64_t x_stride;
    Norm norm;
    float* y;  // [n_frames, n]
};

// y = residual + scale * activation(norm(x) W^T + bias) for each frame.
struct Linear {
    std::int64_t n_in, n_out, n_frames;  // n_out rows of weights in each part
    const float* x;                      // [n_frames, n_in], x_stride apart
    std::int64_t x_stride;
    struct Part {
        const char* weight;  // n_out rows of n_in values
        std::int64_t row_bytes;
        bool is_q8_0;
        Unpack unpack;      // nullptr: the row is float32
        const float* bias;  // [n_out] or nullptr
    };
    Part parts[3];  // their results lie side by side
    int n_parts;
    Norm norm;              // of x, [n_in]
    Activation activation;  // gated: the first half of the rows times the sigmoid of the second
    float scale;
    const float* residual;  // [n_frames, width of y], or nullptr
    std::int64_t residual_stride;
    float* y;  // [n_frames, n_parts * n_out], or half of that when gated
    std::int64_t y_stride;
};

struct Kernels {
    const char* name;
    void (*linear)(const Linear& op, int ith, int nth);
    void (*layer_norm)(const LayerNorm& op, int ith, int nth);
};

// The sets that this processor can run, the best first, "reference" last.
const std::vector<const Kernels*>& kernel_sets();
// The set in use: the best, or the one chosen by use_kernels (for tests), which throws std::invalid_argument
// when there is no such set.
const Kernels& kernels();
void use_kernels(const std::string& name);

// Memory for a kernel's own use on this thread, at least `floats` of them, aligned to 64 bytes. The next call
// on the thread may move it.
float* scratch(std::size_t floats);

}  // namespace asr
