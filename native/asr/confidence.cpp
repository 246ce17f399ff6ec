#include "confidence.h"

#include <algorithm>
#include <cmath>

namespace asr {
namespace {

constexpr double kAlpha = 0.33;

}  // namespace

float tsallis_confidence(const float* logits, std::size_t n) noexcept {
    if (n == 0) return 0.0F;
    const float highest = logits[argmax(logits, n)];
    if (!std::isfinite(highest)) return 0.0F;
    if (n == 1) return 1.0F;

    // With d = logit - highest and z = sum exp(d): p = exp(d) / z, hence
    // sum p^alpha = (sum exp(alpha d)) / z^alpha.
    double z = 0.0;
    double powers = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        const float d = logits[i] - highest;
        z += static_cast<double>(std::exp(d));
        powers += static_cast<double>(std::exp(static_cast<float>(kAlpha) * d));
    }
    const double sum = powers / std::pow(z, kAlpha);
    const double least = std::exp((1.0 - std::pow(static_cast<double>(n), 1.0 - kAlpha)) / (1.0 - kAlpha));
    const double confidence = (std::exp((1.0 - sum) / (1.0 - kAlpha)) - least) / (1.0 - least);
    return static_cast<float>(std::clamp(confidence, 0.0, 1.0));
}

std::size_t argmax(const float* values, std::size_t n) noexcept {
    std::size_t best = 0;
    if (n == 0 || std::isnan(values[0])) return best;
    float highest = values[0];
    for (std::size_t i = 1; i < n; ++i) {
        if (values[i] <= highest) continue;
        best = i;
        highest = values[i];
        if (std::isnan(highest)) break;
    }
    return best;
}

}  // namespace asr
