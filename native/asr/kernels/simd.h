// Vectors of floats for the kernels, as wide as the instruction set that a file is compiled for.
//
// Every kernel is compiled several times, once for each set (CMakeLists.txt), with ASR_SET naming the set and
// the namespace. So a kernel's file must not instantiate templates of the standard library: the linker keeps
// one copy of each, perhaps that of a set which the processor does not have.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace asr::ASR_SET {

#if defined(__AVX512F__)
inline constexpr int kWidth = 16;  // floats in a vector
inline constexpr int kRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kWidth = 8;
inline constexpr int kRegisters = 16;
#else
inline constexpr int kWidth = 4;
inline constexpr int kRegisters = 32;  // NEON
#endif

// Whether products of integers are faster than those of floats (integers.h).
#if defined(__AVX__) || defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool kIntegers = true;
#else
inline constexpr bool kIntegers = false;
#endif

typedef float Vector __attribute__((vector_size(kWidth * 4)));
typedef std::int32_t Integers __attribute__((vector_size(kWidth * 4)));
typedef float Four __attribute__((vector_size(16)));

inline Vector load(const float* from) {
    Vector v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}
inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof(v)); }
inline Four load4(const float* from) {
    Four v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}
inline void store4(float* to, Four v) { std::memcpy(to, &v, sizeof(v)); }
// The first n floats of a vector, 0 behind them.
inline Vector load_some(const float* from, int n) {
    if (n == kWidth) return load(from);
    Vector v = {};
    std::memcpy(&v, from, static_cast<std::size_t>(n) * sizeof(float));
    return v;
}
inline void store_some(float* to, Vector v, int n) {
    if (n == kWidth) return store(to, v);
    std::memcpy(to, &v, static_cast<std::size_t>(n) * sizeof(float));
}
// n floats in vectors, the last of them perhaps in part: body(first, how many).
template <typename Body>
void vectors(std::int64_t n, Body&& body) {
    std::int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) body(i, kWidth);
    if (i < n) body(i, static_cast<int>(n - i));
}
inline Vector broadcast(float value) { return Vector{} + value; }

// Signed bytes, and halves, as floats. GCC makes many instructions of a conversion it finds itself.
inline Vector load_bytes(const char* from) {
#if defined(__AVX512F__)
    // The forms without a mask trip GCC's warning of uninitialised values.
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Vector>(
        _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_maskz_cvtepi8_epi32(0xFFFF, bytes)));
#elif defined(__AVX__)
    return reinterpret_cast<Vector>(
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))));
#else
    typedef std::int8_t Bytes __attribute__((vector_size(kWidth)));
    Bytes bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    return __builtin_convertvector(bytes, Vector);
#endif
}
inline float load_half(const char* from) {
#if defined(__AVX__)
    std::uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
#else
    __fp16 half;
    std::memcpy(&half, from, sizeof(half));
    return static_cast<float>(half);
#endif
}

// b where either is NaN.
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

inline float sum(Vector v) {
    Four parts[kWidth / 4];
    std::memcpy(parts, &v, sizeof(v));
    for (int n = kWidth / 8; n > 0; n /= 2) {
        for (int i = 0; i < n; ++i) parts[i] += parts[i + n];
    }
    return (parts[0][0] + parts[0][1]) + (parts[0][2] + parts[0][3]);
}
inline float largest(Vector v) {
    float most = v[0];
    for (int i = 1; i < kWidth; ++i) most = v[i] > most ? v[i] : most;
    return most;
}

// e^x to 2 units in the last place; 0 below -87.3, infinity above 88.7, NaN of NaN.
inline Vector exp(Vector x) {
    const Vector low = broadcast(-87.3F), high = broadcast(88.7F);
    const Vector above = larger(low, x), inside = above > high ? high : above;
    // x = n ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to an integer.
    const Vector magic = broadcast(12582912.0F);
    const Vector n = (inside * 1.44269504F + magic) - magic;
    const Vector r = (inside - n * 0.693359375F) + n * 2.12194440e-4F;
    Vector p = broadcast(1.9875691500e-4F);
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = (p * r) * r + r + 1.0F;
    const Integers exponent = (__builtin_convertvector(n, Integers) + 127) << 23;
    Vector scale;
    std::memcpy(&scale, &exponent, sizeof(scale));
    const Vector y = p * scale;
    return x < low ? Vector{} : (x > high ? broadcast(__builtin_inff()) : y);
}

inline Vector sigmoid(Vector x) { return 1.0F / (1.0F + exp(-x)); }
inline Vector silu(Vector x) { return x * sigmoid(x); }

// Lanes of a (0 to 3) and b (4 to 7). GCC before 12 does not have it by the name that Clang gave it.
template <int A, int B, int C, int D>
Four pick(Four a, Four b) {
#if defined(__clang__) || __GNUC__ >= 12
    return __builtin_shufflevector(a, b, A, B, C, D);
#else
    typedef std::int32_t Lanes __attribute__((vector_size(16)));
    return __builtin_shuffle(a, b, Lanes{A, B, C, D});
#endif
}

// Columns become rows: four rows of four.
inline void transpose(Four& a, Four& b, Four& c, Four& d) {
    const Four ab_low = pick<0, 4, 1, 5>(a, b), ab_high = pick<2, 6, 3, 7>(a, b);
    const Four cd_low = pick<0, 4, 1, 5>(c, d), cd_high = pick<2, 6, 3, 7>(c, d);
    a = pick<0, 1, 4, 5>(ab_low, cd_low);
    b = pick<2, 3, 6, 7>(ab_low, cd_low);
    c = pick<0, 1, 4, 5>(ab_high, cd_high);
    d = pick<2, 3, 6, 7>(ab_high, cd_high);
}

}  // namespace asr::ASR_SET
