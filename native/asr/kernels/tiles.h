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

// How the columns of a product lie: vectors of them `vector` apart, their features `feature` apart.
struct Columns {
    const float* first;
    std::int64_t vector, feature;
};

// sums[row][column] (+)= rows[row][k] * columns[k][column] for Rows rows and Vectors vectors of columns; from
// 0 when `fresh`. Inlined, so that strides that are constants stay constants.
template <int Rows, int Vectors>
[[gnu::always_inline]] inline void multiply(const float* rows, std::int64_t row_stride,
                                            const Columns& columns, std::int64_t depth, float* sums,
                                            std::int64_t stride, bool fresh) {
    Vector s[Rows][Vectors];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) s[r][v] = fresh ? Vector{} : load(sums + r * stride + v * kWidth);
    }
    for (std::int64_t k = 0; k < depth; ++k) {
        Vector x[Vectors];
        for (int v = 0; v < Vectors; ++v)
            x[v] = load(columns.first + v * columns.vector + k * columns.feature);
        for (int r = 0; r < Rows; ++r) {
            const float w = rows[r * row_stride + k];
            for (int v = 0; v < Vectors; ++v) s[r][v] += w * x[v];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < Vectors; ++v) store(sums + r * stride + v * kWidth, s[r][v]);
    }
}

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
