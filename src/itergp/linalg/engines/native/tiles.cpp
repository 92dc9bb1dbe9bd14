// Tiles of stationary kernels: direct differences, profile, and the product with a block of columns.
// Compiled once per instruction set (ITERGP_ISA names it); written with vector types of the compiler, so that one text
// serves SSE2, AVX2, AVX-512 and NEON.
#include "tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "distances.h"
#include "profiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

// ---- one tile: K (+)= weight * profile(|f_i - f_j|^2), PANEL x BLOCK -------------------------------

// K (+)= weight * profile(S) for ROWS rows; S may be K.
template <typename T, int KIND, bool ADD>
__attribute__((noinline)) void profiles(const T* S, T* K, T weight, T alpha) {
    constexpr int W = width<T>, N = 4;
    for (int j = 0; j < ROWS * BLOCK; j += N * W) {
        Vec<T> s[N];
        for (int v = 0; v < N; ++v) s[v] = load<T>(S + j + v * W);
        profile<T, KIND, N>(s, alpha);
        for (int v = 0; v < N; ++v) {
            Vec<T> k = weight * s[v];
            if constexpr (ADD) k += load<T>(K + j + v * W);
            save<T>(K + j + v * W, k);
        }
    }
}

template <typename T, int KIND, bool ADD>
void fill(const Component<T>& part, std::ptrdiff_t i0, std::ptrdiff_t j0, T* K) {
    alignas(64) T S[ROWS * BLOCK];
    for (int i = 0; i < PANEL; i += ROWS) {
        distances(part.left, part.right, part.features, i0 + i, j0, S);
        profiles<T, KIND, ADD>(S, K + i * BLOCK, part.weight, part.alpha);
    }
}

template <typename T, bool ADD>
void fill_part(const Component<T>& part, std::ptrdiff_t i0, std::ptrdiff_t j0, T* K) {
    switch (part.kind) {
        case RBF: return fill<T, RBF, ADD>(part, i0, j0, K);
        case MATERN12: return fill<T, MATERN12, ADD>(part, i0, j0, K);
        case MATERN32: return fill<T, MATERN32, ADD>(part, i0, j0, K);
        case MATERN52: return fill<T, MATERN52, ADD>(part, i0, j0, K);
        default: return fill<T, RATIONAL_QUADRATIC, ADD>(part, i0, j0, K);
    }
}

template <typename T>
void fill_tile(const Component<T>* parts, int n_parts, std::ptrdiff_t i0, std::ptrdiff_t j0, T* K) {
    fill_part<T, false>(parts[0], i0, j0, K);
    for (int p = 1; p < n_parts; ++p) fill_part<T, true>(parts[p], i0, j0, K);
}

// ---- products with a tile -------------------------------------------------------------------------------------------

// out[0 .. width) += sum, widened to float64
template <typename T>
inline void add_to(double* out, Vec<T> sum) {
    typedef double Wide __attribute__((vector_size(width<T> * sizeof(double))));
    Wide total;
    std::memcpy(&total, out, sizeof(total));
    total += __builtin_convertvector(sum, Wide);
    std::memcpy(out, &total, sizeof(total));
}

// The sum of the lanes, in float64, by halves.
template <typename T>
inline double total(Vec<T> v) {
    double sum[width<T>];
    for (int l = 0; l < width<T>; ++l) sum[l] = static_cast<double>(v[l]);
    for (int h = width<T> / 2; h > 0; h /= 2)
        for (int l = 0; l < h; ++l) sum[l] += sum[l + h];
    return sum[0];
}

// AVX-512 has twice the registers: sums for more rows and columns at once.
constexpr bool MANY_REGISTERS = ITERGP_VECTOR_BYTES == 64;
constexpr int GROUP = MANY_REGISTERS ? 4 : 3;  // vectors of columns at once

constexpr int AHEAD = 512;  // entries between a stored one and the one that is asked for meanwhile

