// Blocks of 32 values that share a scale: those of q8_0 weights, and frames rounded to meet them.
#pragma once

#include "asr/kernels/integers.h"

namespace asr::ASR_SET {

inline constexpr int kBlock = 32;                    // values that share a scale
inline constexpr std::int64_t kStored = kBlock + 2;  // bytes of ggml's q8_0 block: a half, and 32 values

inline constexpr int kFew = 3;  // frames that are multiplied row by row (linear_integer_few)

// 32 features to integers. What is not finite makes the scale NaN, and so every result of the frame.
inline float round_block(const float* x, Feature* to) {
    constexpr std::int32_t infinity = 0x7F800000;
    Integers most = {};
    for (int i = 0; i < kBlock; i += kWidth) {
        // As integers, NaN is larger than infinity, and that than other numbers.
        const Integers size = bits(load(x + i)) & 0x7FFFFFFF;
        most = most > size ? most : size;
    }
    const std::int32_t top = largest(most);
    float largest_size;
    std::memcpy(&largest_size, &top, sizeof(top));
    // Smaller ones would have no reciprocal.
    const float inverse = largest_size > 1e-30F && top < infinity ? 127.0F / largest_size : 0.0F;
    for (int i = 0; i < kBlock; i += kWidth)
        store_rounded(to + i, inverse > 0 ? load(x + i) * inverse : Vector{});
    return top < infinity ? largest_size * (1.0F / 127.0F) : __builtin_nanf("");
}

}  // namespace asr::ASR_SET
