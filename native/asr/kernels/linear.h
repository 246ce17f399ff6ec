// What the products of linear layers share: which rows are a thread's, and what comes before and after.
#pragma once

#include "asr/kernels/kernels.h"
#include "asr/kernels/norm.h"
#include "asr/kernels/simd.h"
#include "asr/kernels/tiles.h"

namespace asr::ASR_SET {

// The rows of results that a thread makes: `rows` of them from `row` on, of one part. When gated, the gate of
// each is computed beside it.
struct Rows {
    int part;
    std::int64_t row, rows;
};

// How many results a part has.
inline std::int64_t results(const Linear& op) {
    return op.activation == Activation::gated ? op.n_out / 2 : op.n_out;
}

inline bool all_q8_0(const Linear& op) {
    bool all = true;
    for (int p = 0; p < op.n_parts; ++p) all = all && op.parts[p].is_q8_0;
    return all;
}

// The part of the results that thread ith computes, in units of `unit` rows.
template <typename Body>
void my_rows(const Linear& op, int ith, int nth, std::int64_t unit, std::int64_t most, Body&& body) {
    const std::int64_t per_part = (results(op) + unit - 1) / unit, units = per_part * op.n_parts;
    std::int64_t at = units * ith / nth;
    const std::int64_t end = units * (ith + 1) / nth;
    while (at < end) {
        const int part = static_cast<int>(at / per_part);
        const std::int64_t first = at % per_part;
        const std::int64_t n = smaller(smaller(most / unit, end - at), per_part - first);
        const std::int64_t row = first * unit;
        body(Rows{part, row, smaller(n * unit, results(op) - row)});
        at += n;
    }
}

// A frame as the product takes it: itself, or its norm in `room`.
inline const float* frame(const Linear& op, std::int64_t t, float* room) {
    const float* x = op.x + t * op.x_stride;
    if (op.norm.weight == nullptr) return x;
    normalise(x, op.n_in, op.norm, room);
    return room;
}

inline Vector activate(const Linear& op, Vector v) {
    if (op.activation == Activation::silu) return silu(v);
    if (op.activation == Activation::relu) return larger(Vector{}, v);
    return v;
}

}  // namespace asr::ASR_SET
