// The kernels that the CPU computes a FastConformer with, and what each takes.
//
// There are several sets of them, of the same results up to rounding: "reference" (plain loops in double
// precision, for tests and for processors that have no other set) and one for each instruction set that the
// kernels were compiled for. Those that have products of bytes round the frames that meet q8_0 weights to 8
// bits, as "reference_integer" does. All are called by ggml's threads as custom operators: thread `ith` of
// `nth` does its part, and no result depends on `nth`.
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

// Self-attention with relative positions. For each head, with its d_head columns of everything:
// score(i, j) = ((q_i + bias_u) k_j + (q_i + bias_v) p_(T-1-i+j)) / sqrt(d_head), and y_i is the sum of v_j
// weighted by the softmax of the scores over the keys j that query i may see.
struct RelativeAttention {
    std::int64_t n_queries, n_keys, n_heads, d_head;  // d = n_heads * d_head
    std::int64_t first;                               // the frame of the first query; keys begin at frame 0
    const float *q, *k, *v;                           // [n_queries, d], [n_keys, d]
    std::int64_t q_stride, k_stride, v_stride;
    // [p_rows, d], p_stride apart: row r is the distance p_zero - r from a query back to a key. There is one
    // for each distance between a query and a key that it sees.
    const float* p;
    std::int64_t p_stride, p_rows, p_zero;
    const float *bias_u, *bias_v;  // [d]
    // How many keys before and after its own a query sees, -1 for all. When chunked (and right is not -1), it
    // sees all of its chunk of right + 1 frames and left / (right + 1) chunks before it.
    std::int64_t left, right;
    bool chunked;
    float* y;  // [n_queries, d], y_stride apart
    std::int64_t y_stride;
};

// The keys [first, end) that a frame sees. Neither end ever falls from one frame to the next.
struct VisibleKeys {
    std::int64_t first, end;
};

inline VisibleKeys visible_keys(const RelativeAttention& op, std::int64_t frame) {
    std::int64_t first = 0, end = op.n_keys;
    if (op.chunked && op.right >= 0) {
        const std::int64_t size = op.right + 1, chunk = frame / size;
        if (op.left >= 0) first = (chunk - op.left / size) * size;
        end = (chunk + 1) * size;
    } else {
        if (op.left >= 0) first = frame - op.left;
        if (op.right >= 0) end = frame + op.right + 1;
    }
    return {first < 0 ? 0 : first, end > op.n_keys ? op.n_keys : end};
}

// A convolution of kernel 3 and stride 2 over time and frequency, with `pad` zeros before either: of one
// channel to n_channels followed by ReLU (first_convolution), or of each channel by itself
// (strided_depthwise).
struct StridedConvolution {
    std::int64_t n_frames, n_bands, out_frames, out_bands, n_channels, pad;
    const float* x;       // [n_frames, n_bands] or [n_frames, n_bands, n_channels]
    const float* kernel;  // [3 frames, 3 bands, n_channels]
    const float* bias;    // [n_channels] or nullptr
    float* y;             // [out_frames, out_bands, n_channels]
};

// y[t] = the sum over taps k of kernel[k] x[t - left + k], plus the bias, for each channel.
struct Depthwise {
    std::int64_t n_frames, n_channels, n_taps, left;
    const float* x;       // [n_frames, n_channels]
    const float* kernel;  // [n_taps, n_channels]
    const float* bias;    // [n_channels] or nullptr
    bool with_silu;
    float* y;  // [n_frames, n_channels]
};

struct Kernels {
    const char* name;
    const char* reference;  // the set that computes the same in plain loops
    void (*linear)(const Linear& op, int ith, int nth);
    void (*layer_norm)(const LayerNorm& op, int ith, int nth);
    void (*relative_attention)(const RelativeAttention& op, int ith, int nth);
    void (*first_convolution)(const StridedConvolution& op, int ith, int nth);
    void (*strided_depthwise)(const StridedConvolution& op, int ith, int nth);
    void (*depthwise)(const Depthwise& op, int ith, int nth);
};

// The sets that this processor can run, the best first, the two references last.
const std::vector<const Kernels*>& kernel_sets();
// The set of a name; throws std::invalid_argument when there is none.
const Kernels& kernel_set(const std::string& name);
// The set in use: the best, or the one chosen by use_kernels (for tests).
const Kernels& kernels();
void use_kernels(const std::string& name);

// Memory for a kernel's own use on this thread, at least `floats` of them, aligned to 64 bytes. The next call
// on the thread may move it. nullptr when there is none left: the kernel then computes nothing, since nothing
// can be thrown through ggml, and whoever ran the graph asks take_out_of_memory().
float* scratch(std::size_t floats) noexcept;

// Whether scratch() has failed on any thread since the last call.
bool take_out_of_memory() noexcept;

}  // namespace asr
