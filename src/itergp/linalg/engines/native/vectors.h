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

template <typename T>
inline Vec<T> at_most(Vec<T> x, T limit) {
    const Vec<T> most = Vec<T>{} + limit;
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return bits<Vec<T>>(_mm512_min_ps(bits<__m512>(x), bits<__m512>(most)));
    else return bits<Vec<T>>(_mm512_min_pd(bits<__m512d>(x), bits<__m512d>(most)));
#elif defined(__AVX__)
    if constexpr (sizeof(T) == 4) return bits<Vec<T>>(_mm256_min_ps(bits<__m256>(x), bits<__m256>(most)));
    else return bits<Vec<T>>(_mm256_min_pd(bits<__m256d>(x), bits<__m256d>(most)));
#else
    return x > most ? most : x;
#endif
}

// exp(-x) for x >= 0: 2^n * exp(r) with |r| <= log(2) / 2, for N vectors in step, so that their chains of operations overlap.
// What would be denormal becomes the size of the smallest normal number. log(2) is taken in two parts: rounded once, it
// would put all values a little too high.
template <typename T, int N>
inline void exp_minus(Vec<T> (&x)[N]) {
    constexpr bool single = sizeof(T) == 4;
    constexpr T magic = single ? T(12582912.0) : T(6755399441055744.0);  // 1.5 * 2^23 or 2^52: the integer sits in the low bits
    constexpr T limit = single ? T(87.0) : T(708.0);
    constexpr T log2_high = single ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T log2_low = single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
    constexpr T coefficients32[] = {T(1.9875691500e-4), T(1.3981999507e-3), T(8.3334519073e-3), T(4.1665795894e-2), T(1.6666665459e-1),
                                    T(5.0000001201e-1), T(1), T(1)};
    constexpr T coefficients64[] = {T(1.0 / 6227020800.0), T(1.0 / 479001600.0), T(1.0 / 39916800.0), T(1.0 / 3628800.0),
                                    T(1.0 / 362880.0),     T(1.0 / 40320.0),     T(1.0 / 5040.0),     T(1.0 / 720.0),
                                    T(1.0 / 120.0),        T(1.0 / 24.0),        T(1.0 / 6.0),        T(0.5),
                                    T(1),                  T(1)};
    constexpr int terms = single ? 8 : 14;
    const T* c = single ? coefficients32 : coefficients64;
    Vec<T> shifted[N], r[N], p[N];
    for (int i = 0; i < N; ++i) x[i] = at_most<T>(x[i], limit);
    for (int i = 0; i < N; ++i) shifted[i] = x[i] * T(-1.4426950408889634074) + magic;
    for (int i = 0; i < N; ++i) r[i] = shifted[i] - magic;
    for (int i = 0; i < N; ++i) {
        const Vec<T> n = r[i];
        r[i] = -x[i] - n * log2_high;
        r[i] = r[i] - n * log2_low;
    }
    for (int i = 0; i < N; ++i) p[i] = r[i] * c[0] + c[1];
    for (int t = 2; t < terms; ++t)
        for (int i = 0; i < N; ++i) p[i] = p[i] * r[i] + c[t];
    for (int i = 0; i < N; ++i) x[i] = bits<Vec<T>>(bits<Vec<Int<T>>>(p[i]) + (bits<Vec<Int<T>>>(shifted[i]) << (single ? 23 : 52)));
}

template <typename T>
inline Vec<T> exp_minus(Vec<T> x) {
    Vec<T> one[1] = {x};
    exp_minus<T, 1>(one);
    return one[0];
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
