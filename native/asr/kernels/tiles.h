// The register tiles of the products, and rounding to them.
#pragma once

#include "asr/kernels/simd.h"

namespace asr::ASR_SET {

// Sums that stay in registers: rows (of weights, or queries) by vectors (of frames, keys or features).
inline constexpr int kRows = kRegisters == 32 && kWidth == 16 ? 12 : 6;
inline constexpr int kVectors = kRegisters == 32 && kWidth == 4 ? 4 : 2;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t greater(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
inline std::int64_t round_down(std::int64_t n, std::int64_t to) { return n / to * to; }
inline std::int64_t round_up(std::int64_t n, std::int64_t to) { return round_down(n + to - 1, to); }

// n features of four rows: to[feature * stride + row].
inline void interleave(const float* const rows[4], std::int64_t n, float* to, std::int64_t stride) {
    std::int64_t k = 0;
    for (; k + 4 <= n; k += 4) {
        Four f[4];
        for (int i = 0; i < 4; ++i) f[i] = load4(rows[i] + k);
        transpose(f[0], f[1], f[2], f[3]);
        for (int i = 0; i < 4; ++i) store4(to + (k + i) * stride, f[i]);
    }
    for (; k < n; ++k) {
        for (int i = 0; i < 4; ++i) to[k * stride + i] = rows[i][k];
    }
}

}  // namespace asr::ASR_SET
