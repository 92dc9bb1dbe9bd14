// Nearest neighbours by brute force in float32, and likelihoods of points given their neighbours in float64.
// Small matrices are worked on side by side: lane l of every vector belongs to point l of a group.
#include "neighbours.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "distances.h"
#include "profiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

// ---- search ---------------------------------------------------------------------------------------------------------

using Candidate = std::pair<float, std::int32_t>;  // squared distance, row

// The nearest candidates so far of one row, the farthest of them on top.
struct Nearest {
    std::vector<Candidate> heap;
    float limit = std::numeric_limits<float>::infinity();

    void offer(float s, std::int32_t j, std::size_t count) {
        if (heap.size() == count) {
            std::pop_heap(heap.begin(), heap.end());
            heap.back() = {s, j};
        } else {
            heap.push_back({s, j});
        }
        std::push_heap(heap.begin(), heap.end());
        if (heap.size() == count) limit = heap.front().first;
    }
};

// Offers the entries of one row of a stripe of distances that are below the limit.
void scan(const float* S, std::ptrdiff_t j0, std::ptrdiff_t stop, std::ptrdiff_t but, Nearest& nearest, std::size_t count) {
    constexpr int W = width<float>;
    for (int j = 0; j < BLOCK; j += W) {
        const Vec<float> s = load<float>(S + column_offset<float>(j));
        const Vec<Int<float>> below = s < nearest.limit;
        std::uint64_t any[sizeof(below) / 8];
        std::memcpy(any, &below, sizeof(below));
        std::uint64_t some = 0;
        for (auto word : any) some |= word;
        if (!some) continue;
        for (int l = 0; l < W; ++l) {
            const std::ptrdiff_t at = j0 + j + l;
            if (at < stop && at != but && s[l] < nearest.limit) nearest.offer(s[l], std::int32_t(at), count);
        }
    }
}

// ---- likelihood -----------------------------------------------------------------------------------------------------

using V = Vec<double>;
constexpr int W = width<double>;

inline int at(int a, int b) { return a * (a + 1) / 2 + b; }  // of a lower triangle, row by row

// What a group of W points needs, kept between groups.
struct Room {
    int m;
    std::vector<V> X, y, N, share, C, S, P, z, w, q, u, G;
    V present;
    Room(const Likelihood& t)
        : m(t.m), X((m + 1) * t.features), y((m + 1) * t.targets), N(m + 1), share(m + 1), C(at(m + 1, 0)), S(t.n_terms * at(m + 1, 0)),
          P(t.n_terms * at(m + 1, 0)), z((m + 1) * t.targets), w(m + 1), q(m + 1), u(m + 1), G(2 * t.n_terms + t.features + 2) {}
};

// Points J and i of W likelihoods, with zeros and unit noise where there is none: such a point tells nothing.
void gather(const Likelihood& t, std::ptrdiff_t p, Room& room) {
    for (int a = 0; a <= room.m; ++a) {
        for (int l = 0; l < W; ++l) {
            const bool inside = p + l < t.count;
            const std::int32_t j = !inside ? -1 : a < room.m ? t.neighbours[(p + l) * room.m + a] : t.rows[p + l];
            for (int f = 0; f < t.features; ++f) room.X[a * t.features + f][l] = j < 0 ? 0.0 : t.F[j * std::ptrdiff_t(t.features) + f];
            for (int c = 0; c < t.targets; ++c) room.y[a * t.targets + c][l] = j < 0 ? 0.0 : t.y[j * std::ptrdiff_t(t.targets) + c];
            room.N[a][l] = j < 0 ? -1.0 : t.N[j];
            room.share[a][l] = j < 0 ? 0.0 : t.share[j];
            if (a == room.m) room.present[l] = j < 0 ? 0.0 : 1.0;
        }
    }
}

constexpr int STEP = 4;  // entries of a row at once

