#include "ctc.h"

#include <algorithm>

#include "confidence.h"

namespace asr {

CtcResult ctc_greedy(const float* logits, std::size_t n_frames, std::size_t n_classes, int blank) {
    CtcResult result;
    if (n_classes == 0) return result;
    std::int32_t previous = blank;
    for (std::size_t t = 0; t < n_frames; ++t) {
        const float* row = logits + t * n_classes;
        const auto best = static_cast<std::int32_t>(argmax(row, n_classes));
        if (best != blank) {
            const float confidence = tsallis_confidence(row, n_classes);
            if (best == previous) {
                ++result.durations.back();
                result.confidence.back() = std::min(result.confidence.back(), confidence);
            } else {
                result.ids.push_back(best);
                result.frames.push_back(static_cast<std::int32_t>(t));
                result.durations.push_back(1);
                result.confidence.push_back(confidence);
            }
        }
        previous = best;
    }
    return result;
}

}  // namespace asr
