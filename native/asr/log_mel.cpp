#include "log_mel.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>

namespace asr {
namespace {

// Ten seconds of audio at NeMo's hop: about a millisecond of work, far more than starting a thread costs.
constexpr std::size_t kMinFramesPerThread = 1000;

// NeMo's CONSTANT, added to the standard deviation.
constexpr double kStdFloor = 1e-5;

std::size_t positive(int value, const char* name) {
    if (value <= 0) {
        throw std::invalid_argument(std::string(name) + " must be positive, not " + std::to_string(value));
    }
    return static_cast<std::size_t>(value);
}

void require_size(std::size_t actual, std::size_t expected, const char* name) {
    if (actual != expected) {
        throw std::invalid_argument(std::string("the ") + name + " has " + std::to_string(actual) +
                                    " values where the configuration asks for " + std::to_string(expected));
    }
}

// Calls work(begin, end) on contiguous parts of [0, count), the first on this thread, and those for which the
// system has no thread. A future of std::async waits in its destructor, so no thread outlives the call even
// when one of them throws.
template <typename Work>
void in_parallel(std::size_t count, std::size_t n_parts, const Work& work) {
    const auto bound = [=](std::size_t part) { return count * part / n_parts; };
    std::vector<std::future<void>> others;
    std::size_t part = n_parts;
    try {
        for (; part > 1; --part)
            others.push_back(std::async(std::launch::async, work, bound(part - 1), bound(part)));
    } catch (const std::system_error&) {
    }
    work(bound(0), bound(part));
    for (std::future<void>& other : others) other.get();
}

std::size_t n_parts(std::size_t n_frames, int n_threads) {
    const std::size_t worthwhile = std::max<std::size_t>(1, n_frames / kMinFramesPerThread);
    return std::min(static_cast<std::size_t>(std::max(1, n_threads)), worthwhile);
}

}  // namespace

LogMel::LogMel(const LogMelConfig& config, const std::vector<float>& window,
               const std::vector<float>& filterbank)
    : fft_(positive(config.n_fft, "n_fft")),
      hop_(positive(config.hop_length, "hop_length")),
      preemph_(config.preemph),
      guard_(static_cast<double>(config.log_zero_guard)),
      per_feature_(config.per_feature),
      window_(window.begin(), window.end()) {
    const std::size_t n_mels = positive(config.n_mels, "n_mels");
    const std::size_t win_length = positive(config.win_length, "win_length");
    if (win_length > fft_.size()) {
        throw std::invalid_argument("win_length " + std::to_string(win_length) + " is longer than n_fft " +
                                    std::to_string(fft_.size()));
    }
    require_size(window.size(), win_length, "window");
    const std::size_t n_bins = fft_.n_bins();
    require_size(filterbank.size(), n_mels * n_bins, "filterbank");

    const auto is_non_zero = [](float weight) { return weight != 0.0F; };
    filters_.reserve(n_mels);
    for (auto row = filterbank.begin(); row != filterbank.end(); row += static_cast<std::ptrdiff_t>(n_bins)) {
        const auto row_end = row + static_cast<std::ptrdiff_t>(n_bins);
        const auto first = std::find_if(row, row_end, is_non_zero);
        const auto last =
            std::find_if(std::make_reverse_iterator(row_end), std::make_reverse_iterator(first), is_non_zero)
                .base();
        filters_.push_back(
            {static_cast<std::size_t>(first - row), static_cast<std::size_t>(last - first), weights_.size()});
        weights_.insert(weights_.end(), first, last);
    }
}

void LogMel::compute(const float* samples, std::size_t n, float* out, int n_threads) const {
    const std::size_t frames = n_frames(n);
    rows({samples, 0, n}, 0, frames, out, n_threads);
    normalise(out, frames, n_threads);
}

bool LogMel::reaches_back_to(const Part& part, std::size_t first) const noexcept {
    // Pre-emphasis looks one sample further back than the window.
    return part.begin == 0 || part.begin + before_centre() + 1 <= first * hop_;
}

// Parts of frames are independent of one another, as are parts of mel bins: how the work is cut changes no
// sum's order.
void LogMel::rows(const Part& part, std::size_t first, std::size_t count, float* out, int n_threads) const {
    if (count == 0) return;
    in_parallel(count, n_parts(count, n_threads), [&](std::size_t begin, std::size_t end) {
        log_mel_rows(part, first + begin, first + end, out + begin * n_mels());
    });
}

void LogMel::normalise(float* rows, std::size_t n_frames, int n_threads) const {
    if (!per_feature_ || n_frames == 0) return;
    in_parallel(n_mels(), std::min(n_parts(n_frames, n_threads), n_mels()),
                [&](std::size_t begin, std::size_t end) { normalise_columns(n_frames, begin, end, rows); });
}

void LogMel::log_mel_rows(const Part& part, std::size_t begin, std::size_t end, float* out) const {
    std::vector<Pair> signal(fft_.size());  // what lies outside the window stays zero
    std::vector<Pair> power(fft_.n_bins());
    RealFft::Workspace work = fft_.workspace();
    for (std::size_t frame = begin; frame < end; frame += 2) {
        // A last frame without a partner is computed beside a stale one; only its own half is read.
        const bool has_second = frame + 1 < end;
        window_frame(part, frame, &Pair::a, signal);
        if (has_second) window_frame(part, frame + 1, &Pair::b, signal);
        fft_.power(signal.data(), power.data(), work);

        float* row_a = out + (frame - begin) * n_mels();
        float* row_b = has_second ? row_a + n_mels() : nullptr;
        for (std::size_t m = 0; m < n_mels(); ++m) {
            const Filter& filter = filters_[m];
            const double* weight = weights_.data() + filter.first_weight;
            const Pair* bin = power.data() + filter.first_bin;
            Pair sum{guard_, guard_};
            for (std::size_t i = 0; i < filter.n_bins; ++i) {
                sum.a += weight[i] * bin[i].a;
                sum.b += weight[i] * bin[i].b;
            }
            row_a[m] = std::log(static_cast<float>(sum.a));
            if (row_b != nullptr) row_b[m] = std::log(static_cast<float>(sum.b));
        }
    }
}

void LogMel::window_frame(const Part& part, std::size_t frame, double Pair::* half,
                          std::vector<Pair>& signal) const noexcept {
    // Frame t is centred at sample t * hop, the window at the middle of the frame.
    const std::size_t win_length = window_.size();
    const std::size_t left = (fft_.size() - win_length) / 2;
    const std::size_t before = before_centre();
    const std::size_t centre = frame * hop_;
    const std::size_t n = part.begin + part.n;
    // Window positions [begin, end) lie over samples, the first of them over sample `from` of the signal.
    const std::size_t begin = std::min(win_length, before - std::min(before, centre));
    const std::size_t from = centre + begin - before;
    const std::size_t end = begin + std::min(win_length - begin, n - std::min(n, from));

    Pair* to = signal.data() + left;
    const double* window = window_.data();
    for (std::size_t i = 0; i < begin; ++i) to[i].*half = 0.0;
    for (std::size_t i = end; i < win_length; ++i) to[i].*half = 0.0;
    std::size_t i = begin;
    if (from == 0 && i < end) {
        to[i].*half = window[i] * static_cast<double>(part.samples[0]);
        ++i;
    }
    for (const float* x = part.samples + (from - part.begin) + (i - begin); i < end; ++i, ++x) {
        const float shifted = preemph_ * x[-1];  // single precision, as NeMo
        to[i].*half = window[i] * static_cast<double>(x[0] - shifted);
    }
}

void LogMel::normalise_columns(std::size_t n_frames, std::size_t begin, std::size_t end, float* out) const {
    const std::size_t width = end - begin;
    std::vector<double> mean(width, 0.0);
    std::vector<double> scale(width, 0.0);
    const auto row = [&](std::size_t frame) { return out + frame * n_mels() + begin; };

    const double count = static_cast<double>(n_frames);
    for (std::size_t t = 0; t < n_frames; ++t) {
        const float* x = row(t);
        for (std::size_t m = 0; m < width; ++m) mean[m] += static_cast<double>(x[m]);
    }
    for (double& value : mean) value /= count;

    for (std::size_t t = 0; t < n_frames; ++t) {
        const float* x = row(t);
        for (std::size_t m = 0; m < width; ++m) {
            const double difference = static_cast<double>(x[m]) - mean[m];
            scale[m] += difference * difference;
        }
    }
    for (double& value : scale) {
        // One frame has no deviation; NeMo replaces the NaN of 0 / 0 by zero.
        const double deviation = n_frames > 1 ? std::sqrt(value / (count - 1.0)) : 0.0;
        value = 1.0 / (deviation + kStdFloor);
    }

    for (std::size_t t = 0; t < n_frames; ++t) {
        float* x = row(t);
        for (std::size_t m = 0; m < width; ++m) {
            x[m] = static_cast<float>((static_cast<double>(x[m]) - mean[m]) * scale[m]);
        }
    }
}

}  // namespace asr