inline V dot(const V* x, const V* y, int n) {
    V sum[4] = {};
    int k = 0;
    for (; k + 4 <= n; k += 4)
        for (int c = 0; c < 4; ++c) sum[c] += x[k + c] * y[k + c];
    for (; k < n; ++k) sum[0] += x[k] * y[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Row a of a linear term, with its diagonal: P = f_a . f_b, added to C.
void products(const Term& term, const V* x, int a, int d, V* P, V* C) {
    for (int b = 0; b <= a; ++b) {
        P[b] = dot(x, x - (a - b) * d, term.features);
        C[b] += term.weight * P[b];
    }
}

// C = K + N, and of each term the squared distances S and profiles P.
void kernels(const Likelihood& t, Room& room) {
    const int d = t.features;
    double k0 = t.constant;
    for (int k = 0; k < t.n_terms; ++k) k0 += t.terms[k].kind >= LINEAR ? 0.0 : t.terms[k].weight;
    for (int a = 0; a <= room.m; ++a) {
        const V here = room.N[a] >= 0.0 ? V{} + 1.0 : V{};
        V* C = room.C.data() + at(a, 0);
        for (int b = 0; b < a; ++b) C[b] = V{} + t.constant;
        C[a] = V{} + k0;
        for (int k = 0, f0 = 0; k < t.n_terms; f0 += t.terms[k++].features) {
            V* S = room.S.data() + (k * at(room.m + 1, 0) + at(a, 0));
            V* P = room.P.data() + (k * at(room.m + 1, 0) + at(a, 0));
            const V* x = room.X.data() + a * d + f0;
            if (t.terms[k].kind >= LINEAR) {
                products(t.terms[k], x, a, d, P, C);
                continue;
            }
            for (int b = 0; b < a; b += STEP) {
                const int some = std::min(STEP, a - b);
                V s[STEP] = {};
                for (int f = 0; f < t.terms[k].features; ++f) {
                    for (int c = 0; c < STEP; ++c) {
                        const V difference = x[f] - room.X[(b + std::min(c, some - 1)) * d + f0 + f];
                        s[c] += difference * difference;
                    }
                }
                for (int c = 0; c < some; ++c) S[b + c] = s[c];
                profile_of<double, STEP>(t.terms[k].kind, s, t.terms[k].alpha);
                for (int c = 0; c < some; ++c) {
                    P[b + c] = s[c];
                    C[b + c] += t.terms[k].weight * s[c];
                }
            }
        }
        for (int b = 0; b < a; ++b) C[b] *= here * (room.N[b] >= 0.0 ? V{} + 1.0 : V{});
        C[a] = room.N[a] >= 0.0 ? C[a] + room.N[a] : V{} + 1.0;
    }
}

// C becomes its Cholesky factor, with 1 / pivot on the diagonal; the last pivot is the variance of y_i given y_J.
V factorise(Room& room) {
    V last = {};
    for (int a = 0; a <= room.m; ++a) {
        V* La = room.C.data() + at(a, 0);
        for (int b = 0; b < a; ++b) {
            const V* Lb = room.C.data() + at(b, 0);
            La[b] = (La[b] - dot(La, Lb, b)) * Lb[b];
        }
        const V least = La[a] * 1e-14;
        V pivot = La[a] - dot(La, La, a);
        pivot = pivot > least ? pivot : least;
        last = pivot;
        La[a] = 1.0 / square_root<double>(pivot);
    }
    return last;
}

// x = L_J^{-T} x
void solve_transposed(const Room& room, V* x) {
    for (int a = room.m - 1; a >= 0; --a) {
        const V* La = room.C.data() + at(a, 0);
        x[a] *= La[a];
        for (int b = 0; b < a; ++b) x[b] -= La[b] * x[a];
    }
}

// Values of W points, and the vectors w and q of which the derivative in the kernel matrix is made: M = w q^T.
void conditionals(const Likelihood& t, std::ptrdiff_t p, Room& room) {
    const V variance = factorise(room);
    const V *last = room.C.data() + at(room.m, 0);
    const V precision = 1.0 / variance;
    V slope = {}, value = {};  // of the variance
    for (int a = 0; a <= room.m; ++a) room.u[a] = V{};
    for (int c = 0; c < t.targets; ++c) {
        V* z = room.z.data();
        for (int a = 0; a < room.m; ++a) {
            const V* La = room.C.data() + at(a, 0);
            z[a] = (room.y[a * t.targets + c] - dot(La, z, a)) * La[a];
        }
        const V error = room.y[room.m * t.targets + c] - dot(last, z, room.m);
        value += 0.5 * error * error * precision;
        slope += 0.5 * precision - 0.5 * error * error * precision * precision;
        solve_transposed(room, z);
        const V in_mean = -error * precision * room.present;
        if (t.pull)
            for (int l = 0; l < W && p + l < t.count; ++l) t.pull[(p + l) * t.targets + c] = -in_mean[l];
        for (int a = 0; a < room.m; ++a) room.u[a] += in_mean * z[a];
    }
    slope *= room.present;
    for (int a = 0; a < room.m; ++a) room.w[a] = last[a];
    solve_transposed(room, room.w.data());
    room.w[room.m] = V{} - 1.0;
    for (int a = 0; a <= room.m; ++a) room.q[a] = slope * room.w[a] - room.u[a];
    if (t.w) {
        for (int l = 0; l < W && p + l < t.count; ++l) {
            for (int a = 0; a <= room.m; ++a) {
                t.w[(p + l) * (room.m + 1) + a] = room.w[a][l];
                t.q[(p + l) * (room.m + 1) + a] = room.q[a][l];
            }
        }
    }
    for (int l = 0; l < W && p + l < t.count; ++l)
        t.values[p + l] = value[l] + 0.5 * t.targets * std::log(2.0 * 3.14159265358979323846 * variance[l]);
}

// Sums of M against row a of a linear term: M P, and M f_c f'_c for each feature. M is kept for a while.
V linear_slopes(const Term& term, const Room& room, const V* x, int a, int d, const V* P, V* M, V* of_features) {
    V total = {};
    for (int b = 0; b <= a; ++b) {
        M[b] = b < a ? room.w[a] * room.q[b] + room.w[b] * room.q[a] : room.w[a] * room.q[a];
        total += M[b] * P[b];
    }
    for (int f = 0; f < term.features; f += STEP) {
        const int some = std::min(STEP, term.features - f);
        V sum[STEP] = {};
        for (int b = 0; b <= a; ++b)
            for (int c = 0; c < STEP; ++c) sum[c] += M[b] * x[f + std::min(c, some - 1) - (a - b) * d];
        for (int c = 0; c < some; ++c) of_features[f + c] += x[f + c] * sum[c];
    }
    return total;
}

// Sums of M against the derivatives of the kernel.
void slopes(const Likelihood& t, Room& room) {
    const int d = t.features;
    V* of_features = room.G.data() + 2 * t.n_terms;
    V diagonal = {}, off = {}, noise = {};
    for (int a = 0; a <= room.m; ++a) {
        const V M = room.w[a] * room.q[a];
        diagonal += M;
        noise += M * room.share[a];
        for (int b = 0; b < a; ++b) off += room.w[a] * room.q[b] + room.w[b] * room.q[a];
        for (int k = 0, f0 = 0; k < t.n_terms; f0 += t.terms[k++].features) {
            V* S = room.S.data() + (k * at(room.m + 1, 0) + at(a, 0));
            const V* P = room.P.data() + (k * at(room.m + 1, 0) + at(a, 0));
            const V* x = room.X.data() + a * d + f0;
            if (t.terms[k].kind == FIXED) continue;
            if (t.terms[k].kind == LINEAR) {
                room.G[2 * k] += linear_slopes(t.terms[k], room, x, a, d, P, S, of_features + f0);
                continue;
            }
            V total = {}, in_alpha = {};
            for (int b = 0; b < a; b += STEP) {
                const int some = std::min(STEP, a - b);
                V D[STEP] = {};
                for (int c = 0; c < some; ++c) {
                    const V pair = room.w[a] * room.q[b + c] + room.w[b + c] * room.q[a];
                    total += pair * P[b + c];
                    if (t.terms[k].kind == RATIONAL_QUADRATIC) in_alpha += pair * slope_in_alpha<double>(S[b + c], P[b + c]);
                    D[c] = pair * slope_of<double>(t.terms[k].kind, S[b + c], P[b + c], t.terms[k].alpha);
                }
                for (int f = 0; f < t.terms[k].features; ++f) {
                    V sum = of_features[f0 + f];
                    for (int c = 0; c < STEP; ++c) {
                        const V difference = x[f] - room.X[(b + std::min(c, some - 1)) * d + f0 + f];
                        sum += D[c] * (difference * difference);
                    }
                    of_features[f0 + f] = sum;
                }
            }
            room.G[2 * k] += total;
            room.G[2 * k + 1] += in_alpha;
        }
    }
    for (int k = 0; k < t.n_terms; ++k)
        if (t.terms[k].kind < LINEAR) room.G[2 * k] += diagonal;
    of_features[d] += diagonal + off;
    of_features[d + 1] += noise;
}

}  // namespace

void search(const Search& task, Range panels) {
    alignas(64) float S[ROWS * BLOCK];
    for (std::ptrdiff_t p = panels.first; p < panels.last; p += panels.step) {
        const std::ptrdiff_t i0 = p * ROWS, rows = std::min<std::ptrdiff_t>(ROWS, task.left_rows - i0);
        Nearest nearest[ROWS];
        const std::ptrdiff_t end = task.among == 2 ? task.places[i0 + rows - 1] : task.right_rows;
        for (std::ptrdiff_t j = 0; j < end; j += BLOCK) {
            distances(task.left, task.right, task.features, i0, j, S);
            for (int r = 0; r < rows; ++r) {
                const std::ptrdiff_t i = task.places[i0 + r], stop = task.among == 2 ? i : task.right_rows;
                scan(S + row_offset<float>(r), j, stop, task.among == 1 ? i : -1, nearest[r], std::size_t(task.count));
            }
        }
        for (int r = 0; r < rows; ++r) {
            auto& heap = nearest[r].heap;
            std::sort_heap(heap.begin(), heap.end());
            std::int32_t* found = task.found + (i0 + r) * task.count;
            for (int k = 0; k < task.count; ++k) found[k] = k < int(heap.size()) ? heap[k].second : -1;
        }
    }
}

void likelihood(const Likelihood& task, Range chunks) {
    Room room(task);
    const std::ptrdiff_t size = 2 * task.n_terms + task.features + 2;
    for (std::ptrdiff_t c = chunks.first; c < chunks.last; c += chunks.step) {
        std::fill(room.G.begin(), room.G.end(), V{});
        for (std::ptrdiff_t p = c * CHUNK; p < std::min(task.count, (c + 1) * CHUNK); p += W) {
            gather(task, p, room);
            kernels(task, room);
            conditionals(task, p, room);
            slopes(task, room);
        }
        for (std::ptrdiff_t g = 0; g < size; ++g)
            for (int l = 0; l < W; ++l) task.sums[c * size + g] += room.G[g][l];
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
