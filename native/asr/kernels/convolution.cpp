// Convolutions with the features last: a vector holds neighbouring channels of one frame.

#include "asr/kernels/kernels.h"
#include "asr/kernels/set.h"
#include "asr/kernels/simd.h"

namespace asr::ASR_SET {
namespace {

// The rows of a kernel of 3 that lie inside, for an output at `at` with stride 2: those from first to end.
struct Taps {
    std::int64_t begin;  // where the kernel's first row lies, which may be outside
    int first, end;
};

Taps taps(std::int64_t at, std::int64_t pad, std::int64_t n) {
    const std::int64_t begin = 2 * at - pad;
    const int first = begin < 0 ? static_cast<int>(-begin) : 0;
    const int end = begin + 3 > n ? static_cast<int>(n - begin) : 3;
    return {begin, first, end};
}

// A convolution of kernel 3 and stride 2. `at(place, channel, n)` is the input at a place [frame, band], as
// it meets n channels from `channel` on; `finish` is applied to each sum.
template <typename At, typename Finish>
void convolve(const StridedConvolution& op, int ith, int nth, At&& at, Finish&& finish) {
    const std::int64_t last = op.out_frames * (ith + 1) / nth, width = op.n_channels;
    for (std::int64_t t = op.out_frames * ith / nth; t < last; ++t) {
        const Taps rows = taps(t, op.pad, op.n_frames);
        vectors(width, [&](std::int64_t c, int n) {
            Vector kernel[9];
            for (int i = 0; i < 9; ++i) kernel[i] = load_some(op.kernel + i * width + c, n);
            const Vector bias = op.bias != nullptr ? load_some(op.bias + c, n) : Vector{};
            for (std::int64_t f = 0; f < op.out_bands; ++f) {
                const Taps bands = taps(f, op.pad, op.n_bands);
                const std::int64_t place = rows.begin * op.n_bands + bands.begin;
                Vector y = bias;
                if (rows.first == 0 && rows.end == 3 && bands.first == 0 && bands.end == 3) {
                    for (int i = 0; i < 9; ++i) y += kernel[i] * at(place + i / 3 * op.n_bands + i % 3, c, n);
                } else {
                    for (int i = rows.first; i < rows.end; ++i) {
                        for (int j = bands.first; j < bands.end; ++j)
                            y += kernel[3 * i + j] * at(place + i * op.n_bands + j, c, n);
                    }
                }
                store_some(op.y + (t * op.out_bands + f) * width + c, finish(y), n);
            }
        });
    }
}

}  // namespace

void first_convolution(const StridedConvolution& op, int ith, int nth) {
    const auto at = [&op](std::int64_t place, std::int64_t, int) { return op.x[place]; };
    convolve(op, ith, nth, at, [](Vector y) { return larger(Vector{}, y); });
}

void strided_depthwise(const StridedConvolution& op, int ith, int nth) {
    const auto at = [&op](std::int64_t place, std::int64_t channel, int n) {
        return load_some(op.x + place * op.n_channels + channel, n);
    };
    convolve(op, ith, nth, at, [](Vector y) { return y; });
}

void depthwise(const Depthwise& op, int ith, int nth) {
    constexpr std::int64_t kAtOnce = 4;  // frames, which share the kernel's loads
    const std::int64_t begin = op.n_frames * ith / nth, end = op.n_frames * (ith + 1) / nth,
                       d = op.n_channels;
    vectors(d, [&](std::int64_t c, int n) {
        const Vector bias = op.bias != nullptr ? load_some(op.bias + c, n) : Vector{};
        for (std::int64_t t = begin; t < end; t += kAtOnce) {
            Vector y[kAtOnce] = {bias, bias, bias, bias};
            for (std::int64_t k = 0; k < op.n_taps; ++k) {
                const Vector w = load_some(op.kernel + k * d + c, n);
                for (std::int64_t i = 0; i < kAtOnce; ++i) {
                    const std::int64_t at = t + i + k - op.left;
                    if (at >= 0 && at < op.n_frames) y[i] += w * load_some(op.x + at * d + c, n);
                }
            }
            for (std::int64_t i = 0; i < kAtOnce && t + i < end; ++i) {
                store_some(op.y + (t + i) * d + c, op.with_silu ? silu(y[i]) : y[i], n);
            }
        }
    });
}

}  // namespace asr::ASR_SET
