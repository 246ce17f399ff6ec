// Products of small integers: vectors of int32 sums of the products of neighbouring values.
//
// Of bytes, four to a sum, where the processor has an instruction for them (AVX-512 VNNI, AVX-VNNI, the dot
// products of ARMv8.2); else of 16 bits, two to a sum, which x86 always has.
#pragma once

#include "asr/kernels/simd.h"

namespace asr::ASR_SET {

static_assert(kIntegers, "these kernels need products of integers");

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// One side of the product is unsigned: values of frames are stored with this added.
inline constexpr int kOffset = 128;
typedef std::uint8_t Feature;
typedef std::int8_t Weight;
#elif defined(__AVX__)
inline constexpr int kOffset = 0;
typedef std::int16_t Feature;
typedef std::int16_t Weight;
#else
inline constexpr int kOffset = 0;
typedef std::int8_t Feature;
typedef std::int8_t Weight;
#endif

inline constexpr int kGroup = 4 / sizeof(Weight);  // values in a lane

inline Integers load(const std::int32_t* from) {
    Integers v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}
inline void store(std::int32_t* to, Integers v) { std::memcpy(to, &v, sizeof(v)); }
inline Integers bits(Vector v) {
    Integers out;
    std::memcpy(&out, &v, sizeof(out));
    return out;
}

// The same group of values in every lane.
inline Integers broadcast_group(const Feature* from) {
    std::int32_t group;
    std::memcpy(&group, from, sizeof(group));
    return Integers{} + group;
}

// 16 bytes of each of kWidth / 4 rows.
template <typename Row>
Integers load_rows(Row&& row) {
    const auto bytes = [&](int i) {
        Four v;
        std::memcpy(&v, row(i), sizeof(v));
        return v;
    };
#if defined(__AVX512F__)
    __m512 v = _mm512_zextps128_ps512(bytes(0));
    v = _mm512_maskz_insertf32x4(0xFFFF, v, bytes(1), 1);
    v = _mm512_maskz_insertf32x4(0xFFFF, v, bytes(2), 2);
    return reinterpret_cast<Integers>(_mm512_maskz_insertf32x4(0xFFFF, v, bytes(3), 3));
#elif defined(__AVX__)
    return reinterpret_cast<Integers>(_mm256_insertf128_ps(_mm256_castps128_ps256(bytes(0)), bytes(1), 1));
#else
    return reinterpret_cast<Integers>(bytes(0));
#endif
}

// Numbers of half precision as float32.
inline Vector load_halves(const std::uint16_t* from) {
#if defined(__AVX512F__)
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return reinterpret_cast<Vector>(_mm512_maskz_cvtph_ps(0xFFFF, halves));
#elif defined(__AVX__)
    return reinterpret_cast<Vector>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
    return reinterpret_cast<Vector>(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))));
#endif
}

// Within each 128 bits, columns become rows: four rows of four lanes.
inline void transpose(Integers& a, Integers& b, Integers& c, Integers& d) {
#if defined(__AVX512F__)
    const auto low = [](Integers x, Integers y) {
        return _mm512_maskz_unpacklo_epi32(0xFFFF, reinterpret_cast<__m512i>(x),
                                           reinterpret_cast<__m512i>(y));
    };
    const auto high = [](Integers x, Integers y) {
        return _mm512_maskz_unpackhi_epi32(0xFFFF, reinterpret_cast<__m512i>(x),
                                           reinterpret_cast<__m512i>(y));
    };
    const __m512i ab_low = low(a, b), ab_high = high(a, b), cd_low = low(c, d), cd_high = high(c, d);
    a = reinterpret_cast<Integers>(_mm512_maskz_unpacklo_epi64(0xFF, ab_low, cd_low));
    b = reinterpret_cast<Integers>(_mm512_maskz_unpackhi_epi64(0xFF, ab_low, cd_low));
    c = reinterpret_cast<Integers>(_mm512_maskz_unpacklo_epi64(0xFF, ab_high, cd_high));
    d = reinterpret_cast<Integers>(_mm512_maskz_unpackhi_epi64(0xFF, ab_high, cd_high));
#elif defined(__AVX__)
    const auto low = [](Integers x, Integers y) {
        return _mm256_unpacklo_epi32(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(y));
    };
    const auto high = [](Integers x, Integers y) {
        return _mm256_unpackhi_epi32(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(y));
    };
    const __m256i ab_low = low(a, b), ab_high = high(a, b), cd_low = low(c, d), cd_high = high(c, d);
    a = reinterpret_cast<Integers>(_mm256_unpacklo_epi64(ab_low, cd_low));
    b = reinterpret_cast<Integers>(_mm256_unpackhi_epi64(ab_low, cd_low));
    c = reinterpret_cast<Integers>(_mm256_unpacklo_epi64(ab_high, cd_high));
    d = reinterpret_cast<Integers>(_mm256_unpackhi_epi64(ab_high, cd_high));
#else
    Four f[4];
    std::memcpy(&f[0], &a, sizeof(a));
    std::memcpy(&f[1], &b, sizeof(b));
    std::memcpy(&f[2], &c, sizeof(c));
    std::memcpy(&f[3], &d, sizeof(d));
    transpose(f[0], f[1], f[2], f[3]);
    std::memcpy(&a, &f[0], sizeof(a));
    std::memcpy(&b, &f[1], sizeof(b));
    std::memcpy(&c, &f[2], sizeof(c));
    std::memcpy(&d, &f[3], sizeof(d));
#endif
}

