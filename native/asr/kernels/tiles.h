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

}  // namespace asr::ASR_SET
