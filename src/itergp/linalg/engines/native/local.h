// Local actions of many points, and triangular solves for many right-hand sides; once per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "neighbours.h"
#include "tiles.h"

namespace itergp {

constexpr int SOLVED = 24;  // right-hand sides of a panel, at most: three vectors of the widest machine

// X = L^{-1} B for each row of B.
struct Triangular {
    const double* L;          // size x size, rows `stride` apart; the lower half is read
    std::ptrdiff_t stride;
    int size;
    const double* B;          // count x size
    double* X;                // count x size
    std::ptrdiff_t count;
};

// Means and variances of points after actions on their neighbours J, given r actions that all of them share:
// S = K_JJ + N_J - H_J H_J^T + jitter, mean += (k_J - H_J w)^T S^{-1} r_J, variance -= (k_J - H_J w)^T S^{-1} (k_J - H_J w).
struct Local {
    const Term* terms;
    int n_terms;
    int features;                     // of all terms
    double constant;                  // added to every entry of the kernel
    const double *points, *F;         // points x features, and rows x features
    const double* N;                  // noise variance of each row
    const double *W, *H;              // points x r, and rows x r
    int r;
    const double* residual;           // rows x targets
    int targets;
    const std::int32_t* neighbours;   // points x m: rows, -1 for none
    std::ptrdiff_t count;
    int m;
    double jitter;
    double *mean, *variance;          // points x targets, and points
};

#define ITERGP_DECLARE_LOCAL(isa)                              \
    namespace isa {                                            \
    void solve_lower(const Triangular& task, Range panels);    \
    void local_actions(const Local& task, Range groups);       \
    int group_of_points();                                     \
    }

ITERGP_DECLARE_LOCAL(baseline)
ITERGP_DECLARE_LOCAL(avx2)
ITERGP_DECLARE_LOCAL(avx512)

}  // namespace itergp
