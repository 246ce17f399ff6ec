// Linear layers: a matrix product over weights of any type, with the layer norm in front and what follows.
//
// Weights are unpacked a block of rows at a time, straight from where they are stored. Frames are transposed
// into tiles, so that a vector holds the same feature of neighbouring frames; each output is one sum in the
// order of the features, whatever the number of threads.

#include "asr/kernels/linear.h"

#include "asr/kernels/set.h"

namespace asr::ASR_SET {
namespace {

constexpr std::int64_t kTile = kVectors * kWidth;  // frames in a tile
constexpr std::int64_t kDepth = 512;               // features at a time
constexpr std::int64_t kStride = kDepth + 16;      // not a power of two: cache sets
constexpr std::int64_t kBlock = 48;                // rows unpacked at a time
constexpr std::int64_t kFrames = 256;              // frames packed at a time
constexpr std::int64_t kFew = 6;                   // frames not worth a tile

static_assert(kBlock % kRows == 0 && kFrames % kTile == 0);

// Frames [first, first + count) into tiles: for each block of kDepth features, for each tile, [feature,
// frame].
void pack(const Linear& op, std::int64_t first, std::int64_t count, float* packed, float* room) {
    const std::int64_t n = op.n_in, padded = round_up(count, kTile);
    for (std::int64_t t = 0; t < padded; t += 4) {
        const float* rows[4];
        for (int i = 0; i < 4; ++i) {
            // What is computed for frames that are not there is thrown away.
            rows[i] = frame(op, first + smaller(t + i, count - 1), room + i * round_up(n, 16));
        }
        for (std::int64_t k0 = 0; k0 < n; k0 += kDepth) {
            const std::int64_t depth = smaller(kDepth, n - k0);
            float* to = packed + k0 * padded + (t / kTile * depth) * kTile + t % kTile;
            const float* parts[4] = {rows[0] + k0, rows[1] + k0, rows[2] + k0, rows[3] + k0};
            interleave(parts, depth, to, kTile);
        }
    }
}

// A block of ggml's q8_0: a scale and 32 values of 8 bits.
void unpack_q8_0(const char* blocks, float* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += 32, blocks += 34) {
        const float scale = load_half(blocks);
        for (int j = 0; j < 32; j += kWidth) store(to + i + j, load_bytes(blocks + 2 + j) * scale);
    }
}

// Values [k0, k0 + n) of a row; k0 is a multiple of kDepth.
void unpack_row(const Linear& op, const Linear::Part& part, std::int64_t row, std::int64_t k0, std::int64_t n,
                float* to) {
    const char* from = part.weight + row * part.row_bytes;
    if (part.unpack == nullptr) {
        std::memcpy(to, from + k0 * 4, static_cast<std::size_t>(n) * 4);
        return;
    }
    // Blocks of every type divide kDepth, and a row.
    from += part.row_bytes * k0 / op.n_in;
    if (part.is_q8_0) {
        unpack_q8_0(from, to, n);
    } else {
        part.unpack(from, to, n);
    }
}

void write(const Linear& op, std::int64_t frame, std::int64_t column, float value) {
    float y = value * op.scale;
    if (op.residual != nullptr) y += op.residual[frame * op.residual_stride + column];
    op.y[frame * op.y_stride + column] = y;
}

// [row, frame] in `sums` becomes [frame, row] in y, from frame `first` on.
void write(const Linear& op, const Rows& block, std::int64_t first, std::int64_t count, const float* sums,
           std::int64_t stride) {
    const std::int64_t column = block.part * results(op) + block.row;
    for (std::int64_t t = 0; t < count; t += 4) {
        const int here = static_cast<int>(smaller(4, count - t));
        std::int64_t r = 0;
        for (; r + 4 <= block.rows; r += 4) {
            Four f[4];
            for (int i = 0; i < 4; ++i) f[i] = load4(sums + (r + i) * stride + t);
            transpose(f[0], f[1], f[2], f[3]);
            for (int i = 0; i < here; ++i) {
                Four y = f[i] * op.scale;
                if (op.residual != nullptr)
                    y += load4(op.residual + (first + t + i) * op.residual_stride + column + r);
                store4(op.y + (first + t + i) * op.y_stride + column + r, y);
            }
        }
        for (; r < block.rows; ++r) {
            for (int i = 0; i < here; ++i) write(op, first + t + i, column + r, sums[r * stride + t + i]);
        }
    }
}

void finish(const Linear& op, const Rows& block, std::int64_t padded, float* sums, std::int64_t gates) {
    const float* bias = op.parts[block.part].bias;
    for (std::int64_t r = 0; r < block.rows; ++r) {
        float* row = sums + r * padded;
        const float own = bias != nullptr ? bias[block.row + r] : 0.0F;
        if (op.activation != Activation::gated) {
            for (std::int64_t t = 0; t < padded; t += kWidth)
                store(row + t, activate(op, load(row + t) + own));
            continue;
        }
        const float* gate = sums + (gates + r) * padded;
        const float gate_bias = bias != nullptr ? bias[results(op) + block.row + r] : 0.0F;
        for (std::int64_t t = 0; t < padded; t += kWidth) {
            store(row + t, (load(row + t) + own) * sigmoid(load(gate + t) + gate_bias));
        }
    }
}

// Sums of some rows over the packed frames. The rows that gate them are unpacked behind them, from `gates`
// on.
void product(const Linear& op, const Rows& block, const float* packed, std::int64_t count,
             std::int64_t padded, float* weights, float* sums, std::int64_t gates) {
    const Linear::Part& part = op.parts[block.part];
    const bool gated = op.activation == Activation::gated;
    const std::int64_t used = gated ? gates + block.rows : block.rows;
    for (std::int64_t k0 = 0; k0 < op.n_in; k0 += kDepth) {
        const std::int64_t depth = smaller(kDepth, op.n_in - k0);
        for (std::int64_t r = 0; r < block.rows; ++r) {
            unpack_row(op, part, block.row + r, k0, depth, weights + r * kStride);
            if (gated) {
                unpack_row(op, part, results(op) + block.row + r, k0, depth, weights + (gates + r) * kStride);
            }
        }
        for (std::int64_t t = 0; t < padded; t += kTile) {
            const Columns tile = {packed + k0 * padded + t * depth, kWidth, kTile};
            for (std::int64_t r = 0; r < used; r += kRows) {
                const float* rows = weights + r * kStride;
                float* to = sums + r * padded + t;
                // Few frames are left in the last tile.
                if (count - t <= kWidth) {
                    multiply<kRows, 1>(rows, kStride, tile, depth, to, padded, k0 == 0);
                } else {
                    multiply<kRows, kVectors>(rows, kStride, tile, depth, to, padded, k0 == 0);
                }
            }
        }
    }
}

// One to kFew frames: each row is unpacked and multiplied with all of them.
void few_frames(const Linear& op, int ith, int nth) {
    const std::int64_t n = op.n_in, width = round_up(n, 16), count = op.n_frames;
    float* memory = scratch(static_cast<std::size_t>((count + 1) * width));
    if (memory == nullptr) return;
    const float* x[kFew];
    for (std::int64_t t = 0; t < count; ++t) x[t] = frame(op, t, memory + t * width);
    float* room = memory + count * width;
    const auto dot = [&](const Linear::Part& part, std::int64_t row, float* out) {
        const float* w = room;
        if (part.unpack == nullptr) {
            w = reinterpret_cast<const float*>(part.weight + row * part.row_bytes);
        } else {
            unpack_row(op, part, row, 0, n, room);
        }
        for (std::int64_t t = 0; t < count; ++t) {
            Vector s[4] = {};
            std::int64_t k = 0;
            for (; k + 4 * kWidth <= n; k += 4 * kWidth) {
                for (int i = 0; i < 4; ++i) s[i] += load(w + k + i * kWidth) * load(x[t] + k + i * kWidth);
            }
            for (; k + kWidth <= n; k += kWidth) s[0] += load(w + k) * load(x[t] + k);
            float total = sum((s[0] + s[1]) + (s[2] + s[3]));
            for (; k < n; ++k) total += w[k] * x[t][k];
            out[t * kWidth] = total;
        }
    };
    row_by_row<kFew>(op, ith, nth, dot);
}

}  // namespace

