#pragma once

#include <cstddef>

namespace asr {

/// NeMo's default confidence of one decision: the Tsallis entropy (alpha 0.33) of the softmax of a row of
/// `n` logits, normalised exponentially to [0, 1] (`entropy_tsallis_exp` of asr_confidence_utils.py):
///
///     h = (1 - sum p^alpha) / (1 - alpha);  h_min = (1 - n^(1 - alpha)) / (1 - alpha)
///     confidence = (exp(h) - exp(h_min)) / (1 - exp(h_min))
///
/// A constant added to all logits changes nothing, so raw logits and log-probabilities give the same value.
/// A row with one class gives 1; an empty row, or one whose largest logit is not finite, gives 0.
///
/// What row NeMo measures, and what becomes a token's confidence (`exclude_blank`, NeMo's default):
/// - CTC: the whole row, blank included, of every frame. A token's confidence is the minimum (NeMo's default
///   aggregation) over the frames of its run of repetitions; see ctc.h.
/// - RNN-T: the whole row of the joint, blank included, of the step that emitted the token; no aggregation.
/// - TDT: of that row only the token classes, blank included, with a softmax of their own; the durations that
///   follow them are left out (`tdt_include_duration` is off by default). No aggregation.
float tsallis_confidence(const float* logits, std::size_t n) noexcept;

/// Index of the first maximum of `n` values; a NaN counts as the largest, as in torch. 0 when n is 0.
std::size_t argmax(const float* values, std::size_t n) noexcept;

}  // namespace asr
