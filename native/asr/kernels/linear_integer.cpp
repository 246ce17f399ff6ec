// Linear layers over q8_0 weights in integers: frames are rounded to 8 bits, with a scale for each 32
// features, as the weights are; each 32 products are one sum of integers, and the sums are added in float32.
//
// Weights are interleaved a panel of rows at a time, so that a vector holds a few features of neighbouring
// rows; each output is one sum in the order of the features, whatever the number of threads or of frames.

#include "asr/kernels/blocks.h"
#include "asr/kernels/linear.h"
#include "asr/kernels/set.h"

namespace asr::ASR_SET {
namespace {

constexpr int kPanel = 2;                          // vectors of rows in a panel
constexpr int kOutputs = kPanel * kWidth;          // rows in a panel
constexpr int kFrames = kRegisters == 32 ? 6 : 3;  // frames in a tile
constexpr std::int64_t kPackedBytes = 768 * 1024;  // of frames packed at a time
constexpr int kGroups = kBlock / kGroup;

// Blocks of the frames of a tile.
struct FrameBlock {
    Feature x[kFrames][kBlock];
    float scale[kFrames];
};

// Blocks of the rows of a panel: `zero` is what a sum begins with, which takes kOffset out of it.
struct alignas(64) PanelBlock {
    Weight w[kGroups][kOutputs][kGroup];
    std::int32_t zero[kOutputs];
    std::uint16_t scale[kOutputs];  // of half precision
};

// Frames [first, first + count) into tiles of blocks.
void pack(const Linear& op, std::int64_t first, std::int64_t count, FrameBlock* packed, float* room) {
    const std::int64_t blocks = op.n_in / kBlock;
    for (std::int64_t t = 0; t < count; ++t) {
        const float* x = frame(op, first + t, room);
        FrameBlock* to = packed + t / kFrames * blocks;
        const std::int64_t i = t % kFrames;
        for (std::int64_t b = 0; b < blocks; ++b) to[b].scale[i] = round_block(x + b * kBlock, to[b].x[i]);
    }
}

// Rows into one vector of a panel: `at(r)` is where row r of kWidth begins.
template <typename At>
void pack_rows(std::int64_t blocks, int vector, PanelBlock* panel, At&& at) {
    Feature group[kGroup];
    for (Feature& value : group) value = kOffset;
    const Integers offset = broadcast_group(group);
    for (std::int64_t b = 0; b < blocks; ++b) {
        PanelBlock& to = panel[b];
        const std::int64_t place = b * kStored;
        for (int r = 0; r < kWidth; ++r) {
            std::memcpy(&to.scale[vector * kWidth + r], at(r) + place, sizeof(to.scale[0]));
        }
        Integers zero = {};
        for (int half = 0; half < 2; ++half) {
            const std::int64_t values = place + 2 + half * 16;
            Integers w[4];
            for (int r = 0; r < 4; ++r) w[r] = load_rows([&](int i) { return at(4 * i + r) + values; });
            transpose(w[0], w[1], w[2], w[3]);
            for (int q = 0; q < 4; ++q) {
                constexpr std::int64_t stride = kOutputs * kGroup;
                store_groups(to.w[(half * 4 + q) * 4 / kGroup][vector * kWidth], stride, w[q]);
                if constexpr (kOffset != 0) zero = dot(zero, offset, w[q]);
            }
        }
        store(to.zero + vector * kWidth, -zero);
    }
}

void pack_rows(const Linear& op, const Rows& rows, int vector, PanelBlock* panel) {
    const Linear::Part& part = op.parts[rows.part];
    const char* first = part.weight + rows.row * part.row_bytes;
    if (rows.rows >= kWidth) {
        // Few addresses, each of which serves every fourth row.
        const std::int64_t four = 4 * part.row_bytes;
        const char* const from[4] = {first, first + part.row_bytes, first + 2 * part.row_bytes,
                                     first + 3 * part.row_bytes};
        pack_rows(op.n_in / kBlock, vector, panel, [&](int r) { return from[r % 4] + r / 4 * four; });
    } else {
        // Behind the last row, copies of it.
        pack_rows(op.n_in / kBlock, vector, panel,
                  [&](int r) { return first + smaller(r, rows.rows - 1) * part.row_bytes; });
    }
}

// Sums of the rows of a panel over `Frames` frames.
template <int Frames>
[[gnu::always_inline]] inline void multiply(const PanelBlock* panel, const FrameBlock* frames,
                                            std::int64_t blocks, Vector (&s)[Frames][kPanel]) {
    for (int f = 0; f < Frames; ++f) {
        for (int v = 0; v < kPanel; ++v) s[f][v] = Vector{};
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
        const PanelBlock& weights = panel[b];
        const FrameBlock& block = frames[b];
        Integers i[Frames][kPanel];
        for (int v = 0; v < kPanel; ++v) {
            const Integers zero = load(weights.zero + v * kWidth);
            for (int f = 0; f < Frames; ++f) i[f][v] = zero;
        }
        for (int g = 0; g < kGroups; ++g) {
            Integers w[kPanel];
            for (int v = 0; v < kPanel; ++v) std::memcpy(&w[v], weights.w[g][v * kWidth], sizeof(w[v]));
            for (int f = 0; f < Frames; ++f) {
                const Integers x = broadcast_group(block.x[f] + kGroup * g);
                for (int v = 0; v < kPanel; ++v) i[f][v] = dot(i[f][v], x, w[v]);
            }
        }
        for (int v = 0; v < kPanel; ++v) {
            const Vector scale = load_halves(weights.scale + v * kWidth);
            for (int f = 0; f < Frames; ++f) {
                s[f][v] += (__builtin_convertvector(i[f][v], Vector) * block.scale[f]) * scale;
            }
        }
    }
}

template <int Frames>
void tile(const Linear& op, const Rows& rows, const PanelBlock* panel, const FrameBlock* frames,
          std::int64_t first) {
    Vector s[Frames][kPanel];
    multiply<Frames>(panel, frames, op.n_in / kBlock, s);
    const bool gated = op.activation == Activation::gated;
    for (int v = 0; v < (gated ? 1 : kPanel) && v * kWidth < rows.rows; ++v) {
        const int n = static_cast<int>(smaller(kWidth, rows.rows - v * kWidth));
        for (int f = 0; f < Frames; ++f) {
            finish(op, rows.part, rows.row + v * kWidth, n, first + f, s[f][v], s[f][1]);
        }
    }
}

using Tile = void (*)(const Linear&, const Rows&, const PanelBlock*, const FrameBlock*, std::int64_t);

Tile tile_of(std::int64_t frames) {
    static_assert(kFrames == 6 || kFrames == 3);
    if constexpr (kFrames == 6) {
        constexpr Tile tiles[] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};
        return tiles[frames - 1];
    } else {
        constexpr Tile tiles[] = {tile<1>, tile<2>, tile<3>};
        return tiles[frames - 1];
    }
}

// The rows that vector v of a panel begins with, and how many there are: of the results, or of their gates.
Rows rows_of(const Linear& op, const Rows& rows, int v) {
    if (op.activation == Activation::gated) return {rows.part, v * results(op) + rows.row, rows.rows};
    const std::int64_t before = smaller(v * kWidth, rows.rows - 1);
    return {rows.part, rows.row + before, rows.rows - before};
}

// body(p) for each cache line of the i-th of n pieces of the weights of a panel.
template <typename Body>
[[gnu::always_inline]] inline void lines(const Linear& op, const Rows& rows, std::int64_t i, std::int64_t n,
                                         Body&& body) {
    const Linear::Part& part = op.parts[rows.part];
    for (int v = 0; v < kPanel; ++v) {
        const Rows mine = rows_of(op, rows, v);
        const std::int64_t bytes = smaller(mine.rows, kWidth) * part.row_bytes;
        const char* from = part.weight + mine.row * part.row_bytes;
        for (std::int64_t at = bytes * i / n; at < bytes * (i + 1) / n; at += 64) body(from + at);
    }
}

// Reads the weights of a panel in the order that they lie in, which the processor sees and reads ahead.
void read(const Linear& op, const Rows& rows) {
    lines(op, rows, 0, 1, [](const char* p) { static_cast<void>(*static_cast<const volatile char*>(p)); });
}

}  // namespace