// Four bytes in each lane, as one group of four or as two groups of two, `stride` apart.
inline void store_groups(Weight* to, std::int64_t stride, Integers bytes) {
    if constexpr (kGroup == 4) {
        std::memcpy(to, &bytes, sizeof(bytes));
    } else {
        const Integers low = ((bytes << 24 >> 24) & 0xFFFF) | (bytes << 16 >> 24 << 16);
        const Integers high = ((bytes << 8 >> 24) & 0xFFFF) | (bytes >> 24 << 16);
        std::memcpy(to, &low, sizeof(low));
        std::memcpy(to + stride, &high, sizeof(high));
    }
}

// sums + the products of each lane.
inline Integers dot(Integers sums, Integers features, Integers weights) {
#if defined(__AVX512F__)
    const auto x = reinterpret_cast<__m512i>(features), w = reinterpret_cast<__m512i>(weights);
#if defined(__AVX512VNNI__)
    return reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), x, w));
#else
    return sums + reinterpret_cast<Integers>(_mm512_madd_epi16(x, w));
#endif
#elif defined(__AVX__)
    const auto x = reinterpret_cast<__m256i>(features), w = reinterpret_cast<__m256i>(weights);
#if defined(__AVXVNNI__)
    return reinterpret_cast<Integers>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(sums), x, w));
#else
    return sums + reinterpret_cast<Integers>(_mm256_madd_epi16(x, w));
#endif
#else
    return reinterpret_cast<Integers>(vdotq_s32(reinterpret_cast<int32x4_t>(sums),
                                                reinterpret_cast<int8x16_t>(features),
                                                reinterpret_cast<int8x16_t>(weights)));
#endif
}

// The products of 32 values of a frame with as many bytes: in eight sums, or four.
#if defined(__AVX__)
typedef std::int32_t Partial __attribute__((vector_size(32)));
#else
typedef Integers Partial;
#endif

inline Partial dot_bytes(const Feature* features, const char* bytes) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)), zero = {};
    const auto times = [&](__m256i side) {
#if defined(__AVX512VNNI__)
        return reinterpret_cast<Partial>(_mm256_dpbusd_epi32(zero, side, w));
#else
        return reinterpret_cast<Partial>(_mm256_dpbusd_avx_epi32(zero, side, w));
#endif
    };
    return times(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(features))) -
           times(_mm256_set1_epi8(static_cast<char>(kOffset)));
#elif defined(__AVX__)
    const auto half = [&](int i) {
        const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(features) + i);
        const __m128i w = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i);
        return reinterpret_cast<Partial>(_mm256_madd_epi16(x, _mm256_cvtepi8_epi16(w)));
    };
    return half(0) + half(1);
#else
    Integers sums = {};
    for (int i = 0; i < 32; i += 16) {
        Integers x, w;
        std::memcpy(&x, features + i, sizeof(x));
        std::memcpy(&w, bytes + i, sizeof(w));
        sums = dot(sums, x, w);
    }
    return sums;
#endif
}

inline std::int32_t largest(Integers v) {
#if defined(__AVX__)
#if defined(__AVX512F__)
    const auto all = reinterpret_cast<__m512i>(v);
    const __m256i whole = _mm256_max_epi32(_mm512_maskz_extracti64x4_epi64(0xF, all, 0),
                                           _mm512_maskz_extracti64x4_epi64(0xF, all, 1));
#else
    const auto whole = reinterpret_cast<__m256i>(v);
#endif
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1)));
#else
    return vmaxvq_s32(reinterpret_cast<int32x4_t>(v));
#endif
}

// Values of -127 to 127 rounded to the nearest integer, to even where there are two, with kOffset.
inline void store_rounded(Feature* to, Vector v) {
#if defined(__AVX512F__)
    const __m512i rounded = _mm512_maskz_cvtps_epi32(0xFFFF, reinterpret_cast<__m512>(v));
    if constexpr (sizeof(Feature) == 1) {
        const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, rounded);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
    } else {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xFFFF, rounded));
    }
#elif defined(__AVX__)
    const __m256i rounded = _mm256_cvtps_epi32(reinterpret_cast<__m256>(v));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    if constexpr (sizeof(Feature) == 1) {
        const __m128i bytes = _mm_packs_epi16(words, words);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
    } else {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), words);
    }
#else
    const int16x4_t words = vmovn_s32(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(v)));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    std::memcpy(to, &bytes, 4);
#endif
}

}  // namespace asr::ASR_SET
