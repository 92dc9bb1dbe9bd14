// Gradients of weighted sums of a stationary kernel: distances by direct differences, profiles and their derivatives, and
// sums over columns. Rows lie in the lanes of vectors, so that a sum over columns needs no sum of lanes.
// Compiled once per instruction set, like tiles.cpp.
#include "gradients.h"

#include <algorithm>

#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

using Lanes = Vec<double>;
constexpr int W = width<double>;
constexpr int NV = 4;         // vectors of rows at once: enough chains of operations to overlap
constexpr int ROWS = NV * W;  // rows of a strip; its weights, ROWS x GROUP, stay in the first cache
constexpr int PAIR = 2;       // columns at once
constexpr int SOME = 32;      // columns of A and B at once
constexpr double FAR = 1e300;      // squared distances end here, so that none is infinite
constexpr double UNFELT = 1e-290;  // kernels below it count as 0: products with them would be denormal, and slow
static_assert(GROUP % ROWS == 0 && GROUP % PAIR == 0);

// v in a register: else the compiler would read it from memory again for each use, and wait for that
inline Lanes kept(Lanes v) {
#if defined(__x86_64__)
    asm("" : "+x"(v));
#endif
    return v;
}

inline double total(Lanes v) {
    double sum = 0.0;
    for (int l = 0; l < W; ++l) sum += v[l];
    return sum;
}

// The profile k, its derivative in s, and `bend`, its derivative in alpha. Where two points are the same, the kernel
// exp(-r) has no derivative; there it counts as 0, as under autodiff (`distance` in distances.py).
template <int KIND>
inline void profile(const Lanes (&s)[NV], double alpha, Lanes (&k)[NV], Lanes (&slope)[NV], Lanes (&bend)[NV]) {
    if constexpr (KIND == RBF) {
        for (int v = 0; v < NV; ++v) k[v] = s[v];
        exp_minus<double, NV>(k);
        for (int v = 0; v < NV; ++v) slope[v] = -k[v];
    } else if constexpr (KIND == RATIONAL_QUADRATIC) {
        for (int v = 0; v < NV; ++v) bend[v] = log_one_plus<double>(s[v]);
        for (int v = 0; v < NV; ++v) k[v] = alpha * bend[v];
        exp_minus<double, NV>(k);
        for (int v = 0; v < NV; ++v) {
            const Lanes share = k[v] / (s[v] + 1.0);
            slope[v] = -alpha * share;
            bend[v] = s[v] * share - k[v] * bend[v];
        }
    } else {
        Lanes r[NV];
        for (int v = 0; v < NV; ++v) k[v] = r[v] = square_root<double>(s[v]);
        exp_minus<double, NV>(k);
        for (int v = 0; v < NV; ++v) {
            const Lanes e = k[v], zero = {};
            if constexpr (KIND == MATERN12) {
                slope[v] = s[v] > zero ? -0.5 * e / r[v] : zero;
            } else if constexpr (KIND == MATERN32) {
                k[v] = e + r[v] * e;
                slope[v] = -0.5 * e;
            } else {
                k[v] = e + (r[v] + s[v] * (1.0 / 3.0)) * e;
                slope[v] = (r[v] * e + e) * (-1.0 / 6.0);
            }
        }
    }
}

// weights[i0 * GROUP + j * ROWS + i] = sum_q A_iq B_jq for the strips i0, over some q at a time, which stay in the first cache
void weigh(const double* A, const double* B, int rank, double* __restrict weights) {
    for (int begin = 0; begin < rank; begin += SOME) {
        const int end = begin + SOME < rank ? begin + SOME : rank;
        double* weight = weights;
        for (int i = 0; i < GROUP; i += ROWS) {
            for (int j = 0; j < GROUP; j += PAIR) {
                Lanes sum[PAIR][NV] = {};
                for (int q = begin; q < end; ++q) {
                    for (int v = 0; v < NV; ++v) {
                        const Lanes a = kept(load<double>(A + q * GROUP + i + v * W));
                        for (int c = 0; c < PAIR; ++c) sum[c][v] += a * B[q * GROUP + j + c];
                    }
                }
                for (int c = 0; c < PAIR; ++c) {
                    for (int v = 0; v < NV; ++v, weight += W)
                        save<double>(weight, begin ? load<double>(weight) + sum[c][v] : sum[c][v]);
                }
            }
        }
    }
}

// The same for a symmetric W: twice its entries below the diagonal, which stand for those above it too
void weigh_symmetric(const double* W, std::ptrdiff_t points, std::ptrdiff_t p, std::ptrdiff_t g, double* __restrict weight) {
    for (int i0 = 0; i0 < GROUP; i0 += ROWS) {
        for (int b = 0; b < GROUP; ++b) {
            const std::ptrdiff_t j = g * GROUP + b;
            for (int a = 0; a < ROWS; ++a, ++weight) {
                const std::ptrdiff_t i = p * GROUP + i0 + a;
                *weight = i >= points || i < j ? 0.0 : (i > j ? 2.0 : 1.0) * W[j * points + i];
            }
        }
    }
}