// One column, both sides at once: each entry is read once, in the order in which it lies. Runs of 32 terms in T, then float64.
template <typename T, bool MIRROR>
void multiply_one(const T* __restrict K, const T* __restrict Vi, const T* __restrict Vj, double* out_i, double* out_j) {
    constexpr int W = width<T>;
    constexpr int STRETCH = RUN * W < BLOCK ? RUN * W : BLOCK;  // columns until each lane has summed RUN terms
    for (int i0 = 0; i0 < PANEL; i0 += RUN) {
        alignas(64) T below[BLOCK] = {};
        for (int i = i0; i < i0 + RUN; i += ROWS) {
            for (int stretch = 0; stretch < BLOCK; stretch += STRETCH) {
                Vec<T> sum[ROWS] = {};
                for (int j = stretch; j < stretch + STRETCH; j += W) {
                    const T* entries = K + row_offset<T>(i) + column_offset<T>(j);
                    const Vec<T> v = load<T>(Vj + j);
                    Vec<T> mirrored;
                    if constexpr (MIRROR) mirrored = load<T>(below + j);
                    for (int byte = 0; byte < ROWS * ITERGP_VECTOR_BYTES; byte += 64) __builtin_prefetch(entries + AHEAD + byte / sizeof(T));
                    for (int r = 0; r < ROWS; ++r) {
                        const Vec<T> k = load<T>(entries + r * W);
                        sum[r] += k * v;
                        if constexpr (MIRROR) mirrored += k * Vi[i + r];
                    }
                    if constexpr (MIRROR) save<T>(below + j, mirrored);
                }
                for (int r = 0; r < ROWS; ++r) out_i[i + r] += total<T>(sum[r]);
            }
        }
        if constexpr (MIRROR) {
            for (int j = 0; j < BLOCK; ++j) out_j[j] += static_cast<double>(below[j]);
        }
    }
}

// Terms that a register sums before they join the float64 sum: few in float32; in float64, as many as are at hand.
template <typename T>
constexpr int run = sizeof(T) == 4 ? RUN : PANEL;

// Whether a tile is multiplied from the left, K V, or its mirror image, K^T V; A(m, k) = A[at_row(m) + at_term(k)].
enum Side { DIRECT, MIRRORED };
template <typename T, Side SIDE>
constexpr std::ptrdiff_t at_row(std::ptrdiff_t m) {
    return SIDE == DIRECT ? row_offset<T>(m) : column_offset<T>(m);
}
template <typename T, Side SIDE>
constexpr std::ptrdiff_t at_term(std::ptrdiff_t k) {
    return SIDE == DIRECT ? column_offset<T>(k) : row_offset<T>(k);
}

// out[m, :] += sum_k A(m, k) V[k, :] for MR rows and NC vectors of columns. A function of its own, so that
// the compiler keeps sums and v in registers.
template <typename T, Side SIDE, int MR, int NC>
[[gnu::noinline]] void micro(const T* __restrict A, const T* __restrict V, double* __restrict out) {
    constexpr int W = width<T>;
    constexpr int INNER = SIDE == DIRECT ? W : ROWS;  // terms that lie evenly spaced
    // terms without a branch between them; with more, the compiler has no registers for v, and reads it again for each row
    constexpr int STEP = MANY_REGISTERS ? INNER : NC < GROUP ? std::min(INNER, 4) : 1;
    Vec<T> sum[MR][NC] = {};
    for (int outer = 0; outer < run<T>; outer += INNER) {
        const T* from = A + at_term<T, SIDE>(outer);
#pragma GCC unroll 1
        for (int first = 0; first < INNER; first += STEP) {
            for (int k = first; k < first + STEP; ++k) {
                Vec<T> v[NC];
                for (int c = 0; c < NC; ++c) v[c] = load<T>(V + ((outer + k) * NC + c) * W);
                for (int m = 0; m < MR; ++m) {
                    const T a = from[at_row<T, SIDE>(m) + at_term<T, SIDE>(k)];
                    for (int c = 0; c < NC; ++c) sum[m][c] += a * v[c];
                }
            }
        }
    }
    for (int m = 0; m < MR; ++m)
        for (int c = 0; c < NC; ++c) add_to<T>(out + (m * NC + c) * W, sum[m][c]);
}

