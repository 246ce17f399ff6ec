#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asr {

/// The tokens of an utterance; four vectors of one length.
struct CtcResult {
    std::vector<std::int32_t> ids;        // never the blank
    std::vector<std::int32_t> frames;     // first frame of the token's run
    std::vector<std::int32_t> durations;  // length of the run in frames, at least 1
    std::vector<float> confidence;        // in [0, 1]
};

/// NeMo's greedy CTC rule: the best class of every frame, repetitions collapsed, blanks dropped; a blank
/// between two equal classes makes them two tokens. A token's confidence is the smallest Tsallis confidence
/// (confidence.h) among the frames of its run.
///
/// `logits`: [n_frames][n_classes], row-major, raw or log-probabilities, blank included.
CtcResult ctc_greedy(const float* logits, std::size_t n_frames, std::size_t n_classes, int blank);

}  // namespace asr
