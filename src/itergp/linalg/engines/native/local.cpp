// Local actions: for each point the small matrix of its neighbours, less what the global actions have seen, its Cholesky factor,
// and the update of mean and variance. Lane l of every vector belongs to point l of a group, except in the product with the
// global actions, where lanes run along the actions: so no number depends on which other points are asked for.
#include "local.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "profiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

using V = Vec<double>;
constexpr int W = width<double>;
constexpr int STEP = 4;       // entries, or rows, at once
constexpr int RAISED = 280;   // times that a diagonal may grow tenfold, which no finite matrix needs

inline int at(int a, int b) { return a * (a + 1) / 2 + b; }  // of a lower triangle, row by row

inline double& lane(std::vector<V>& v, std::ptrdiff_t i, int l) { return reinterpret_cast<double*>(v.data())[i * W + l]; }

// ---- triangular solves ----------------------------------------------------------------------------------------------

// NV vectors of right-hand sides, Y[row][vector] in and out. Rows of L by STEP: each number of Y that is read serves all of them.
template <int NV>
void substitute(const Triangular& t, V* Y) {
    for (int i = 0; i < t.size; i += STEP) {
        const int some = std::min(STEP, t.size - i);
        const double* L[STEP];
        V sum[STEP][NV];
        for (int q = 0; q < STEP; ++q) {
            L[q] = t.L + (i + std::min(q, some - 1)) * t.stride;
            for (int v = 0; v < NV; ++v) sum[q][v] = Y[(i + std::min(q, some - 1)) * NV + v];
        }
        for (int k = 0; k < i; ++k)
            for (int q = 0; q < STEP; ++q)
                for (int v = 0; v < NV; ++v) sum[q][v] -= L[q][k] * Y[k * NV + v];
        for (int q = 0; q < some; ++q) {
            for (int k = 0; k < q; ++k)
                for (int v = 0; v < NV; ++v) sum[q][v] -= L[q][i + k] * sum[k][v];
            for (int v = 0; v < NV; ++v) Y[(i + q) * NV + v] = sum[q][v] = sum[q][v] / L[q][i + q];
        }
    }
}

// Right-hand sides first to first + count, in NV vectors.
template <int NV>
void solve_some(const Triangular& t, std::ptrdiff_t first, int count, std::vector<V>& Y) {
    double* y = reinterpret_cast<double*>(Y.data());
    std::fill(Y.begin(), Y.begin() + std::ptrdiff_t(t.size) * NV, V{});
    for (int c = 0; c < count; ++c) {
        const double* from = t.B + (first + c) * t.size;
        for (int k = 0; k < t.size; ++k) y[std::ptrdiff_t(k) * NV * W + c] = from[k];
    }
    substitute<NV>(t, Y.data());
    for (int c = 0; c < count; ++c) {
        double* to = t.X + (first + c) * t.size;
        for (int k = 0; k < t.size; ++k) to[k] = y[std::ptrdiff_t(k) * NV * W + c];
    }
}

// ---- local actions --------------------------------------------------------------------------------------------------

// What a group of W points needs, kept between groups. The point itself comes after its neighbours.
struct Room {
    int m;
    std::vector<V> X, y, N, C, L, z;
    std::vector<const double*> rows;  // of H for one point, and its w
    std::vector<double> none;         // the row of H of a neighbour that is not there
    Room(const Local& t)
        : m(t.m), X(std::size_t(m + 1) * t.features), y(std::size_t(m) * t.targets), N(m), C(at(m + 1, 0)), L(at(m + 1, 0)), z(m), rows(m + 1),
          none(t.r) {}
};

// Points and their neighbours, with zeros and the noise -1 where there is none.
void gather(const Local& t, std::ptrdiff_t p, Room& room) {
    for (int l = 0; l < W; ++l) {
        const bool inside = p + l < t.count;
        for (int a = 0; a <= room.m; ++a) {
            const std::int32_t j = inside && a < room.m ? t.neighbours[(p + l) * room.m + a] : -1;
            const double* x = a == room.m ? (inside ? t.points + (p + l) * t.features : nullptr)
                                          : (j < 0 ? nullptr : t.F + j * std::ptrdiff_t(t.features));
            for (int f = 0; f < t.features; ++f) lane(room.X, std::ptrdiff_t(a) * t.features + f, l) = x ? x[f] : 0.0;
            if (a == room.m) continue;
            for (int c = 0; c < t.targets; ++c)
                lane(room.y, std::ptrdiff_t(a) * t.targets + c, l) = j < 0 ? 0.0 : t.residual[j * std::ptrdiff_t(t.targets) + c];
            lane(room.N, a, l) = j < 0 ? -1.0 : t.N[j];
        }
    }
}

