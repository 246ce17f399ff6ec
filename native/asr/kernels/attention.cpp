// Self-attention with relative positions, a few queries of one head at a time.
//
// Keys and positions are transposed into panels, so that a vector holds the same feature of neighbouring
// keys. The positions that a query meets are one row further on than those of the query after it: the
// products of a tile of queries with all the positions that it needs are computed into a band, and each query
// reads its row of the band from its own offset on. Each score and each output is one sum in a fixed order,
// whatever the number of threads.

#include "asr/kernels/kernels.h"
#include "asr/kernels/set.h"
#include "asr/kernels/simd.h"
#include "asr/kernels/tiles.h"

namespace asr::ASR_SET {
namespace {

using Range = VisibleKeys;

Range visible(const RelativeAttention& op, std::int64_t query) { return visible_keys(op, op.first + query); }

// What a tile of queries needs: keys that any of them sees, and the rows of p between those keys and all of
// them.
struct Tile {
    std::int64_t query, queries;
    Range keys, positions;
};

Tile tile_at(const RelativeAttention& op, std::int64_t index) {
    const std::int64_t query = index * kRows, last = smaller(query + kRows, op.n_queries) - 1;
    const Range keys = {visible(op, query).first, visible(op, last).end};
    // A key at a query's own frame is at p_zero. For keys that only others of the tile see there may be none.
    const std::int64_t same = op.p_zero - op.first;
    return {query, last + 1 - query, keys, {same - last + keys.first, same - query + keys.end}};
}

// What tiles [first, end) need between them.
struct Span {
    Range keys, positions;
    std::int64_t widest;  // range of a tile
};

Span span_of(const RelativeAttention& op, std::int64_t first, std::int64_t end) {
    const Tile start = tile_at(op, first);
    Span span = {start.keys, start.positions, 0};
    for (std::int64_t i = first; i < end; ++i) {
        const Tile tile = tile_at(op, i);
        span.keys.end = tile.keys.end;
        span.positions.first = smaller(span.positions.first, tile.positions.first);
        span.positions.end = greater(span.positions.end, tile.positions.end);
        span.widest = greater(span.widest, tile.positions.end - tile.positions.first);
    }
    return span;
}

// One head's operands, and the room to work in.
struct Room {
    Span span;
    float *keys, *positions;   // panels of kWidth rows: [panel, feature, row]
    float* values;             // panels of kWidth features: [panel, key, feature]
    float *by_key, *by_place;  // queries with bias_u and bias_v, [kRows, d_head]
    std::int64_t query_stride;
    float* scores;  // [kRows, keys], which become the weights
    float* band;    // [kRows, positions]
    std::int64_t score_stride;
    float* mixed;  // [kRows, d_head]
};

// Memory for any of the spans: that of all tiles is the largest.
Room make_room(const RelativeAttention& op, const Span& all) {
    Room room = {};
    const std::int64_t n = all.keys.end - all.keys.first, d = op.d_head;
    const std::int64_t keys = round_up(n, kWidth) * d, values = n * round_up(d, kWidth);
    const std::int64_t positions = round_up(all.positions.end - all.positions.first, kWidth) * d;
    room.query_stride = round_up(d, 16);
    // Ranges begin and end in the middle of vectors. Rows that are not a multiple of a page apart are spread
    // over the sets of the cache.
    room.score_stride = round_up(all.widest + 2 * kWidth, 64) + 16;
    const std::int64_t queries = kRows * room.query_stride, rows = kRows * room.score_stride;
    float* next = scratch(static_cast<std::size_t>(round_up(keys, 16) + round_up(positions, 16) +
                                                   round_up(values, 16) + 3 * queries + 2 * rows));
    if (next == nullptr) return room;
    const auto take = [&](std::int64_t floats) {
        float* taken = next;
        next += round_up(floats, 16);
        return taken;
    };
    room.keys = take(keys);
    room.positions = take(positions);
    room.values = take(values);
    room.by_key = take(queries);
    room.by_place = take(queries);
    room.mixed = take(queries);
    room.scores = take(rows);
    room.band = take(rows);
    return room;
}

// A range of n rows of d features into panels of kWidth rows.
void pack_across(const float* from, std::int64_t stride, std::int64_t n, const Range& range, std::int64_t d,
                 float* packed) {
    for (std::int64_t t = 0; t < round_up(range.end - range.first, kWidth); t += 4) {
        const float* rows[4];
        // What is computed for rows that are not there is not used.
        for (int i = 0; i < 4; ++i)
            rows[i] = from + greater(0, smaller(range.first + t + i, smaller(range.end, n) - 1)) * stride;
        interleave(rows, d, packed + round_down(t, kWidth) * d + t % kWidth, kWidth);
    }
}

// Rows of d features into panels of kWidth features.
void pack_along(const float* from, std::int64_t stride, std::int64_t count, std::int64_t d, float* packed) {
    for (std::int64_t t = 0; t < count; ++t) {
        const float* row = from + t * stride;
        float* to = packed + t * kWidth;
        vectors(d, [&](std::int64_t k, int n) { store(to + k * count, load_some(row + k, n)); });
    }
}

// Products of Rows rows with panels of kWidth columns.
template <int Rows>
void product(const float* rows, std::int64_t row_stride, const float* panels, std::int64_t panel_stride,
             std::int64_t n_panels, std::int64_t depth, float* out, std::int64_t out_stride) {
    std::int64_t at = 0;
    const auto step = [&](auto&& multiply_panels, std::int64_t n) {
        for (; at + n <= n_panels; at += n) {
            const Columns columns = {panels + at * panel_stride, panel_stride, kWidth};
            multiply_panels(rows, row_stride, columns, depth, out + at * kWidth, out_stride, true);
        }
    };
    step(multiply<Rows, kVectors>, kVectors);
    step(multiply<Rows, 2>, 2);
    step(multiply<Rows, 1>, 1);
}

// Scores of n keys, whose share of the positions lies in `band`, become weights, which are still to be
// divided by their sum. Up to a vector is written behind them.
float soften(float* scores, const float* band, std::int64_t n) {
    const Vector hidden = broadcast(-__builtin_inff());
    Integers lane;
    for (int i = 0; i < kWidth; ++i) lane[i] = i;
    Vector most = hidden;
    for (std::int64_t t = 0; t < n; t += kWidth) {
        Vector s = load(scores + t) + load(band + t);
        if (n - t < kWidth) s = lane < static_cast<std::int32_t>(n - t) ? s : hidden;
        store(scores + t, s);
        most = larger(most, s);
    }
    const Vector top = broadcast(largest(most));
    Vector total = {};
    for (std::int64_t t = 0; t < n; t += kWidth) {
        const Vector weight = exp(load(scores + t) - top);
        store(scores + t, weight);
        total += weight;
    }
    return sum(total);
}

void load_queries(const RelativeAttention& op, std::int64_t column, const Tile& tile, const Room& room) {
    const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(op.d_head));
    const float *u = op.bias_u + column, *v = op.bias_v + column;
    for (int r = 0; r < kRows; ++r) {
        // What is computed for queries that are not there is not used.
        const float* q = op.q + (tile.query + smaller(r, tile.queries - 1)) * op.q_stride + column;
        float *by_key = room.by_key + r * room.query_stride,
              *by_place = room.by_place + r * room.query_stride;
        for (std::int64_t k = 0; k < op.d_head; ++k) {
            by_key[k] = (q[k] + u[k]) * scale;
            by_place[k] = (q[k] + v[k]) * scale;
        }
    }
}

template <int Rows>
void attend(const RelativeAttention& op, std::int64_t column, const Tile& tile, const Room& room) {
    const std::int64_t d = op.d_head;
    // Products with the whole panels that hold a range; returns the row that the first of them begins with.
    const auto panels = [&](const float* queries, const float* packed, const Range& from, const Range& range,
                            float* out) {
        const std::int64_t first = round_down(range.first - from.first, kWidth);
        const std::int64_t n = round_up(range.end - from.first, kWidth) - first;
        product<Rows>(queries, room.query_stride, packed + first * d, kWidth * d, n / kWidth, d, out,
                      room.score_stride);
        return from.first + first;
    };
    const std::int64_t key = panels(room.by_key, room.keys, room.span.keys, tile.keys, room.scores);
    const std::int64_t position =
        panels(room.by_place, room.positions, room.span.positions, tile.positions, room.band);

    float factors[kRows];
    for (std::int64_t r = 0; r < tile.queries; ++r) {
        const std::int64_t query = tile.query + r;
        const Range seen = visible(op, query);
        float* scores = room.scores + r * room.score_stride;
        const float* band = room.band + r * room.score_stride;
        band += op.p_zero - (op.first + query) + seen.first - position;
        factors[r] = 1.0F / soften(scores + seen.first - key, band, seen.end - seen.first);
        for (std::int64_t j = tile.keys.first; j < seen.first; ++j) scores[j - key] = 0;
        for (std::int64_t j = seen.end; j < tile.keys.end; ++j) scores[j - key] = 0;
    }

    const std::int64_t n_packed = room.span.keys.end - room.span.keys.first;
    const float* values = room.values + (tile.keys.first - room.span.keys.first) * kWidth;
    product<Rows>(room.scores + tile.keys.first - key, room.score_stride, values, n_packed * kWidth,
                  round_up(d, kWidth) / kWidth, tile.keys.end - tile.keys.first, room.mixed,
                  room.query_stride);
    for (std::int64_t r = 0; r < tile.queries; ++r) {
        const float* mixed = room.mixed + r * room.query_stride;
        float* y = op.y + (tile.query + r) * op.y_stride + column;
        for (std::int64_t k = 0; k < d; ++k) y[k] = mixed[k] * factors[r];
    }
}

}  // namespace