// PANEL terms at a time: they stay in the first cache, and each row of `out` is asked for once in so many.
template <typename T, Side SIDE, int MR, int NC>
void multiply_group(const T* A, const T* V, double* out) {
    constexpr int M = SIDE == DIRECT ? PANEL : BLOCK, terms = SIDE == DIRECT ? BLOCK : PANEL, G = NC * width<T>;
    for (int first = 0; first < terms; first += PANEL)
        for (int m = 0; m < M; m += MR)
            for (int k = first; k < first + PANEL; k += run<T>)
                micro<T, SIDE, MR, NC>(A + at_row<T, SIDE>(m) + at_term<T, SIDE>(k), V + k * G, out + m * G);
}

// A matrix of so many rows with its columns in groups of GROUP vectors (the last one of fewer), each group with all its rows
// together: so that a group stays in the cache, free of the conflicts of long strides. This is the one that begins with column `first`.
struct Group {
    std::ptrdiff_t first, vectors;
    template <typename T, typename Number>
    Number* at(Number* matrix, std::ptrdiff_t rows, std::ptrdiff_t row) const {
        return matrix + first * rows + row * vectors * width<T>;
    }
};

template <typename T, typename Work>
void for_groups(int columns, Work work) {
    constexpr int W = width<T>;
    for (Group group{0, 0}; group.first < columns; group.first += group.vectors * W) {
        group.vectors = columns - group.first >= GROUP * W ? GROUP : (columns - group.first) / W;
        work(group);
    }
}

// out += A V for the columns of a group, with the rows of V and out that belong to the tile A
template <typename T, Side SIDE>
void multiply(const T* A, const T* V, double* out, std::ptrdiff_t vectors) {
    constexpr int MORE = MANY_REGISTERS ? 2 : 1;
    switch (vectors) {
        case 1: return multiply_group<T, SIDE, 8 * MORE, 1>(A, V, out);
        case 2: return multiply_group<T, SIDE, 4 * MORE, 2>(A, V, out);
        case 3: return multiply_group<T, SIDE, 4 * MORE, 3>(A, V, out);
        default: return multiply_group<T, SIDE, 4, GROUP>(A, V, out);
    }
}

// Panels whose tiles of a block are multiplied one after the other: V and the sums of that block, of which no cache holds all if
// there are many columns, come from memory once for all of these. The tiles themselves take half a megabyte.
template <typename T>
constexpr int TOGETHER = 8 * sizeof(float) / sizeof(T);

// Room for tiles, on the heap: where there is none left, an exception says so; a thread's own storage would end the process.
template <typename T>
struct Scratch {
    static constexpr std::align_val_t line{64};
    T* const tiles;
    explicit Scratch(int count) : tiles(static_cast<T*>(::operator new(count * PANEL * BLOCK * sizeof(T), line))) {}
    Scratch(const Scratch&) = delete;
    ~Scratch() { ::operator delete(tiles, line); }
    T* tile(int number) const { return tiles + number * PANEL * BLOCK; }
};

// The tiles of the upper half of K = k(left, right): read where they are stored, evaluated where not.
template <typename T>
struct Tiles {
    const Component<T>* parts;
    int n_parts;
    std::ptrdiff_t after;
    T* store;
    const std::ptrdiff_t* offsets;
    std::ptrdiff_t stored_panels;
    bool filled;

    // The block from which on a panel is in the upper half: its own, or the next one.
    std::ptrdiff_t first_block(std::ptrdiff_t panel) const { return panel * PANEL / BLOCK + after; }