// C[b] += weight * f_a . f_b for b <= a
void add_products(const Term& term, const V* x, int a, int d, V* C) {
    for (int b = 0; b <= a; ++b) {
        const V* other = x - std::ptrdiff_t(a - b) * d;
        V sum = {};
        for (int f = 0; f < term.features; ++f) sum += x[f] * other[f];
        C[b] += term.weight * sum;
    }
}

// C[b] += weight * profile(|f_a - f_b|^2) for b < a
void add_profiles(const Term& term, const V* x, int a, int d, V* C) {
    for (int b = 0; b < a; b += STEP) {
        const int some = std::min(STEP, a - b);
        const V* other[STEP];
        for (int c = 0; c < STEP; ++c) other[c] = x - std::ptrdiff_t(a - b - std::min(c, some - 1)) * d;
        V s[STEP] = {};
        for (int f = 0; f < term.features; ++f) {
            for (int c = 0; c < STEP; ++c) {
                const V difference = x[f] - other[c][f];
                s[c] += difference * difference;
            }
        }
        profile_of<double, STEP>(term.kind, s, term.alpha);
        for (int c = 0; c < some; ++c) C[b + c] += term.weight * s[c];
    }
    C[a] += term.weight;
}

// The kernel of neighbours and point, both halves of which are the lower one.
void kernels(const Local& t, Room& room) {
    for (int a = 0; a <= room.m; ++a) {
        V* C = room.C.data() + at(a, 0);
        for (int b = 0; b <= a; ++b) C[b] = V{} + t.constant;
        const V* x = room.X.data() + std::ptrdiff_t(a) * t.features;
        for (int k = 0; k < t.n_terms; x += t.terms[k++].features) {
            if (t.terms[k].kind == LINEAR) add_products(t.terms[k], x, a, t.features, C);
            else add_profiles(t.terms[k], x, a, t.features, C);
        }
    }
}

// The sum of the lanes, by halves.
inline double total(V v) {
    double sum[W];
    save<double>(sum, v);
    for (int h = W / 2; h > 0; h /= 2)
        for (int l = 0; l < h; ++l) sum[l] += sum[l + h];
    return sum[0];
}

// out[q][c] = a[q] . b[c], over r numbers
inline void inner(const double* const* a, const double* const* b, int r, double (&out)[STEP][STEP]) {
    V sum[STEP][STEP] = {};
    int k = 0;
    for (; k + W <= r; k += W) {
        V x[STEP];
        for (int q = 0; q < STEP; ++q) x[q] = load<double>(a[q] + k);
        for (int c = 0; c < STEP; ++c) {
            const V y = load<double>(b[c] + k);
            for (int q = 0; q < STEP; ++q) sum[q][c] += x[q] * y;
        }
    }
    for (int q = 0; q < STEP; ++q) {
        for (int c = 0; c < STEP; ++c) {
            out[q][c] = total(sum[q][c]);
            for (int rest = k; rest < r; ++rest) out[q][c] += a[q][rest] * b[c][rest];
        }
    }
}

// C -= [H_J; w] [H_J; w]^T for the point in lane l.
void subtract_seen(const Local& t, std::ptrdiff_t p, int l, Room& room) {
    const int last = room.m;
    for (int a = 0; a < last; ++a) {
        const std::int32_t j = t.neighbours[p * last + a];
        room.rows[a] = j < 0 ? room.none.data() : t.H + j * std::ptrdiff_t(t.r);
    }
    room.rows[last] = t.W + p * std::ptrdiff_t(t.r);
    for (int a = 0; a <= last; a += STEP) {
        const double* left[STEP];
        for (int q = 0; q < STEP; ++q) left[q] = room.rows[std::min(a + q, last)];
        for (int b = 0; b <= a; b += STEP) {
            const double* right[STEP];
            for (int c = 0; c < STEP; ++c) right[c] = room.rows[std::min(b + c, last)];
            double products[STEP][STEP];
            inner(left, right, t.r, products);
            for (int q = 0; q < STEP && a + q <= last; ++q)
                for (int c = 0; c < STEP && b + c <= a + q; ++c) lane(room.C, at(a + q, b + c), l) -= products[q][c];
        }
    }
}

// The noise on the diagonal; a neighbour that is not there becomes one that tells nothing.
void add_noise(const Local& t, Room& room) {
    const V one = V{} + 1.0;
    for (int a = 0; a <= room.m; ++a) {
        V* C = room.C.data() + at(a, 0);
        const V here = a == room.m ? one : (room.N[a] >= 0.0 ? one : V{});
        for (int b = 0; b < std::min(a + 1, room.m); ++b) C[b] *= here * (room.N[b] >= 0.0 ? one : V{});
        if (a < room.m) C[a] = room.N[a] >= 0.0 ? C[a] + (room.N[a] + t.jitter) : one;
    }
}