void linear_integer(const Linear& op, int ith, int nth) {
    static_assert(kPanel == 2, "a result and its gate");
    if (op.n_frames <= kFew) return linear_integer_few(op, ith, nth);
    const std::int64_t blocks = op.n_in / kBlock;
    const auto tile_bytes = static_cast<std::int64_t>(sizeof(FrameBlock)) * blocks;
    const std::int64_t tiles = (op.n_frames + kFrames - 1) / kFrames;
    const std::int64_t chunks = (tiles * tile_bytes + kPackedBytes - 1) / kPackedBytes;
    const std::int64_t chunk = (tiles + chunks - 1) / chunks;  // in tiles
    const std::int64_t panel_bytes = static_cast<std::int64_t>(sizeof(PanelBlock)) * blocks;
    float* memory = scratch(static_cast<std::size_t>((panel_bytes + round_up(chunk * tile_bytes, 64)) / 4 +
                                                     round_up(op.n_in, 16)));
    if (memory == nullptr) return;
    auto* panel = reinterpret_cast<PanelBlock*>(memory);
    auto* packed = reinterpret_cast<FrameBlock*>(panel + blocks);
    float* room = memory + (panel_bytes + round_up(chunk * tile_bytes, 64)) / 4;
    const bool gated = op.activation == Activation::gated;
    const std::int64_t unit = gated ? kWidth : kOutputs;
    for (std::int64_t first = 0; first < op.n_frames; first += chunk * kFrames) {
        const std::int64_t count = smaller(chunk * kFrames, op.n_frames - first);
        pack(op, first, count, packed, room);
        bool near = false;  // the weights, or on their way
        my_rows(op, ith, nth, unit, unit, [&](const Rows& rows) {
            if (!near) read(op, rows);
            for (int v = 0; v < kPanel; ++v) pack_rows(op, rows_of(op, rows, v), v, panel);
            // Those of the next panel come while this one is computed, if that takes long enough.
            const std::int64_t left = results(op) - rows.row - unit;
            const Rows next{rows.part, rows.row + unit, smaller(unit, left)};
            near = left > 0 && count > 2 * kFrames;
            for (std::int64_t t = 0; t < count; t += kFrames) {
                if (near) {
                    lines(op, next, t / kFrames, (count + kFrames - 1) / kFrames,
                          [](const char* p) { __builtin_prefetch(p, 0, 2); });
                }
                const Tile of = tile_of(smaller(kFrames, count - t));
                of(op, rows, panel, packed + t / kFrames * blocks, first + t);
            }
        });
    }
}

}  // namespace asr::ASR_SET
