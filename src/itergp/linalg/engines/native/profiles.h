// Profiles of stationary kernels as functions of the squared distance s, and their slopes. The constants of the profiles are
// inside the features. Each instruction set has its own copy.
#pragma once
#include "tiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {

// s becomes the kernel, for N vectors in step
template <typename T, int KIND, int N>
inline void profile(Vec<T> (&s)[N], T alpha) {
    if constexpr (KIND == RBF) {
        exp_minus<T, N>(s);
    } else if constexpr (KIND == RATIONAL_QUADRATIC) {
        for (int i = 0; i < N; ++i) s[i] = alpha * log_one_plus<T>(s[i]);
        exp_minus<T, N>(s);
    } else {
        Vec<T> r[N], e[N];
        for (int i = 0; i < N; ++i) e[i] = r[i] = square_root<T>(s[i]);
        exp_minus<T, N>(e);
        for (int i = 0; i < N; ++i) {
            if constexpr (KIND == MATERN12) s[i] = e[i];
            else if constexpr (KIND == MATERN32) s[i] = e[i] + r[i] * e[i];
            else s[i] = e[i] + (r[i] + s[i] * T(1.0 / 3.0)) * e[i];
        }
    }
}

// The same, for a kind that is known at run time
template <typename T, int N>
inline void profile_of(int kind, Vec<T> (&s)[N], T alpha) {
    switch (kind) {
        case RBF: return profile<T, RBF, N>(s, alpha);
        case MATERN12: return profile<T, MATERN12, N>(s, alpha);
        case MATERN32: return profile<T, MATERN32, N>(s, alpha);
        case MATERN52: return profile<T, MATERN52, N>(s, alpha);
        default: return profile<T, RATIONAL_QUADRATIC, N>(s, alpha);
    }
}

// dP/ds at s, where the profile is P; for Matern 1/2 at s = 0, where it has none, zero
template <typename T>
inline Vec<T> slope_of(int kind, Vec<T> s, Vec<T> P, T alpha) {
    switch (kind) {
        case RBF: return -P;
        case MATERN12: return s > T(0) ? T(-0.5) * P / square_root<T>(s) : Vec<T>{};
        case MATERN32: return T(-0.5) * P / (square_root<T>(s) + T(1));
        case MATERN52: {
            const Vec<T> r = square_root<T>(s);
            return T(-1.0 / 6.0) * (r + T(1)) * P / (r + T(1) + s * T(1.0 / 3.0));
        }
        default: return -alpha * P / (s + T(1));
    }
}

// dP/dalpha of the rational quadratic profile (1 + s)^-alpha, s = |x - x'|^2 / (2 alpha)
template <typename T>
inline Vec<T> slope_in_alpha(Vec<T> s, Vec<T> P) {
    return P * (s / (s + T(1)) - log_one_plus<T>(s));
}

}  // namespace ITERGP_ISA
}  // namespace itergp
