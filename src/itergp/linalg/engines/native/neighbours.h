// Nearest neighbours, those of them that say most, and the likelihood of each point given its neighbours; once per instruction
// set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tiles.h"

namespace itergp {

constexpr int CHUNK = 64;  // points whose sums are added up before they join the others

// Rows of `left`, which are the rows `places` of `right`, in ascending order, look for their `count` nearest in `right`.
struct Search {
    const float *left, *right;  // features in blocks, as in tiles.h
    int features;
    const std::int32_t* places;
    std::ptrdiff_t left_rows, right_rows;
    int count;
    int among;               // 0: all rows; 1: all but the row itself; 2: earlier rows
    std::int32_t* found;     // left_rows x count, nearest first, -1 where there are not so many
};

// A term weight * profile(|f - f'|^2) of the kernel, or weight * f . f'; the features of all terms lie one after the other.
struct Term {
    int features;
    int kind;
    double weight, alpha;
};

// - log p(y_i | y_J) for points i with neighbours J, and its gradient.
struct Likelihood {
    const Term* terms;
    int n_terms;
    int features;                    // of all terms
    double constant;                 // added to every entry of the kernel
    const double* F;                 // points x features
    const double* y;                 // points x targets
    int targets;
    const double *N, *share;         // noise variance of each point, and its derivative in the noise
    const std::int32_t *rows, *neighbours;  // points i, and J of each: count x m, -1 for none
    std::ptrdiff_t count;
    int m;
    double* values;                  // one for each point: summed over targets
    // [chunk][2 * n_terms + features + 2]: of each term sum M P and sum M dP/dalpha; then sum M P'(s) (f - f')_c^2 for each
    // feature, or sum M f_c f'_c; then for the constant and the noise. M is the derivative in the entries of the kernel matrix.
    double* sums;
    // where they are asked for: count x (m + 1) each, M is the symmetric part of the sum of w q^T; and count x targets, the
    // slope of the values in y is -w times this
    double *w = nullptr, *q = nullptr, *pull = nullptr;
};

// For each point, m of its c candidates: each lowers its variance the most, given those before. Nearest candidates first.
struct Choice {
    const Term* terms;
    int n_terms;
    int features;                    // of all terms
    double constant;                 // added to every entry of the kernel
    const double *points, *F;        // points x features, and rows x features
    const double* N;                 // noise variance of each row
    const std::int32_t* candidates;  // points x c: rows, -1 for none
    std::ptrdiff_t count;
    int c, m;
    double least_variance, least_gain, tie;  // shares below which a conditional variance, a gain, or a difference of gains is rounding
    std::int32_t* chosen;            // points x m, -1 where there are not so many
};

#define ITERGP_DECLARE_NEIGHBOURS(isa)                       \
    namespace isa {                                          \
    void search(const Search& task, Range panels);           \
    void likelihood(const Likelihood& task, Range chunks);   \
    void most_informative(const Choice& task, Range points); \
    }

ITERGP_DECLARE_NEIGHBOURS(baseline)
ITERGP_DECLARE_NEIGHBOURS(avx2)
ITERGP_DECLARE_NEIGHBOURS(avx512)

}  // namespace itergp