void linear(const Linear& op, int ith, int nth) {
    if constexpr (kIntegers) {
        if (all_q8_0(op)) return linear_integer(op, ith, nth);
    }
    if (op.n_frames <= kFew) return few_frames(op, ith, nth);
    const bool gated = op.activation == Activation::gated;
    const std::int64_t gates = gated ? kBlock / 2 : 0;  // where the gates begin in a block
    for (std::int64_t first = 0; first < op.n_frames; first += kFrames) {
        const std::int64_t count = smaller(kFrames, op.n_frames - first), padded = round_up(count, kTile);
        float* packed = scratch(static_cast<std::size_t>(padded * op.n_in + kBlock * kStride +
                                                         kBlock * padded + 4 * round_up(op.n_in, 16)));
        if (packed == nullptr) return;
        float* weights = packed + padded * op.n_in;
        float* sums = weights + kBlock * kStride;
        pack(op, first, count, packed, sums + kBlock * padded);
        my_rows(op, ith, nth, kRows, gated ? kBlock / 2 : kBlock, [&](const Rows& block) {
            product(op, block, packed, count, padded, weights, sums, gates);
            finish(op, block, padded, sums, gates);
            write(op, block, first, count, sums, padded);
        });
    }
}

}  // namespace asr::ASR_SET
