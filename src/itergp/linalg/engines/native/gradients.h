// Gradients of sum_ij W_ij k(x_i, x'_j), in float64, once per instruction set: for W = A B^T, or for a symmetric W.
#pragma once
#include "tiles.h"

namespace itergp {

constexpr int GROUP = 64;  // points lie in groups of so many, each group feature-major: [group][feature][point]
constexpr int TOTALS = 3;  // of each part: sum W k, sum W dk/dalpha, sum W k' s; then sum W k' (f - f')_c^2 for each feature c

// One term profile(s), s = |f - f'|^2, of a sum of stationary kernels; the features of all terms lie one after the other.
struct Part {
    int features;
    int kind;
    double alpha;
};

struct Gradient {
    const Part* parts;
    int n_parts;
    int features;  // of all parts
    int rank;
    bool per_feature;           // whether the sums for each feature are asked for
    const double *left, *right; // features of the points x and x'
    const double *A, *B;        // weights in the same layout: [group][column][point]
    const double* W;            // or, if x' is x: W of `points` x `points`, column by column, of which the lower half is read
    std::ptrdiff_t points;
    double* slopes;             // like `left`: += sum_j W k'(s) (f_i - f_j)_c
    double* sums;               // [group of x][n_parts * TOTALS + features]: += the totals of each part in turn
};

#define ITERGP_DECLARE_GRADIENT(isa)                                                                                \
    namespace isa {                                                                                                 \
    /* groups of x in `range` against the groups first <= g < last of x' */                                         \
    void gradient(const Gradient& task, Range range, std::ptrdiff_t first, std::ptrdiff_t last);                    \
    }

ITERGP_DECLARE_GRADIENT(baseline)
ITERGP_DECLARE_GRADIENT(avx2)
ITERGP_DECLARE_GRADIENT(avx512)

}  // namespace itergp
