// Convolutions with the features last: a vector holds neighbouring channels of one frame. Several outputs are
// computed at once, which share what they read; channels are the innermost loop, so that memory is read and
// written in order.

#include "asr/kernels/kernels.h"
#include "asr/kernels/set.h"
#include "asr/kernels/simd.h"
#include "asr/kernels/tiles.h"

namespace asr::ASR_SET {
namespace {

// The taps [first, end) of `count` that lie inside [0, n) when the first tap is at `begin`.
struct Taps {
    std::int64_t begin, first, end;
};

Taps taps(std::int64_t begin, std::int64_t count, std::int64_t n) {
    return {begin, greater(0, -begin), smaller(count, n - begin)};
}

// `Outputs` neighbouring outputs, stored from `first` on: add(sums, channel, n) adds to the bias what they
// are sums of, for n channels.
template <int Outputs, typename Add, typename Finish>
[[gnu::always_inline]] inline void outputs(const float* bias, std::int64_t width, float* first, Add&& add,
                                           Finish&& finish) {
    vectors(width, [&](std::int64_t c, int n) {
        Vector y[Outputs];
        for (int i = 0; i < Outputs; ++i) y[i] = bias != nullptr ? load_some(bias + c, n) : Vector{};
        add(y, c, n);
        for (int i = 0; i < Outputs; ++i) store_some(first + i * width + c, finish(y[i]), n);
    });
}

// A convolution of kernel 3 and stride 2, `Columns` bands at a time. `at(place, channel, n)` is the input at
// a place [frame, band], as it meets n channels from `channel` on; `finish` is applied to each sum.
template <int Columns, typename At, typename Finish>
void convolve(const StridedConvolution& op, int ith, int nth, At&& at, Finish&& finish) {
    const std::int64_t last = op.out_frames * (ith + 1) / nth, width = op.n_channels;
    for (std::int64_t t = op.out_frames * ith / nth; t < last; ++t) {
        const Taps rows = taps(2 * t - op.pad, 3, op.n_frames);
        for (std::int64_t f = 0; f < op.out_bands;) {
            const Taps bands = taps(2 * f - op.pad, 3, op.n_bands);
            const std::int64_t place = rows.begin * op.n_bands + bands.begin;
            float* y = op.y + (t * op.out_bands + f) * width;
            const auto kernel = [&](std::int64_t i, std::int64_t j, std::int64_t c, int n) {
                return load_some(op.kernel + (3 * i + j) * width + c, n);
            };
            if (bands.begin >= 0 && bands.begin + 2 * Columns + 1 <= op.n_bands &&
                f + Columns <= op.out_bands) {
                const auto add = [&](Vector* sums, std::int64_t c, int n) {
                    for (std::int64_t i = rows.first; i < rows.end; ++i) {
                        for (int j = 0; j < 3; ++j) {
                            const Vector w = kernel(i, j, c, n);
                            for (int k = 0; k < Columns; ++k)
                                sums[k] += w * at(place + i * op.n_bands + j + 2 * k, c, n);
                        }
                    }
                };
                outputs<Columns>(op.bias, width, y, add, finish);
                f += Columns;
            } else {
                const auto add = [&](Vector* sums, std::int64_t c, int n) {
                    for (std::int64_t i = rows.first; i < rows.end; ++i) {
                        for (std::int64_t j = bands.first; j < bands.end; ++j)
                            sums[0] += kernel(i, j, c, n) * at(place + i * op.n_bands + j, c, n);
                    }
                };
                outputs<1>(op.bias, width, y, add, finish);
                ++f;
            }
        }
    }
}

// Frames neighbouring outputs from frame t on, which have the same taps inside.
template <int Frames>
void frames(const Depthwise& op, std::int64_t t, const Taps& inside) {
    const std::int64_t d = op.n_channels;
    const auto add = [&](Vector* sums, std::int64_t c, int n) {
        for (std::int64_t k = inside.first; k < inside.end; ++k) {
            const Vector w = load_some(op.kernel + k * d + c, n);
            const float* x = op.x + (inside.begin + k) * d + c;
            for (int i = 0; i < Frames; ++i) sums[i] += w * load_some(x + i * d, n);
        }
    };
    outputs<Frames>(op.bias, d, op.y + t * d, add, [&op](Vector y) { return op.with_silu ? silu(y) : y; });
}

}  // namespace

// How many outputs are computed at once is by timing 2, 4 and 6 bands and 2 to 12 frames.

void first_convolution(const StridedConvolution& op, int ith, int nth) {
    const auto at = [&op](std::int64_t place, std::int64_t, int) { return op.x[place]; };
    convolve<6>(op, ith, nth, at, [](Vector y) { return larger(Vector{}, y); });
}

void strided_depthwise(const StridedConvolution& op, int ith, int nth) {
    const auto at = [&op](std::int64_t place, std::int64_t channel, int n) {
        return load_some(op.x + place * op.n_channels + channel, n);
    };
    convolve<2>(op, ith, nth, at, [](Vector y) { return y; });
}

void depthwise(const Depthwise& op, int ith, int nth) {
    constexpr std::int64_t kAtOnce = 6;
    const std::int64_t end = op.n_frames * (ith + 1) / nth;
    for (std::int64_t t = op.n_frames * ith / nth; t < end;) {
        const Taps inside = taps(t - op.left, op.n_taps, op.n_frames);
        if (inside.begin >= 0 && inside.begin + kAtOnce - 1 + op.n_taps <= op.n_frames &&
            t + kAtOnce <= end) {
            frames<kAtOnce>(op, t, inside);
            t += kAtOnce;
        } else {
            frames<1>(op, t, inside);
            ++t;
        }
    }
}

}  // namespace asr::ASR_SET
