#include "fft.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace asr {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

constexpr Pair operator+(Pair x, Pair y) noexcept { return {x.a + y.a, x.b + y.b}; }
constexpr Pair operator-(Pair x, Pair y) noexcept { return {x.a - y.a, x.b - y.b}; }
constexpr Pair operator*(Pair x, Pair y) noexcept { return {x.a * y.a, x.b * y.b}; }
constexpr Pair operator*(double s, Pair x) noexcept { return {s * x.a, s * x.b}; }

// A complex number of each of the two signals. In memory its parts are two neighbouring pairs, which is how
// an even and an odd sample of the input lie next to each other.
struct Complex {
    Pair re;
    Pair im;
};

constexpr Complex operator+(const Complex& x, const Complex& y) noexcept {
    return {x.re + y.re, x.im + y.im};
}
constexpr Complex operator-(const Complex& x, const Complex& y) noexcept {
    return {x.re - y.re, x.im - y.im};
}
constexpr Complex times(const Complex& x, double re, double im) noexcept {
    return {re * x.re - im * x.im, re * x.im + im * x.re};
}
constexpr Complex minus_i_times(const Complex& x) noexcept { return {x.im, Pair{} - x.re}; }

Complex load(const Pair* data, std::size_t index) noexcept { return {data[2 * index], data[2 * index + 1]}; }

void store(Pair* data, std::size_t index, const Complex& value) noexcept {
    data[2 * index] = value.re;
    data[2 * index + 1] = value.im;
}

struct Butterfly {
    Complex y0, y1, y2, y3;
};

// The four-point transform.
Butterfly butterfly4(const Pair* x, std::size_t index, std::size_t step) noexcept {
    const Complex x0 = load(x, index);
    const Complex x1 = load(x, index + step);
    const Complex x2 = load(x, index + 2 * step);
    const Complex x3 = load(x, index + 3 * step);
    const Complex sum02 = x0 + x2;
    const Complex dif02 = x0 - x2;
    const Complex sum13 = x1 + x3;
    const Complex dif13 = minus_i_times(x1 - x3);
    return {sum02 + sum13, dif02 + dif13, sum02 - sum13, dif02 - dif13};
}

}  // namespace

RealFft::RealFft(std::size_t n) : n_(n) {
    if (n < 4 || (n & (n - 1)) != 0) {
        throw std::invalid_argument("the FFT size must be a power of two and at least 4, not " +
                                    std::to_string(n));
    }
    const auto root = [](std::size_t k, std::size_t length) {
        const double angle = kTwoPi * static_cast<double>(k) / static_cast<double>(length);
        return Twiddle{std::cos(angle), -std::sin(angle)};
    };
    for (std::size_t length = n / 2; length > 4; length /= 4) {
        for (std::size_t p = 0; p < length / 4; ++p) {
            for (std::size_t power = 1; power <= 3; ++power) stages_.push_back(root(p * power, length));
        }
    }
    for (std::size_t k = 0; k <= n / 4; ++k) split_.push_back(root(k, n));
}

RealFft::Workspace RealFft::workspace() const { return {std::vector<Pair>(n_), std::vector<Pair>(n_)}; }

void RealFft::power(const Pair* signal, Pair* power, Workspace& work) const noexcept {
    const Pair* x = signal;
    Pair* y = work.ping.data();
    const auto next = [&]() noexcept {
        x = y;
        y = y == work.ping.data() ? work.pong.data() : work.ping.data();
    };

    // Each stage splits transforms of `length` points, `stride` of them interleaved, into four of a quarter
    // of the length; the last one or two factors need no twiddles.
    std::size_t length = n_ / 2;
    std::size_t stride = 1;
    const Twiddle* w = stages_.data();
    for (; length > 4; length /= 4, stride *= 4) {
        const std::size_t quarter = length / 4;
        for (std::size_t p = 0; p < quarter; ++p, w += 3) {
            const Twiddle w1 = w[0];
            const Twiddle w2 = w[1];
            const Twiddle w3 = w[2];
            for (std::size_t q = 0; q < stride; ++q) {
                const Butterfly b = butterfly4(x, q + stride * p, stride * quarter);
                const std::size_t to = q + stride * 4 * p;
                store(y, to, b.y0);
                store(y, to + stride, times(b.y1, w1.re, w1.im));
                store(y, to + 2 * stride, times(b.y2, w2.re, w2.im));
                store(y, to + 3 * stride, times(b.y3, w3.re, w3.im));
            }
        }
        next();
    }
    if (length == 4) {
        for (std::size_t q = 0; q < stride; ++q) {
            const Butterfly b = butterfly4(x, q, stride);
            store(y, q, b.y0);
            store(y, q + stride, b.y1);
            store(y, q + 2 * stride, b.y2);
            store(y, q + 3 * stride, b.y3);
        }
    } else {
        for (std::size_t q = 0; q < stride; ++q) {
            const Complex x0 = load(x, q);
            const Complex x1 = load(x, q + stride);
            store(y, q, x0 + x1);
            store(y, q + stride, x0 - x1);
        }
    }

    // Z = E + iO, where E and O are the spectra of the even and the odd samples: E[k] = (Z[k] + Z*[h-k]) / 2,
    // O[k] = -i (Z[k] - Z*[h-k]) / 2, X[k] = E[k] + w^k O[k] and X*[h-k] = E[k] - w^k O[k].
    const std::size_t half = n_ / 2;
    const Complex z0 = load(y, 0);
    const Pair first = z0.re + z0.im;
    const Pair last = z0.re - z0.im;
    power[0] = first * first;
    power[half] = last * last;
    for (std::size_t k = 1; k <= half / 2; ++k) {
        const Complex z = load(y, k);
        const Complex mirrored = load(y, half - k);
        const Complex conjugate{mirrored.re, Pair{} - mirrored.im};
        const Complex even = z + conjugate;
        const Complex odd = times(minus_i_times(z - conjugate), split_[k].re, split_[k].im);
        const Complex low = even + odd;
        const Complex high = even - odd;
        power[k] = 0.25 * (low.re * low.re + low.im * low.im);
        power[half - k] = 0.25 * (high.re * high.re + high.im * high.im);
    }
}

}  // namespace asr
