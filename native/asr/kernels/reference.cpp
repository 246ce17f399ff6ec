// The kernels as plain loops in double precision: what the others are tested against.

#include <algorithm>
#include <cmath>
#include <vector>

#include "asr/kernels/kernels.h"

namespace asr::reference {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

std::vector<double> normalise(const float* x, std::int64_t n, const Norm& norm) {
    std::vector<double> out(x, x + n);
    if (norm.weight == nullptr) return out;
    double mean = 0, variance = 0;
    for (const double v : out) mean += v / static_cast<double>(n);
    for (const double v : out) variance += (v - mean) * (v - mean) / static_cast<double>(n);
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = (out[i] - mean) / std::sqrt(variance + norm.eps) * norm.weight[i] + norm.bias[i];
    }
    return out;
}

void layer_norm(const LayerNorm& op, int ith, int nth) {
    for (std::int64_t t = ith; t < op.n_frames; t += nth) {
        const std::vector<double> y = normalise(op.x + t * op.x_stride, op.n, op.norm);
        for (std::size_t i = 0; i < y.size(); ++i)
            op.y[t * op.n + static_cast<std::int64_t>(i)] = static_cast<float>(y[i]);
    }
}

// What the products of bytes make of a frame: each 32 features are rounded to multiples of 1/127 of the
// largest of them. In float32, so that ties are the same ones.
void round_blocks(std::vector<double>& x) {
    for (std::size_t first = 0; first + 32 <= x.size(); first += 32) {
        float most = 0;
        bool finite = true;
        for (std::size_t k = first; k < first + 32; ++k) {
            most = std::max(most, std::fabs(static_cast<float>(x[k])));
            finite = finite && std::isfinite(x[k]);
        }
        const float inverse = most > 1e-30F ? 127.0F / most : 0.0F, scale = most * (1.0F / 127.0F);
        for (std::size_t k = first; k < first + 32; ++k) {
            x[k] = finite ? static_cast<double>(std::nearbyint(static_cast<float>(x[k]) * inverse)) * scale
                          : NAN;
        }
    }
}

template <bool Rounds>
void linear(const Linear& op, int ith, int nth) {
    const bool rounds = Rounds && std::all_of(op.parts, op.parts + op.n_parts,
                                              [](const Linear::Part& part) { return part.is_q8_0; });
    const std::int64_t width = op.activation == Activation::gated ? op.n_out / 2 : op.n_out;
    std::vector<float> row(static_cast<std::size_t>(op.n_in));
    for (std::int64_t t = ith; t < op.n_frames; t += nth) {
        std::vector<double> x = normalise(op.x + t * op.x_stride, op.n_in, op.norm);
        if (rounds) round_blocks(x);
        const auto dot = [&](const Linear::Part& part, std::int64_t r) {
            const char* from = part.weight + r * part.row_bytes;
            const auto* w = reinterpret_cast<const float*>(from);
            if (part.unpack != nullptr) {
                part.unpack(from, row.data(), op.n_in);
                w = row.data();
            }
            double total = part.bias != nullptr ? part.bias[r] : 0;
            for (std::size_t k = 0; k < x.size(); ++k) total += w[k] * x[k];
            return total;
        };
        for (int p = 0; p < op.n_parts; ++p) {
            for (std::int64_t r = 0; r < width; ++r) {
                double y = dot(op.parts[p], r);
                if (op.activation == Activation::gated) y *= sigmoid(dot(op.parts[p], width + r));
                if (op.activation == Activation::silu) y *= sigmoid(y);
                if (op.activation == Activation::relu) y = y < 0 ? 0 : y;
                y *= op.scale;
                const std::int64_t column = p * width + r;
                if (op.residual != nullptr) y += op.residual[t * op.residual_stride + column];
                op.y[t * op.y_stride + column] = static_cast<float>(y);
            }
        }
    }
}

bool sees(const RelativeAttention& op, std::int64_t frame, std::int64_t key) {
    if (op.chunked && op.right >= 0) {
        const std::int64_t size = op.right + 1, behind = frame / size - key / size;
        return behind >= 0 && (op.left < 0 || behind <= op.left / size);
    }
    return (op.left < 0 || frame - key <= op.left) && (op.right < 0 || key - frame <= op.right);
}

