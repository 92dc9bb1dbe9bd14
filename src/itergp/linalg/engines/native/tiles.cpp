// Tiles of stationary kernels: direct differences, profile, and the product with a block of columns.
// Compiled once per instruction set (ITERGP_ISA names it); written with vector types of the compiler, so that one text
// serves SSE2, AVX2, AVX-512 and NEON.
#include "tiles.h"

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

// out[m, :] += sum_k A(m, k) V[k, :] for MR rows and NC vectors of columns.
template <typename T, Side SIDE, int MR, int NC>
inline void micro(const T* __restrict A, const T* __restrict V, double* __restrict out) {
    constexpr int W = width<T>;
    constexpr int INNER = SIDE == DIRECT ? W : ROWS;  // terms that lie evenly spaced
    Vec<T> sum[MR][NC] = {};
    for (int outer = 0; outer < run<T>; outer += INNER) {
        const T* from = A + at_term<T, SIDE>(outer);
        for (int inner = 0; inner < INNER; ++inner) {
            Vec<T> v[NC];
            for (int c = 0; c < NC; ++c) v[c] = load<T>(V + ((outer + inner) * NC + c) * W);
            for (int m = 0; m < MR; ++m) {
                const T a = from[at_row<T, SIDE>(m) + at_term<T, SIDE>(inner)];
                for (int c = 0; c < NC; ++c) sum[m][c] += a * v[c];
            }
        }
    }
    for (int m = 0; m < MR; ++m)
        for (int c = 0; c < NC; ++c) add_to<T>(out + (m * NC + c) * W, sum[m][c]);
}

template <typename T, Side SIDE, int MR, int NC>
void multiply_group(const T* A, int M, int terms, const T* V, double* out) {
    constexpr int G = NC * width<T>;
    for (int k = 0; k < terms; k += run<T>)
        for (int m = 0; m < M; m += MR)
            micro<T, SIDE, MR, NC>(A + at_row<T, SIDE>(m) + at_term<T, SIDE>(k), V + k * G, out + m * G);
}

// out (M x columns) += A V over `terms` terms. Columns lie in groups of three vectors (the rest in two or one), each group
// with all its rows together: so that a group of V stays in the first cache, free of the conflicts of long strides.
template <typename T, Side SIDE>
void multiply(const T* A, const T* V, std::ptrdiff_t v_rows, std::ptrdiff_t v_row, double* out, std::ptrdiff_t out_rows,
              std::ptrdiff_t out_row, int columns) {
    constexpr int W = width<T>, M = SIDE == DIRECT ? PANEL : BLOCK, terms = SIDE == DIRECT ? BLOCK : PANEL;
    for (int c = 0; c < columns;) {
        const int vectors = columns - c >= 3 * W ? 3 : (columns - c) / W, group = vectors * W;
        const T* from = V + c * v_rows + v_row * group;
        double* to = out + c * out_rows + out_row * group;
        if (vectors == 3) multiply_group<T, SIDE, 4, 3>(A, M, terms, from, to);
        else if (vectors == 2) multiply_group<T, SIDE, 4, 2>(A, M, terms, from, to);
        else multiply_group<T, SIDE, 8, 1>(A, M, terms, from, to);
        c += group;
    }
}

// Room for one tile, on the heap: where there is none left, an exception says so; a thread's own storage would end the process.
template <typename T>
struct Scratch {
    static constexpr std::align_val_t line{64};
    T* const tile = static_cast<T*>(::operator new(PANEL * BLOCK * sizeof(T), line));
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    ~Scratch() { ::operator delete(tile, line); }
};

// ---- what the binding calls -----------------------------------------------------------------------------------------

template <typename T>
void symmetric(const Component<T>* parts, int n_parts, Operand<T> left, Operand<T> right, std::ptrdiff_t after, int columns, Range range,
               T* store, const std::ptrdiff_t* offsets, std::ptrdiff_t stored_panels, bool filled) {
    const Scratch<T> room;
    T* const scratch = room.tile;
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        const std::ptrdiff_t i = p * PANEL, own = i / BLOCK, least = own + after;
        const bool stored = p < stored_panels && offsets[p + 1] > offsets[p], here = own >= left.from_block;
        for (std::ptrdiff_t b = here || least > right.from_block ? least : right.from_block; b < right.rows / BLOCK; ++b) {
            const std::ptrdiff_t j = b * BLOCK;
            T* K = stored ? store + offsets[p] + (b - least) * PANEL * BLOCK : scratch;
            if (!stored || !filled) fill_tile(parts, n_parts, i, j, K);
            const bool mirror = b >= right.from_block && !(b == own && left.out == right.out);
            if (columns == 1) {
                double *out_i = left.out + i, *out_j = right.out + j;
                const T *Vi = left.V + i, *Vj = right.V + j;
                if (mirror && here) multiply_one<T, true>(K, Vi, Vj, out_i, out_j);
                else if (here) multiply_one<T, false>(K, Vi, Vj, out_i, out_j);
                else {  // rows above `from_block` only give
                    double ignored[PANEL] = {};
                    multiply_one<T, true>(K, Vi, Vj, ignored, out_j);
                }
            } else {
                if (here) multiply<T, DIRECT>(K, right.V, right.rows, j, left.out, left.rows, i, columns);
                if (mirror) multiply<T, MIRRORED>(K, left.V, left.rows, i, right.out, right.rows, j, columns);
            }
        }
    }
}

template <typename T>
void cross(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, const T* V, int columns,
           double* out, Range range) {
    const Scratch<T> room;
    T* const scratch = room.tile;
    for (std::ptrdiff_t p = range.first; p < range.last; p += range.step) {
        for (std::ptrdiff_t j = 0; j < right_rows; j += BLOCK) {
            fill_tile(parts, n_parts, p * PANEL, j, scratch);
            if (columns == 1) multiply_one<T, false>(scratch, nullptr, V + j, out + p * PANEL, nullptr);
            else multiply<T, DIRECT>(scratch, V, right_rows, j, out, left_rows, p * PANEL, columns);
        }
    }
}

template <typename T>
void dense(const Component<T>* parts, int n_parts, std::ptrdiff_t left_rows, std::ptrdiff_t right_rows, T* out,
           std::ptrdiff_t out_stride, Range range) {
    const Scratch<T> room;
    T* const scratch = room.tile;
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
    static const Engine<T> functions{symmetric<T>, cross<T>, dense<T>, apply<T, exp_minus<T>>, apply<T, square_root<T>>};
    return functions;
}

}  // namespace

const Engine<float>& engine_float() { return engine<float>(); }
const Engine<double>& engine_double() { return engine<double>(); }

}  // namespace ITERGP_ISA
}  // namespace itergp
