// The kernels as plain loops in double precision: what the others are tested against.

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

void linear(const Linear& op, int ith, int nth) {
    const std::int64_t width = op.activation == Activation::gated ? op.n_out / 2 : op.n_out;
    std::vector<float> row(static_cast<std::size_t>(op.n_in));
    for (std::int64_t t = ith; t < op.n_frames; t += nth) {
        const std::vector<double> x = normalise(op.x + t * op.x_stride, op.n_in, op.norm);
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
                if (op.activation == Activation::relu) y = y > 0 ? y : 0;
                y *= op.scale;
                const std::int64_t column = p * width + r;
                if (op.residual != nullptr) y += op.residual[t * op.residual_stride + column];
                op.y[t * op.y_stride + column] = static_cast<float>(y);
            }
        }
    }
}

}  // namespace

extern const Kernels kernels;
const Kernels kernels = {"reference", linear, layer_norm};

}  // namespace asr::reference
