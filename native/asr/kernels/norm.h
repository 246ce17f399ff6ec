// Layer norm of one frame.
#pragma once

#include "asr/kernels/kernels.h"
#include "asr/kernels/simd.h"

namespace asr::ASR_SET {

inline void normalise(const float* x, std::int64_t n, const Norm& norm, float* to) {
    const std::int64_t whole = n - n % kWidth;
    Vector total = {};
    for (std::int64_t i = 0; i < whole; i += kWidth) total += load(x + i);
    float mean = sum(total);
    for (std::int64_t i = whole; i < n; ++i) mean += x[i];
    mean /= static_cast<float>(n);
    Vector squares = {};
    for (std::int64_t i = 0; i < whole; i += kWidth) {
        const Vector d = load(x + i) - mean;
        squares += d * d;
    }
    float variance = sum(squares);
    for (std::int64_t i = whole; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
    variance /= static_cast<float>(n);
    const float scale = 1.0F / __builtin_sqrtf(variance + norm.eps);
    for (std::int64_t i = 0; i < whole; i += kWidth) {
        store(to + i, (load(x + i) - mean) * scale * load(norm.weight + i) + load(norm.bias + i));
    }
    for (std::int64_t i = whole; i < n; ++i) to[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
}

}  // namespace asr::ASR_SET