// slopes[j * ROWS + i] = W_ij k'(s_ij), and the totals of the strip
template <int KIND>
void evaluate(const Part& part, const double* left, const double* right, const double* weights, double* __restrict slopes,
              double* totals) {
    Lanes in_weight = {}, in_alpha = {}, in_distance = {};
    for (int j = 0; j < GROUP; j += PAIR) {
        Lanes s[PAIR][NV] = {};
        for (int f = 0; f < part.features; ++f) {
            for (int v = 0; v < NV; ++v) {
                const Lanes x = kept(load<double>(left + f * GROUP + v * W));
                for (int c = 0; c < PAIR; ++c) {
                    const Lanes difference = x - right[f * GROUP + j + c];
                    s[c][v] += difference * difference;
                }
            }
        }
        for (int c = 0; c < PAIR; ++c) {
            Lanes k[NV], slope[NV], bend[NV];
            for (int v = 0; v < NV; ++v) s[c][v] = at_most<double>(s[c][v], FAR);
            profile<KIND>(s[c], part.alpha, k, slope, bend);
            for (int v = 0; v < NV; ++v) {
                const Lanes zero = {}, weight = k[v] > UNFELT ? load<double>(weights + (j + c) * ROWS + v * W) : zero;
                const Lanes m = weight * slope[v];
                in_weight += weight * k[v];
                if constexpr (KIND == RATIONAL_QUADRATIC) in_alpha += weight * bend[v];
                in_distance += m * s[c][v];
                save<double>(slopes + (j + c) * ROWS + v * W, m);
            }
        }
    }
    totals[0] += total(in_weight);
    totals[1] += total(in_alpha);
    totals[2] += total(in_distance);
}

void evaluate_part(const Part& part, const double* left, const double* right, const double* weights, double* slopes,
                   double* totals) {
    switch (part.kind) {
        case RBF: return evaluate<RBF>(part, left, right, weights, slopes, totals);
        case MATERN12: return evaluate<MATERN12>(part, left, right, weights, slopes, totals);
        case MATERN32: return evaluate<MATERN32>(part, left, right, weights, slopes, totals);
        case MATERN52: return evaluate<MATERN52>(part, left, right, weights, slopes, totals);
        default: return evaluate<RATIONAL_QUADRATIC>(part, left, right, weights, slopes, totals);
    }
}

// out_ic += sum_j M_ij (f_i - f_j)_c, and, for each feature c, the total of M_ij (f_i - f_j)_c^2
template <bool PER_FEATURE>
void differentiate(int features, const double* left, const double* right, const double* M, double* __restrict out,
                   double* totals) {
    for (int f = 0; f < features; ++f, left += GROUP, right += GROUP, out += GROUP) {
        Lanes x[NV], sum[NV], square[NV] = {};
        for (int v = 0; v < NV; ++v) x[v] = load<double>(left + v * W);
        for (int v = 0; v < NV; ++v) sum[v] = load<double>(out + v * W);
        for (int j = 0; j < GROUP; ++j) {
            for (int v = 0; v < NV; ++v) {
                const Lanes difference = x[v] - right[j], weighted = load<double>(M + j * ROWS + v * W) * difference;
                sum[v] += weighted;
                if constexpr (PER_FEATURE) square[v] += weighted * difference;
            }
        }
        for (int v = 0; v < NV; ++v) save<double>(out + v * W, sum[v]);
        if constexpr (PER_FEATURE) totals[f] += total((square[0] + square[1]) + (square[2] + square[3]));
    }
}

}  // namespace

void gradient(const Gradient& task, Range range, std::ptrdiff_t first, std::ptrdiff_t last) {
    alignas(64) double weights[GROUP * GROUP], M[ROWS * GROUP];
    const std::ptrdiff_t stride = std::ptrdiff_t(task.features) * GROUP;
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        for (std::ptrdiff_t g = first; g < (task.W ? std::min(last, p + 1) : last); ++g) {
            if (task.W) weigh_symmetric(task.W, task.points, p, g, weights);
            else weigh(task.A + p * task.rank * GROUP, task.B + g * task.rank * GROUP, task.rank, weights);
            for (int i = 0; i < GROUP; i += ROWS) {
                const double *left = task.left + p * stride + i, *right = task.right + g * stride;
                double *slopes = task.slopes + p * stride + i, *sums = task.sums + p * (task.n_parts * TOTALS + task.features);
                for (int k = 0; k < task.n_parts; ++k) {
                    const Part& part = task.parts[k];
                    evaluate_part(part, left, right, weights + i * GROUP, M, sums);
                    if (task.per_feature) differentiate<true>(part.features, left, right, M, slopes, sums + TOTALS);
                    else differentiate<false>(part.features, left, right, M, slopes, nullptr);
                    left += part.features * GROUP;
                    right += part.features * GROUP;
                    slopes += part.features * GROUP;
                    sums += TOTALS + part.features;
                }
            }
        }
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
