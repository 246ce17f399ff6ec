// Convolutions with the features last: a vector holds neighbouring channels of one frame.

#include "asr/kernels/kernels.h"
#include "asr/kernels/set.h"
#include "asr/kernels/simd.h"

namespace asr::ASR_SET {
namespace {

// Channels [from, n) in vectors, the last of them in part: body(channel, channels).
template <typename Body>
void channels(std::int64_t n, Body&& body) {
    std::int64_t c = 0;
    for (; c + kWidth <= n; c += kWidth) body(c, kWidth);
    if (c < n) body(c, static_cast<int>(n - c));
}

Vector load_some(const float* from, int n) {
    if (n == kWidth) return load(from);
    Vector v = {};
    std::memcpy(&v, from, static_cast<std::size_t>(n) * sizeof(float));
    return v;
}

void store_some(float* to, Vector v, int n) {
    std::memcpy(to, &v, static_cast<std::size_t>(n) * sizeof(float));
}

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

}  // namespace

void first_convolution(const StridedConvolution& op, int ith, int nth) {
    const std::int64_t last = op.out_frames * (ith + 1) / nth;
    for (std::int64_t t = op.out_frames * ith / nth; t < last; ++t) {
        const Taps rows = taps(t, op.pad, op.n_frames);
        channels(op.n_channels, [&](std::int64_t c, int n) {
            Vector kernel[9];
            for (int i = 0; i < 9; ++i) kernel[i] = load_some(op.kernel + i * op.n_channels + c, n);
            const Vector bias = op.bias != nullptr ? load_some(op.bias + c, n) : Vector{};
            for (std::int64_t f = 0; f < op.out_bands; ++f) {
                const Taps bands = taps(f, op.pad, op.n_bands);
                const float* x = op.x + rows.begin * op.n_bands + bands.begin;
                Vector y = bias;
                if (rows.first == 0 && rows.end == 3 && bands.first == 0 && bands.end == 3) {
                    for (int i = 0; i < 9; ++i) y += kernel[i] * x[i / 3 * op.n_bands + i % 3];
                } else {
                    for (int i = rows.first; i < rows.end; ++i) {
                        for (int j = bands.first; j < bands.end; ++j)
                            y += kernel[3 * i + j] * x[i * op.n_bands + j];
                    }
                }
                store_some(op.y + (t * op.out_bands + f) * op.n_channels + c, larger(y, Vector{}), n);
            }
        });
    }
}

void strided_depthwise(const StridedConvolution& op, int ith, int nth) {
    const std::int64_t last = op.out_frames * (ith + 1) / nth, width = op.n_channels;
    for (std::int64_t t = op.out_frames * ith / nth; t < last; ++t) {
        const Taps rows = taps(t, op.pad, op.n_frames);
        channels(width, [&](std::int64_t c, int n) {
            Vector kernel[9];
            for (int i = 0; i < 9; ++i) kernel[i] = load_some(op.kernel + i * width + c, n);
            const Vector bias = op.bias != nullptr ? load_some(op.bias + c, n) : Vector{};
            for (std::int64_t f = 0; f < op.out_bands; ++f) {
                const Taps bands = taps(f, op.pad, op.n_bands);
                const float* x = op.x + (rows.begin * op.n_bands + bands.begin) * width + c;
                Vector y = bias;
                for (int i = rows.first; i < rows.end; ++i) {
                    for (int j = bands.first; j < bands.end; ++j) {
                        y += kernel[3 * i + j] * load_some(x + (i * op.n_bands + j) * width, n);
                    }
                }
                store_some(op.y + (t * op.out_bands + f) * width + c, y, n);
            }
        });
    }
}

void depthwise(const Depthwise& op, int ith, int nth) {
    constexpr std::int64_t kAtOnce = 4;  // frames, which share the kernel's loads
    const std::int64_t begin = op.n_frames * ith / nth, end = op.n_frames * (ith + 1) / nth,
                       d = op.n_channels;
    channels(d, [&](std::int64_t c, int n) {
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