    // That of a panel and a block; `room` is for one that is not stored.
    const T* at(std::ptrdiff_t panel, std::ptrdiff_t block, T* room) const {
        const bool stored = panel < stored_panels && offsets[panel + 1] > offsets[panel];
        T* K = stored ? store + offsets[panel] + (block - first_block(panel)) * PANEL * BLOCK : room;
        if (!stored || !filled) fill_tile(parts, n_parts, panel * PANEL, block * BLOCK, K);
        return K;
    }
};

// Both sides of a product, and what each receives of a tile.
template <typename T>
struct Sides {
    Operand<T> left, right;
    bool direct(std::ptrdiff_t panel) const { return panel * PANEL / BLOCK >= left.from_block; }
    // A tile on the diagonal of a symmetric K is its own mirror image.
    bool mirrored(std::ptrdiff_t panel, std::ptrdiff_t block) const {
        return block >= right.from_block && !(block == panel * PANEL / BLOCK && left.out == right.out);
    }
};

// The panels of a range, at most `count` of them, as a range.
inline Range first_of(Range range, std::ptrdiff_t count) {
    return {range.first, std::min(range.last, range.first + count * range.step), range.step};
}

// Panel by panel, in the order in which tiles are stored.
template <typename T>
void symmetric_one(const Tiles<T>& K, const Sides<T>& both, Range range) {
    const Scratch<T> room(1);
    const auto& [left, right] = both;
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        const std::ptrdiff_t i = p * PANEL, first = K.first_block(p);
        for (std::ptrdiff_t b = both.direct(p) ? first : std::max(first, right.from_block); b < right.rows / BLOCK; ++b) {
            const T* tile = K.at(p, b, room.tiles);
            const T *Vi = left.V + i, *Vj = right.V + b * BLOCK;
            double *out_i = left.out + i, *out_j = right.out + b * BLOCK;
            if (!both.direct(p)) {  // rows before `from_block` only give
                double ignored[PANEL] = {};
                multiply_one<T, true>(tile, Vi, Vj, ignored, out_j);
            } else if (both.mirrored(p, b)) {
                multiply_one<T, true>(tile, Vi, Vj, out_i, out_j);
            } else {
                multiply_one<T, false>(tile, Vi, Vj, out_i, out_j);
            }
        }
    }
}

// Block by block for some panels together. Each number receives its terms in the same order as panel by panel.
template <typename T>
void symmetric_some(const Tiles<T>& K, const Sides<T>& both, const Scratch<T>& room, int columns, Range panels) {
    const auto& [left, right] = both;
    const T* tiles[TOGETHER<T>];
    for (std::ptrdiff_t b = K.first_block(panels.first); b < right.rows / BLOCK; ++b) {
        const std::ptrdiff_t j = b * BLOCK, begun = std::min(panels.last, (b - K.after + 1) * BLOCK / PANEL);  // first_block <= b
        for (std::ptrdiff_t p = panels.first, t = 0; p < begun; p += panels.step, ++t)
            if (both.direct(p) || both.mirrored(p, b)) tiles[t] = K.at(p, b, room.tile(t));
        for_groups<T>(columns, [&](Group group) {
            for (std::ptrdiff_t p = panels.first, t = 0; p < begun; p += panels.step, ++t) {
                const std::ptrdiff_t i = p * PANEL;
                const T *Vi = group.at<T>(left.V, left.rows, i), *Vj = group.at<T>(right.V, right.rows, j);
                double *out_i = group.at<T>(left.out, left.rows, i), *out_j = group.at<T>(right.out, right.rows, j);
                if (both.direct(p)) multiply<T, DIRECT>(tiles[t], Vj, out_i, group.vectors);
                if (both.mirrored(p, b)) multiply<T, MIRRORED>(tiles[t], Vi, out_j, group.vectors);
            }
        });
    }
}

// ---- what the binding calls -----------------------------------------------------------------------------------------