inline V dot(const V* x, const V* y, int n) {
    V sum[STEP] = {};
    int k = 0;
    for (; k + STEP <= n; k += STEP)
        for (int c = 0; c < STEP; ++c) sum[c] += x[k + c] * y[k + c];
    for (; k < n; ++k) sum[0] += x[k] * y[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// L L^T = C + diag(more), with 1 / pivot on the diagonal; its last row is w_J. Returns 1 in the lanes with a pivot that is not
// positive.
V factorise(Room& room, V more) {
    V failed = {};
    const V one = V{} + 1.0;
    for (int a = 0; a <= room.m; ++a) {
        V* La = room.L.data() + at(a, 0);
        const V* C = room.C.data() + at(a, 0);
        for (int b = 0; b < a; ++b) {
            const V* Lb = room.L.data() + at(b, 0);
            La[b] = (C[b] - dot(La, Lb, b)) * Lb[b];
        }
        if (a == room.m) break;
        const V pivot = C[a] + more - dot(La, La, a);
        failed = pivot > 0.0 ? failed : one;
        La[a] = one / square_root<double>(pivot > 0.0 ? pivot : one);
    }
    return failed;
}

// The factor; a matrix that is indefinite by rounding gets a larger diagonal, until it is not. One that is not finite never is:
// its w_J is not a number.
void factorise_robustly(const Local& t, Room& room) {
    V more = {}, step = V{} + 10.0 * t.jitter, failed = {};
    for (int tries = 0; tries < RAISED; ++tries) {
        failed = factorise(room, more);
        double any = 0.0;
        for (int l = 0; l < W; ++l) any += failed[l];
        if (any == 0.0) return;
        more += failed * step;
        step = failed > 0.0 ? step * 10.0 : step;
    }
    const V nothing = V{} + std::numeric_limits<double>::quiet_NaN();
    for (int b = 0; b < room.m; ++b) room.L[at(room.m, b)] = failed > 0.0 ? nothing : room.L[at(room.m, b)];
}

// mean += w_J . z_J with z_J = L_J^{-1} r_J, and variance -= w_j^2, one by one
void update(const Local& t, std::ptrdiff_t p, Room& room) {
    const V* w = room.L.data() + at(room.m, 0);
    const int inside = int(std::min<std::ptrdiff_t>(W, t.count - p));
    V variance = {};
    for (int l = 0; l < inside; ++l) variance[l] = t.variance[p + l];
    for (int a = 0; a < room.m; ++a) {
        const V square = w[a] * w[a];
        variance -= square;
    }
    for (int l = 0; l < inside; ++l) t.variance[p + l] = variance[l];
    for (int c = 0; c < t.targets; ++c) {
        for (int a = 0; a < room.m; ++a) {
            const V* La = room.L.data() + at(a, 0);
            room.z[a] = (room.y[std::ptrdiff_t(a) * t.targets + c] - dot(La, room.z.data(), a)) * La[a];
        }
        const V more = dot(w, room.z.data(), room.m);
        for (int l = 0; l < inside; ++l) t.mean[(p + l) * t.targets + c] += more[l];
    }
}

}  // namespace

void solve_lower(const Triangular& task, Range panels) {
    constexpr int each = 3 * W;
    std::vector<V> Y(std::size_t(task.size) * 3);
    for (std::ptrdiff_t p = panels.first; p < panels.last; p += panels.step) {
        for (std::ptrdiff_t first = p * SOLVED; first < std::min(task.count, (p + 1) * SOLVED); first += each) {
            const int count = int(std::min<std::ptrdiff_t>(each, std::min(task.count, (p + 1) * SOLVED) - first));
            if (count > 2 * W) solve_some<3>(task, first, count, Y);
            else if (count > W) solve_some<2>(task, first, count, Y);
            else solve_some<1>(task, first, count, Y);
        }
    }
}

void local_actions(const Local& task, Range groups) {
    Room room(task);
    for (std::ptrdiff_t g = groups.first; g < groups.last; g += groups.step) {
        const std::ptrdiff_t p = g * W;
        gather(task, p, room);
        kernels(task, room);
        for (int l = 0; task.r && l < W && p + l < task.count; ++l) subtract_seen(task, p + l, l, room);
        add_noise(task, room);
        factorise_robustly(task, room);
        update(task, p, room);
    }
}

int group_of_points() { return W; }

}  // namespace ITERGP_ISA
}  // namespace itergp
