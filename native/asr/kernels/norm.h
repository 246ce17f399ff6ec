// Layer norm of one frame.
#pragma once

#include "asr/kernels/kernels.h"
#include "asr/kernels/simd.h"

namespace asr::ASR_SET {

// The sum of term(v) over x, a vector at a time and the last ones alone.
template <typename Term>
inline float total(const float* x, std::int64_t n, Term&& term) {
    Vector sums[4] = {};  // which need not wait for each other
    std::int64_t i = 0;
    for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
        for (int j = 0; j < 4; ++j) sums[j] += term(load(x + i + j * kWidth));
    }
    for (; i + kWidth <= n; i += kWidth) sums[0] += term(load(x + i));
    float out = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < n; ++i) out += term(x[i]);
    return out;
}

inline void normalise(const float* x, std::int64_t n, const Norm& norm, float* to) {
    const auto same = [](auto value) { return value; };
    const float mean = total(x, n, same) / static_cast<float>(n);
    const auto square = [mean](auto value) { return (value - mean) * (value - mean); };
    const float variance = total(x, n, square) / static_cast<float>(n);
    const std::int64_t whole = n - n % kWidth;
    const float scale = 1.0F / __builtin_sqrtf(variance + norm.eps);
    for (std::int64_t i = 0; i < whole; i += kWidth) {
        store(to + i, (load(x + i) - mean) * scale * load(norm.weight + i) + load(norm.bias + i));
    }
    for (std::int64_t i = whole; i < n; ++i) to[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
}

}  // namespace asr::ASR_SET