template <typename T>
void symmetric(const Component<T>* parts, int n_parts, Operand<T> left, Operand<T> right, std::ptrdiff_t after, int columns, Range range,
               T* store, const std::ptrdiff_t* offsets, std::ptrdiff_t stored_panels, bool filled) {
    const Tiles<T> K{parts, n_parts, after, store, offsets, stored_panels, filled};
    const Sides<T> both{left, right};
    if (columns == 1) return symmetric_one(K, both, range);
    const Scratch<T> room(TOGETHER<T>);
    for (; range.first < range.last; range.first += TOGETHER<T> * range.step)
        symmetric_some(K, both, room, columns, first_of(range, TOGETHER<T>));
}

template <typename T>
void cross_one(const Component<T>* parts, int n_parts, std::ptrdiff_t right_rows, const T* V, double* out, Range range) {
    const Scratch<T> room(1);
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        for (std::ptrdiff_t j = 0; j < right_rows; j += BLOCK) {
            fill_tile(parts, n_parts, p * PANEL, j, room.tiles);
            multiply_one<T, false>(room.tiles, nullptr, V + j, out + p * PANEL, nullptr);
        }
    }
}

template <typename T>
void cross(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, const T* V, int columns,
           double* out, Range range) {
    if (columns == 1) return cross_one(parts, n_parts, right_rows, V, out, range);
    const Scratch<T> room(TOGETHER<T>);
    for (; range.first < range.last; range.first += TOGETHER<T> * range.step) {
        const Range some = first_of(range, TOGETHER<T>);
        for (std::ptrdiff_t j = 0; j < right_rows; j += BLOCK) {
            for (std::ptrdiff_t p = some.first, t = 0; p < some.last; p += some.step, ++t)
                fill_tile(parts, n_parts, p * PANEL, j, room.tile(t));
            for_groups<T>(columns, [&](Group group) {
                for (std::ptrdiff_t p = some.first, t = 0; p < some.last; p += some.step, ++t)
                    multiply<T, DIRECT>(room.tile(t), group.at<T>(V, right_rows, j), group.at<T>(out, left_rows, p * PANEL), group.vectors);
            });
        }
    }
}

template <typename T>
void dense(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, T* out,
           std::ptrdiff_t out_stride, Range range) {
    const Scratch<T> room(1);
    T* const scratch = room.tiles;
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        const std::ptrdiff_t i = p * PANEL, height = left_rows - i < PANEL ? left_rows - i : PANEL;
        for (std::ptrdiff_t j = 0; j < right_rows; j += BLOCK) {
            const std::ptrdiff_t breadth = right_rows - j < BLOCK ? right_rows - j : BLOCK;
            fill_tile(parts, n_parts, i, j, scratch);
            for (std::ptrdiff_t r = 0; r < height; ++r)
                for (std::ptrdiff_t c = 0; c < breadth; c += width<T>)
                    std::memcpy(out + (i + r) * out_stride + j + c, scratch + row_offset<T>(r) + column_offset<T>(c),
                                (breadth - c < width<T> ? breadth - c : width<T>) * sizeof(T));
        }
    }
}

template <typename T, Vec<T> FUNCTION(Vec<T>)>
void apply(const T* x, T* result, std::ptrdiff_t size) {
    constexpr int W = width<T>;
    for (std::ptrdiff_t i = 0; i < size; i += W) {
        alignas(64) T some[W] = {};
        const std::ptrdiff_t count = size - i < W ? size - i : W;
        std::memcpy(some, x + i, count * sizeof(T));
        save<T>(some, FUNCTION(load<T>(some)));
        std::memcpy(result + i, some, count * sizeof(T));
    }
}

template <typename T>
const Engine<T>& engine() {
    static const Engine<T> functions{GROUP * width<T>, symmetric<T>, cross<T>, dense<T>, apply<T, exp_minus<T>>, apply<T, square_root<T>>};
    return functions;
}

}  // namespace

const Engine<float>& engine_float() { return engine<float>(); }
const Engine<double>& engine_double() { return engine<double>(); }

}  // namespace ITERGP_ISA
}  // namespace itergp
