// Squared distances of a few rows to a block of columns, by direct differences. Each instruction set has its own copy.
#pragma once
#include "tiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {

constexpr int NV = 2;    // vectors of columns at once

// Tiles lie in stripes of ROWS rows, and a stripe vector by vector of columns, the vectors of its rows one after the other: so a
// tile is read from its first entry to its last. Entry (i, j) is at row_offset(i) + column_offset(j).
template <typename T>
constexpr std::ptrdiff_t row_offset(std::ptrdiff_t i) {
    return i / ROWS * ROWS * BLOCK + i % ROWS * width<T>;
}
template <typename T>
constexpr std::ptrdiff_t column_offset(std::ptrdiff_t j) {
    return j / width<T> * width<T> * ROWS + j % width<T>;
}

// One stripe of |f_i - f_j|^2, for ROWS rows and BLOCK columns. A function of its own, so that the compiler keeps the sums in
// registers and not the constants of the profile that comes next.
template <typename T>
[[gnu::noinline]] inline void distances(const T* left_points, const T* right_points, int features, std::ptrdiff_t i0, std::ptrdiff_t j0,
                                       T* __restrict S) {
    constexpr int W = width<T>;
    for (int j = 0; j < BLOCK; j += NV * W) {
        Vec<T> s[ROWS][NV] = {};
        const T* left = point(left_points, features, i0);
        const T* right = point(right_points, features, j0) + j;
        for (int f = 0; f < features; ++f, left += BLOCK, right += BLOCK) {
            Vec<T> x[NV];
            for (int v = 0; v < NV; ++v) x[v] = load<T>(right + v * W);
            for (int r = 0; r < ROWS; ++r) {
                for (int v = 0; v < NV; ++v) {
                    const Vec<T> difference = x[v] - left[r];
                    s[r][v] += difference * difference;
                }
            }
        }
        for (int r = 0; r < ROWS; ++r)
            for (int v = 0; v < NV; ++v) save<T>(S + row_offset<T>(r) + column_offset<T>(j + v * W), s[r][v]);
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
