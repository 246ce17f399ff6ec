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

// The results of n rows for a frame, from `row` of a part on, from their sums and, when gated, their gates'.
inline void finish(const Linear& op, int part, std::int64_t row, int n, std::int64_t frame, Vector sums,
                   Vector gates) {
    const float* bias = op.parts[part].bias;
    if (bias != nullptr) sums += load_some(bias + row, n);
    if (op.activation == Activation::gated) {
        if (bias != nullptr) gates += load_some(bias + results(op) + row, n);
        sums *= sigmoid(gates);
    }
    Vector y = activate(op, sums) * op.scale;
    const std::int64_t column = part * results(op) + row;
    if (op.residual != nullptr) y += load_some(op.residual + frame * op.residual_stride + column, n);
    store_some(op.y + frame * op.y_stride + column, y, n);
}

// A product of few frames, row by row: dot(part, row, out) stores the sums of frame t in out[t * kWidth].
template <int Frames, typename Dot>
void row_by_row(const Linear& op, int ith, int nth, Dot&& dot) {
    my_rows(op, ith, nth, 1, kWidth, [&](const Rows& block) {
        const Linear::Part& part = op.parts[block.part];
        float sums[Frames * kWidth] = {}, gates[Frames * kWidth] = {};
        for (std::int64_t r = 0; r < block.rows; ++r) {
            dot(part, block.row + r, sums + r);
            if (op.activation == Activation::gated) dot(part, results(op) + block.row + r, gates + r);
        }
        for (std::int64_t t = 0; t < op.n_frames; ++t) {
            finish(op, block.part, block.row, static_cast<int>(block.rows), t, load(sums + t * kWidth),
                   load(gates + t * kWidth));
        }
    });
}

}  // namespace asr::ASR_SET
