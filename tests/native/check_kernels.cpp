// Compares every set of kernels that this processor has with the plain loops, without ggml and without
// Python: for processors that are only emulated (scripts/check_kernels.sh). Prints the worst error of each
// kernel.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "asr/kernels/kernels.h"

namespace {

using Floats = std::vector<float>;
// Of the largest value, or of 0.1: in a small case all values can be the small differences of large ones.
constexpr double kTolerance = 1e-5;
// Where frames are rounded to 8 bits after a layer norm: one that differs in its last bit can round to the
// other neighbour.
constexpr double kRounded = 2e-2;

Floats normal(std::int64_t n) {
    static std::mt19937 random(1);
    std::normal_distribution<float> distribution;
    Floats out(static_cast<std::size_t>(n));
    for (float& value : out) value = distribution(random);
    return out;
}

struct Worst {
    double error = 0;
    bool threads_agree = true;
};

// `run(set, y, ith, nth)` computes a part of a result of n values.
using Run = std::function<void(const asr::Kernels&, float*, int, int)>;

Floats result(const asr::Kernels& set, std::int64_t n, const Run& run, int nth) {
    Floats y(static_cast<std::size_t>(n));
    for (int ith = 0; ith < nth; ++ith) run(set, y.data(), ith, nth);
    return y;
}

void compare(const asr::Kernels& set, std::int64_t n, const Run& run, Worst& worst) {
    const Floats expected = result(asr::kernel_set(set.reference), n, run, 1), got = result(set, n, run, 1);
    double most = 0.1, error = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        most = std::max(most, std::fabs(static_cast<double>(expected[i])));
        error = std::max(error, std::fabs(static_cast<double>(expected[i]) - got[i]));
    }
    worst.error = std::max(worst.error, std::isfinite(error) ? error / most : 1.0);
    for (int nth : {2, 3}) worst.threads_agree = worst.threads_agree && result(set, n, run, nth) == got;
}

// Rows of ggml's q8_0: a scale of half precision (here always 1/64) and 32 bytes a block.
std::vector<char> q8_0(std::int64_t rows, std::int64_t n) {
    std::vector<char> out;
    const Floats values = normal(rows * n);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % 32 == 0) {
            const std::uint16_t scale = 0x2400;
            const auto* bytes = reinterpret_cast<const char*>(&scale);
            out.insert(out.end(), bytes, bytes + 2);
        }
        out.push_back(static_cast<char>(std::lround(std::fmax(-127, std::fmin(127, values[i] * 40)))));
    }
    return out;
}

void unpack_q8_0(const void* row, float* to, std::int64_t n) {
    const auto* from = static_cast<const signed char*>(row);
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i / 32 * 34 + 2 + i % 32] / 64.0F;
}

Worst check_linear(const asr::Kernels& set, bool normed) {
    Worst worst;
    for (const std::int64_t frames : {1, 2, 5, 7, 13, 33, 70}) {
        for (const std::int64_t n_in : {32, 96, 544, 1056}) {
            for (const bool packed : {false, true}) {
                for (const auto activation : {asr::Activation::none, asr::Activation::relu,
                                              asr::Activation::silu, asr::Activation::gated}) {
                    const std::int64_t n_out = 74, width = activation == asr::Activation::gated ? 37 : 74;
                    const Floats x = normal(frames * n_in), bias = normal(n_out);
                    Floats w = normal(n_out * n_in);
                    for (float& value : w) value /= std::sqrt(static_cast<float>(n_in));
                    const Floats norm = normal(n_in), shift = normal(n_in), residual = normal(frames * width);
                    const std::vector<char> bytes = q8_0(n_out, n_in);
                    asr::Linear op = {};
                    op.n_in = n_in;
                    op.n_out = n_out;
                    op.n_frames = frames;
                    op.x = x.data();
                    op.x_stride = n_in;
                    op.n_parts = 1;
                    op.parts[0] = {packed ? bytes.data() : reinterpret_cast<const char*>(w.data()),
                                   packed ? n_in / 32 * 34 : n_in * 4, packed, packed ? unpack_q8_0 : nullptr,
                                   bias.data()};
                    if (normed) op.norm = {norm.data(), shift.data(), 1e-5F};
                    op.activation = activation;
                    op.scale = 0.5F;
                    op.residual = residual.data();
                    op.residual_stride = width;
                    op.y_stride = width;
                    compare(
                        set, frames * width,
                        [&op](const asr::Kernels& k, float* y, int ith, int nth) {
                            asr::Linear mine = op;
                            mine.y = y;
                            k.linear(mine, ith, nth);
                        },
                        worst);
                }
            }
        }
    }
    return worst;
}

