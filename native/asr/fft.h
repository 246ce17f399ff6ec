#pragma once

#include <cstddef>
#include <vector>

namespace asr {

/// The same sample, or the same bin, of two signals that are transformed together. Every operation acts on
/// both halves alike, so a compiler can keep a pair in one 128-bit register of any instruction set.
struct Pair {
    double a = 0.0;
    double b = 0.0;
};

/// Power spectra of real signals, two at a time, in double precision.
///
/// A real signal of length n is read as n/2 complex numbers (even samples real, odd samples imaginary),
/// transformed by a radix-4 Stockham FFT (self-sorting: no bit reversal) and separated into the n/2 + 1 bins
/// of the real transform. The object is immutable once built and may be shared by threads; each thread brings
/// its own Workspace. The two halves of a pair never influence each other.
class RealFft {
  public:
    /// What one transform writes on its way; reused from call to call.
    struct Workspace {
        std::vector<Pair> ping;
        std::vector<Pair> pong;
    };

    /// Throws std::invalid_argument unless `n` is a power of two and at least 4.
    explicit RealFft(std::size_t n);

    std::size_t size() const noexcept { return n_; }
    std::size_t n_bins() const noexcept { return n_ / 2 + 1; }
    Workspace workspace() const;

    /// `signal`: n pairs, left as they are. `power`: n/2 + 1 pairs, |X[k]|^2. `work`: from workspace().
    void power(const Pair* signal, Pair* power, Workspace& work) const noexcept;

  private:
    struct Twiddle {
        double re = 1.0;
        double im = 0.0;
    };

    std::size_t n_;
    std::vector<Twiddle> stages_;  // radix-4 stages in order; w, w^2 and w^3 of every butterfly
    std::vector<Twiddle> split_;   // exp(-2 pi i k / n) for k = 0 .. n/4
};

}  // namespace asr