void relative_attention(const RelativeAttention& op, int ith, int nth) {
    const std::int64_t n = op.n_keys, d = op.d_head;
    for (std::int64_t at = ith; at < op.n_queries * op.n_heads; at += nth) {
        const std::int64_t i = at / op.n_heads, column = at % op.n_heads * d, frame = op.first + i;
        const float* q = op.q + i * op.q_stride + column;
        std::vector<double> weights(static_cast<std::size_t>(n), -HUGE_VAL), y(static_cast<std::size_t>(d));
        for (std::int64_t j = 0; j < n; ++j) {
            if (!sees(op, frame, j)) continue;
            const float* k = op.k + j * op.k_stride + column;
            const float* p = op.p + (op.p_zero - frame + j) * op.p_stride + column;
            double score = 0;
            for (std::int64_t c = 0; c < d; ++c) {
                score += (static_cast<double>(q[c]) + op.bias_u[column + c]) * k[c] +
                         (static_cast<double>(q[c]) + op.bias_v[column + c]) * p[c];
            }
            weights[static_cast<std::size_t>(j)] = score / std::sqrt(static_cast<double>(d));
        }
        const double most = *std::max_element(weights.begin(), weights.end());
        double total = 0;
        for (double& w : weights) total += w = std::exp(w - most);
        for (std::int64_t j = 0; j < n; ++j) {
            const double w = weights[static_cast<std::size_t>(j)] / total;
            const float* v = op.v + j * op.v_stride + column;
            for (std::int64_t c = 0; c < d && w > 0; ++c) y[static_cast<std::size_t>(c)] += w * v[c];
        }
        float* to = op.y + i * op.y_stride + column;
        for (std::size_t c = 0; c < y.size(); ++c) to[c] = static_cast<float>(y[c]);
    }
}

bool inside(std::int64_t i, std::int64_t n) { return i >= 0 && i < n; }

// One value of a strided convolution; `channel` of the input has a stride of x_channels.
double strided(const StridedConvolution& op, std::int64_t t, std::int64_t f, std::int64_t c,
               std::int64_t x_channels, std::int64_t channel) {
    double total = op.bias != nullptr ? op.bias[c] : 0;
    for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
            const std::int64_t frame = 2 * t - op.pad + i, band = 2 * f - op.pad + j;
            if (!inside(frame, op.n_frames) || !inside(band, op.n_bands)) continue;
            total += static_cast<double>(op.kernel[(3 * i + j) * op.n_channels + c]) *
                     op.x[(frame * op.n_bands + band) * x_channels + channel];
        }
    }
    return total;
}

void first_convolution(const StridedConvolution& op, int ith, int nth) {
    for (std::int64_t t = ith; t < op.out_frames; t += nth) {
        for (std::int64_t f = 0; f < op.out_bands; ++f) {
            for (std::int64_t c = 0; c < op.n_channels; ++c) {
                op.y[(t * op.out_bands + f) * op.n_channels + c] =
                    static_cast<float>(std::max(0.0, strided(op, t, f, c, 1, 0)));
            }
        }
    }
}

void strided_depthwise(const StridedConvolution& op, int ith, int nth) {
    for (std::int64_t t = ith; t < op.out_frames; t += nth) {
        for (std::int64_t f = 0; f < op.out_bands; ++f) {
            for (std::int64_t c = 0; c < op.n_channels; ++c) {
                op.y[(t * op.out_bands + f) * op.n_channels + c] =
                    static_cast<float>(strided(op, t, f, c, op.n_channels, c));
            }
        }
    }
}

void depthwise(const Depthwise& op, int ith, int nth) {
    for (std::int64_t t = ith; t < op.n_frames; t += nth) {
        for (std::int64_t c = 0; c < op.n_channels; ++c) {
            double y = op.bias != nullptr ? op.bias[c] : 0;
            for (std::int64_t k = 0; k < op.n_taps; ++k) {
                const std::int64_t at = t - op.left + k;
                if (!inside(at, op.n_frames)) continue;
                y += static_cast<double>(op.kernel[k * op.n_channels + c]) * op.x[at * op.n_channels + c];
            }
            if (op.with_silu) y *= sigmoid(y);
            op.y[t * op.n_channels + c] = static_cast<float>(y);
        }
    }
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {"reference",        "reference",       linear<false>,     layer_norm,
                         relative_attention, first_convolution, strided_depthwise, depthwise};
extern const Kernels integer_kernels;
const Kernels integer_kernels = {"reference_integer", "reference_integer", linear<true>,      layer_norm,
                                 relative_attention,  first_convolution,   strided_depthwise, depthwise};

}  // namespace asr::reference