Worst check_attention(const asr::Kernels& set) {
    Worst worst;
    for (const std::int64_t frames : {1, 2, 7, 33, 70}) {
        for (const std::int64_t d_head : {5, 16, 64}) {
            for (const auto& [left, right, chunked] :
                 {std::tuple{-1, -1, false}, std::tuple{10, 3, false}, std::tuple{14, 6, true}}) {
                const std::int64_t d = 2 * d_head;
                const Floats qkv = normal(frames * 3 * d), p = normal((2 * frames - 1) * d);
                const Floats u = normal(d), v = normal(d);
                asr::RelativeAttention op = {};
                op.n_queries = op.n_keys = frames;
                op.n_heads = 2;
                op.d_head = d_head;
                op.q = qkv.data();
                op.k = op.q + d;
                op.v = op.q + 2 * d;
                op.q_stride = op.k_stride = op.v_stride = 3 * d;
                op.p_rows = 2 * frames - 1;
                op.p_zero = frames - 1;
                op.p = p.data();
                op.p_stride = op.y_stride = d;
                op.bias_u = u.data();
                op.bias_v = v.data();
                op.left = left;
                op.right = right;
                op.chunked = chunked;
                compare(
                    set, frames * d,
                    [&op](const asr::Kernels& k, float* y, int ith, int nth) {
                        asr::RelativeAttention mine = op;
                        mine.y = y;
                        k.relative_attention(mine, ith, nth);
                    },
                    worst);
            }
        }
    }
    return worst;
}

Worst check_convolutions(const asr::Kernels& set) {
    Worst worst;
    for (const std::int64_t n : {1, 2, 3, 17}) {
        for (const std::int64_t channels : {1, 7, 40}) {
            for (const std::int64_t pad : {1, 2}) {
                const std::int64_t bands = n + 4;
                const auto halved = [pad](std::int64_t size) {
                    return pad == 2 ? size / 2 + 1 : (size - 1) / 2 + 1;
                };
                const Floats x = normal(n * bands * channels), kernel = normal(9 * channels),
                             bias = normal(channels);
                const asr::StridedConvolution op{n,   bands,    halved(n),     halved(bands), channels,
                                                 pad, x.data(), kernel.data(), bias.data(),   nullptr};
                for (const auto kernel_of :
                     {&asr::Kernels::first_convolution, &asr::Kernels::strided_depthwise}) {
                    compare(
                        set, op.out_frames * op.out_bands * channels,
                        [&](const asr::Kernels& k, float* y, int ith, int nth) {
                            asr::StridedConvolution mine = op;
                            mine.y = y;
                            (k.*kernel_of)(mine, ith, nth);
                        },
                        worst);
                }
                const asr::Depthwise deep{n,           channels, 9,      4, x.data(), kernel.data(),
                                          bias.data(), pad == 2, nullptr};
                compare(
                    set, n * channels,
                    [&](const asr::Kernels& k, float* y, int ith, int nth) {
                        asr::Depthwise mine = deep;
                        mine.y = y;
                        k.depthwise(mine, ith, nth);
                    },
                    worst);
            }
        }
    }
    return worst;
}

bool report(const char* set, const char* kernel, const Worst& worst, double tolerance = kTolerance) {
    const bool good = worst.error < tolerance && worst.threads_agree;
    std::printf("%-17s %-12s worst error %.1e%s%s\n", set, kernel, worst.error,
                worst.threads_agree ? "" : ", threads differ", good ? "" : "  FAILED");
    return good;
}

}  // namespace

int main() {
    bool good = true;
    for (const asr::Kernels* set : asr::kernel_sets()) {
        const bool rounds = std::strcmp(set->reference, "reference_integer") == 0;
        good = report(set->name, "linear", check_linear(*set, false)) && good;
        good = report(set->name, "norm, linear", check_linear(*set, true), rounds ? kRounded : kTolerance) &&
               good;
        good = report(set->name, "attention", check_attention(*set)) && good;
        good = report(set->name, "convolutions", check_convolutions(*set)) && good;
    }
    return good ? 0 : 1;
}
