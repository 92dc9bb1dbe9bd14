// What the binding calls, once per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

namespace itergp {

constexpr int PANEL = 64;     // rows of a tile
constexpr int BLOCK = 256;    // columns of a tile; data are padded to a multiple of it
constexpr int ROWS = 4;      // rows whose distances are taken at once: the columns' features are read once for all of them
constexpr int RUN = 32;       // terms summed in the tile's dtype before they join the float64 sum

enum Kind : int { RBF = 0, MATERN12 = 1, MATERN32 = 2, MATERN52 = 3, RATIONAL_QUADRATIC = 4 };
constexpr int LINEAR = 5;  // no profile: f . f', in the likelihood of neighbours only
constexpr int FIXED = 6;   // the same, of features that do not depend on the kernel's parameters: no gradient

// One term of a sum of stationary kernels: weight * profile(|f - f'|^2), with the constants of the profile inside f.
template <typename T>
struct Component {
    const T* left;       // features of the rows, in blocks of BLOCK points, feature by feature: see `point`
    const T* right;      // features of the columns
    int features;
    int kind;
    T weight;
    T alpha;
};

// The first feature of point i; the next ones follow BLOCK numbers apart. Longer strides would meet in few lines of the cache.
template <typename T>
inline const T* point(const T* blocks, int features, std::ptrdiff_t i) {
    return blocks + i / BLOCK * BLOCK * features + i % BLOCK;
}

// Panels p (rows [p * PANEL, p * PANEL + PANEL)) with p = first, first + step, ... below last.
struct Range {
    std::ptrdiff_t first, last, step;
};

// Points of one side of a kernel matrix: what they are multiplied with, and where their products are added. Both are
// rows x columns with their columns in groups (`multiply` in tiles.cpp says how); blocks before `from_block` receive nothing.
template <typename T>
struct Operand {
    const T* V;
    double* out;
    std::ptrdiff_t rows, from_block;
};

template <typename T>
struct Engine {
    // Columns of V and of sums lie in groups of so many, the last one of fewer, each with all its rows together.
    int group_width;
    // left.out += K right.V and right.out += K^T left.V, for the upper half of K = k(left, right): panels of `range` against
    // the blocks from their own, or from the next one (`after` = 1), on. If left and right are one, this is all of K V.
    void (*symmetric)(const Component<T>* parts, int n_parts, Operand<T> left, Operand<T> right, std::ptrdiff_t after, int columns,
                      Range range, T* store, const std::ptrdiff_t* offsets, std::ptrdiff_t stored_panels, bool filled);
    // out (rows x columns) = K V, K = k(left, right): for panels of rows.
    void (*cross)(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, const T* V,
                  int columns, double* out, Range range);
    // out (rows x right_rows) = K, rows of it as long as `out_stride`.
    void (*dense)(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, T* out,
                  std::ptrdiff_t out_stride, Range range);
    // result[i] = exp(-x[i]) and sqrt(x[i]), for tests of their stated error.
    void (*exp_minus)(const T* x, T* result, std::ptrdiff_t size);
    void (*square_root)(const T* x, T* result, std::ptrdiff_t size);
};

#define ITERGP_DECLARE(isa)                   \
    namespace isa {                           \
    const Engine<float>& engine_float();      \
    const Engine<double>& engine_double();    \
    }

ITERGP_DECLARE(baseline)
ITERGP_DECLARE(avx2)
ITERGP_DECLARE(avx512)

}  // namespace itergp