void relative_attention(const RelativeAttention& op, int ith, int nth) {
    const std::int64_t per_head = (op.n_queries + kRows - 1) / kRows, tiles = per_head * op.n_heads;
    std::int64_t at = tiles * ith / nth;
    const std::int64_t end = tiles * (ith + 1) / nth;
    if (at == end) return;
    Room room = make_room(op, span_of(op, 0, per_head));
    if (room.keys == nullptr) return;
    while (at < end) {
        const std::int64_t first = at % per_head, last = smaller(per_head, first + end - at);
        const std::int64_t column = at / per_head * op.d_head;
        const Span span = span_of(op, first, last);
        room.span = span;
        pack_across(op.k + column, op.k_stride, op.n_keys, span.keys, op.d_head, room.keys);
        pack_along(op.v + span.keys.first * op.v_stride + column, op.v_stride,
                   span.keys.end - span.keys.first, op.d_head, room.values);
        pack_across(op.p + column, op.p_stride, op.p_rows, span.positions, op.d_head, room.positions);
        for (std::int64_t i = first; i < last; ++i) {
            const Tile tile = tile_at(op, i);
            load_queries(op, column, tile, room);
            if (tile.queries > kRows / 2) {
                attend<kRows>(op, column, tile, room);
            } else {
                attend<kRows / 2>(op, column, tile, room);
            }
        }
        at += last - first;
    }
}

}  // namespace asr::ASR_SET
