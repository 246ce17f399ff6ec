#pragma once

#include <cstddef>
#include <vector>

#include "fft.h"

namespace asr {

struct LogMelConfig {
    int n_fft;       // a power of two
    int win_length;  // samples, at most n_fft
    int hop_length;  // samples
    int n_mels;
    float preemph;         // y[i] = x[i] - preemph * x[i-1]; 0 turns it off
    float log_zero_guard;  // added to a mel power before the logarithm
    bool per_feature;      // normalise every mel bin over the utterance
};

/// Log-mel features as NeMo computes them in evaluation mode (`FilterbankFeatures` with `exact_pad` off,
/// `mag_power` 2, `log_zero_guard_type` "add" and `normalize` "per_feature" or none): pre-emphasis, centred
/// frames over zero padding, window, power spectrum, mel filterbank, logarithm, normalisation.
///
/// NeMo's transform yields one frame more, which it then masks; here there are exactly n / hop_length.
/// Immutable once built; threads may share one object.
class LogMel {
  public:
    /// `window`: win_length values. `filterbank`: [n_mels][n_fft/2 + 1], row-major.
    /// Throws std::invalid_argument on sizes that are out of range or do not fit one another.
    LogMel(const LogMelConfig& config, const std::vector<float>& window,
           const std::vector<float>& filterbank);

    std::size_t n_mels() const noexcept { return filters_.size(); }
    std::size_t n_frames(std::size_t n_samples) const noexcept { return n_samples / hop_; }

    /// `samples`: n mono samples. `out`: [n_frames(n)][n_mels], row-major; untouched when there is no frame.
    ///
    /// `n_threads` bounds the threads used, the caller's among them; more than one works only on audio long
    /// enough to be worth it. The result does not depend on it, bit for bit.
    void compute(const float* samples, std::size_t n, float* out, int n_threads) const;

    /// Part of a signal: samples `begin` and on, `n` of them; behind the last there is silence.
    struct Part {
        const float* samples;
        std::size_t begin;
        std::size_t n;
    };
    /// Whether `part` has every sample that frames `first` and on look at, but for what follows its end.
    bool reaches_back_to(const Part& part, std::size_t first) const noexcept;
    /// Frames [first, first + count) of the whole signal before normalisation, bit for bit as in compute().
    /// `part` must reach back to `first`. `out`: [count][n_mels].
    void rows(const Part& part, std::size_t first, std::size_t count, float* out, int n_threads) const;
    /// Normalises [n_frames][n_mels] as compute() does, in place, when the configuration asks for it.
    void normalise(float* rows, std::size_t n_frames, int n_threads) const;

  private:
    // The non-zero part of a filterbank row.
    struct Filter {
        std::size_t first_bin;
        std::size_t n_bins;
        std::size_t first_weight;
    };

    std::size_t before_centre() const noexcept {
        return fft_.size() / 2 - (fft_.size() - window_.size()) / 2;
    }
    void log_mel_rows(const Part& part, std::size_t begin, std::size_t end, float* out) const;
    void window_frame(const Part& part, std::size_t frame, double Pair::* half,
                      std::vector<Pair>& signal) const noexcept;
    void normalise_columns(std::size_t n_frames, std::size_t begin, std::size_t end, float* out) const;

    RealFft fft_;
    std::size_t hop_;
    float preemph_;
    double guard_;
    bool per_feature_;
    std::vector<double> window_;
    std::vector<Filter> filters_;
    std::vector<double> weights_;
};

}  // namespace asr
