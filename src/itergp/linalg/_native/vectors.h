// Vectors of the machine's width, and exp, sqrt and log on them. Each instruction set has its own copy (ITERGP_ISA).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define ITERGP_VECTOR_BYTES 64
#elif defined(__AVX__)
#define ITERGP_VECTOR_BYTES 32
#else
#define ITERGP_VECTOR_BYTES 16
#endif

namespace itergp {
namespace ITERGP_ISA {

template <typename T>
struct VectorOf {
    typedef T type __attribute__((vector_size(ITERGP_VECTOR_BYTES)));
};
template <typename T>
using Vec = typename VectorOf<T>::type;
template <typename T>
using Int = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <typename T>
constexpr int width = ITERGP_VECTOR_BYTES / sizeof(T);

template <typename T>
inline Vec<T> load(const T* from) {
    Vec<T> v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}

template <typename T>
inline void save(T* to, Vec<T> v) {
    std::memcpy(to, &v, sizeof(v));
}

template <typename To, typename From>
inline To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

template <typename T>
inline Vec<T> square_root(Vec<T> x) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return bits<Vec<T>>(_mm512_sqrt_ps(bits<__m512>(x)));
    else return bits<Vec<T>>(_mm512_sqrt_pd(bits<__m512d>(x)));
#elif defined(__AVX__)
    if constexpr (sizeof(T) == 4) return bits<Vec<T>>(_mm256_sqrt_ps(bits<__m256>(x)));
    else return bits<Vec<T>>(_mm256_sqrt_pd(bits<__m256d>(x)));
#elif defined(__SSE2__)
    if constexpr (sizeof(T) == 4) return bits<Vec<T>>(_mm_sqrt_ps(bits<__m128>(x)));
    else return bits<Vec<T>>(_mm_sqrt_pd(bits<__m128d>(x)));
#else
    for (int l = 0; l < width<T>; ++l) x[l] = std::sqrt(x[l]);
    return x;
#endif
}

// exp(-x) for x >= 0: 2^n * exp(r) with |r| <= log(2) / 2. What would be denormal becomes the smallest normal number's size.
template <typename T>
inline Vec<T> exp_minus(Vec<T> x) {
    if constexpr (sizeof(T) == 4) {
        x = x > 87.0f ? Vec<T>{} + 87.0f : x;
        const Vec<T> shifted = x * -1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: the integer sits in the low bits
        const Vec<T> n = shifted - 12582912.0f;
        Vec<T> r = -x - n * 0.693359375f;
        r = r - n * -2.12194440e-4f;
        Vec<T> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        const Vec<T> e = (p * r) * r + r + 1.0f;
        return bits<Vec<T>>(bits<Vec<Int<T>>>(e) + (bits<Vec<Int<T>>>(shifted) << 23));
    } else {
        x = x > 708.0 ? Vec<T>{} + 708.0 : x;
        const Vec<T> shifted = x * -1.4426950408889634074 + 6755399441055744.0;  // 1.5 * 2^52
        const Vec<T> n = shifted - 6755399441055744.0;
        Vec<T> r = -x - n * 6.93147180369123816490e-01;
        r = r - n * 1.90821492927058770002e-10;
        Vec<T> p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        const Vec<T> e = (p * r) * r + r + 1.0;
        return bits<Vec<T>>(bits<Vec<Int<T>>>(e) + (bits<Vec<Int<T>>>(shifted) << 52));
    }
}

// log(1 + x) for x >= 0: exponent and mantissa of u = 1 + x, then 2 atanh((m - 1) / (m + 1)), corrected for the rounding of u.
template <typename T>
inline Vec<T> log_one_plus(Vec<T> x) {
    const Vec<T> u = x + T(1);
    const Vec<T> lost = (x - (u - T(1))) / u;
    constexpr Int<T> half = sizeof(T) == 4 ? Int<T>(0x3f3504f3) : Int<T>(0x3fe6a09e667f3bcdLL);  // sqrt(1/2)
    constexpr int mantissa = sizeof(T) == 4 ? 23 : 52;
    const Vec<Int<T>> raw = bits<Vec<Int<T>>>(u);
    const Vec<Int<T>> exponent = (raw - half) >> mantissa;
    const Vec<T> m = bits<Vec<T>>(raw - (exponent << mantissa));
    const Vec<T> n = __builtin_convertvector(exponent, Vec<T>);
    const Vec<T> q = (m - T(1)) / (m + T(1)), q2 = q * q;
    Vec<T> series;
    if constexpr (sizeof(T) == 4) {
        series = q2 * T(1.0 / 9) + T(1.0 / 7);
    } else {
        series = q2 * T(1.0 / 23) + T(1.0 / 21);
        series = series * q2 + T(1.0 / 19);
        series = series * q2 + T(1.0 / 17);
        series = series * q2 + T(1.0 / 15);
        series = series * q2 + T(1.0 / 13);
        series = series * q2 + T(1.0 / 11);
        series = series * q2 + T(1.0 / 9);
        series = series * q2 + T(1.0 / 7);
    }
    series = series * q2 + T(1.0 / 5);
    series = series * q2 + T(1.0 / 3);
    series = series * q2 + T(1);
    return n * T(0.69314718055994530942) + (T(2) * q * series + lost);
}

}  // namespace ITERGP_ISA
}  // namespace itergp
