// Neighbours that say something: a partial Cholesky factorisation of the candidates' small matrix K + N, whose next pivot is the
// candidate that lowers the variance at the point the most. Lane l of every vector belongs to a candidate.
#include <algorithm>
#include <cmath>
#include <vector>

#include "neighbours.h"
#include "profiles.h"
#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

using V = Vec<double>;
constexpr int W = width<double>;
constexpr int STEP = 4;          // vectors of candidates at once
constexpr int AHEAD = 16;        // candidates between one that is read and the one that is asked for meanwhile
constexpr double TAKEN = -1e300;  // as the variance of a candidate that is chosen

// What one point needs, kept between points.
struct Room {
    int blocks, size;  // groups of STEP vectors, and the candidates with those that fill up the last group
    std::vector<V> X;              // [block][feature][STEP]
    std::vector<V> L;              // [block][pivot][STEP]: in the order in which it is read
    std::vector<V> k, s, floor;    // covariance with the point and variance, given the pivots; below the floor it is rounding
    std::vector<V> gain;           // what each candidate would take off the variance at the point
    std::vector<double> pivot, factor;  // features, and entries of L, of the pivot
    Room(const Choice& t)
        : blocks((t.c + STEP * W - 1) / (STEP * W)), size(blocks * STEP * W), X(std::size_t(blocks) * STEP * t.features),
          L(std::size_t(t.m) * blocks * STEP), k(blocks * STEP), s(blocks * STEP), floor(blocks * STEP), gain(blocks * STEP),
          pivot(t.features), factor(t.m) {}
};

inline double& lane(std::vector<V>& v, std::ptrdiff_t a) { return reinterpret_cast<double*>(v.data())[a]; }

inline double& feature(Room& room, int features, int a, int f) {
    constexpr int group = STEP * W;
    return lane(room.X, (std::ptrdiff_t(a / group) * features + f) * group + a % group);
}

// out = k(x, candidates of a group)
void kernel(const Choice& t, const double* x, const V* X, V (&out)[STEP]) {
    for (int v = 0; v < STEP; ++v) out[v] = V{} + t.constant;
    for (int k = 0, f0 = 0; k < t.n_terms; f0 += t.terms[k++].features) {
        V s[STEP] = {};
        for (int f = f0; f < f0 + t.terms[k].features; ++f) {
            for (int v = 0; v < STEP; ++v) {
                const V difference = X[f * STEP + v] - x[f];
                s[v] += difference * difference;
            }
        }
        profile_of<double, STEP>(t.terms[k].kind, s, t.terms[k].alpha);
        for (int v = 0; v < STEP; ++v) out[v] += t.terms[k].weight * s[v];
    }
}

inline V gain(const Room& room, int v) { return room.s[v] > room.floor[v] ? room.k[v] * room.k[v] / room.s[v] : V{}; }

// Candidates of a point, and the prior of both. One that is not there has no variance, and is never chosen.
void gather(const Choice& t, std::ptrdiff_t p, double k0, Room& room) {
    for (int a = 0; a < room.size; ++a) {
        const std::int32_t j = a < t.c ? t.candidates[p * t.c + a] : -1;
        if (a + AHEAD < t.c && t.candidates[p * t.c + a + AHEAD] >= 0)
            __builtin_prefetch(t.F + t.candidates[p * t.c + a + AHEAD] * std::ptrdiff_t(t.features));
        for (int f = 0; f < t.features; ++f) feature(room, t.features, a, f) = j < 0 ? 0.0 : t.F[j * std::ptrdiff_t(t.features) + f];
        lane(room.s, a) = j < 0 ? 0.0 : k0 + t.N[j];
    }
    for (int b = 0; b < room.blocks; ++b) {
        V out[STEP];
        kernel(t, t.points + p * t.features, room.X.data() + std::ptrdiff_t(b) * STEP * t.features, out);
        for (int v = 0; v < STEP; ++v) room.k[b * STEP + v] = out[v];
    }
    for (int v = 0; v < room.blocks * STEP; ++v) {
        room.floor[v] = room.s[v] * t.least_variance;
        room.gain[v] = gain(room, v);
    }
}

// The candidate that lowers the variance the most, the nearest of those that do so equally; -1 if none does.
int best(const Room& room, double least, double tie) {
    V most = {};
    for (int v = 0; v < room.blocks * STEP; ++v) most = room.gain[v] > most ? room.gain[v] : most;
    double top = 0.0;
    for (int l = 0; l < W; ++l) top = std::max(top, double(most[l]));
    if (!(top > least)) return -1;
    const double enough = top * (1.0 - tie);
    const double* gains = reinterpret_cast<const double*>(room.gain.data());
    for (int a = 0; a < room.size; ++a)
        if (gains[a] >= enough) return a;
    return -1;
}

// Conditions on candidate a, the i-th pivot.
void condition(const Choice& t, Room& room, int a, int i) {
    const std::ptrdiff_t group = std::ptrdiff_t(t.m) * STEP;  // vectors of a block
    const double root = std::sqrt(lane(room.s, a)), weight = lane(room.k, a) / root;
    std::vector<double>& x = room.pivot;
    std::vector<double>& l = room.factor;
    for (int f = 0; f < t.features; ++f) x[f] = feature(room, t.features, a, f);
    for (int u = 0; u < i; ++u) l[u] = lane(room.L, (a / (STEP * W) * group + u * STEP) * W + a % (STEP * W));
    lane(room.s, a) = TAKEN;  // it stays so: entries of L are at most of the size of its root
    for (int b = 0; b < room.blocks; ++b) {
        const V* before = room.L.data() + b * group;
        V sum[STEP];
        kernel(t, x.data(), room.X.data() + std::ptrdiff_t(b) * STEP * t.features, sum);
        for (int u = 0; u < i; ++u)
            for (int v = 0; v < STEP; ++v) sum[v] -= before[u * STEP + v] * l[u];
        for (int v = 0; v < STEP; ++v) {
            const V entry = sum[v] / root;
            room.L[b * group + i * STEP + v] = entry;
            room.k[b * STEP + v] -= entry * weight;
            room.s[b * STEP + v] -= entry * entry;
            room.gain[b * STEP + v] = gain(room, b * STEP + v);
        }
    }
}

}  // namespace

void most_informative(const Choice& task, Range points) {
    Room room(task);
    double k0 = task.constant;
    for (int k = 0; k < task.n_terms; ++k) k0 += task.terms[k].weight;
    for (std::ptrdiff_t p = points.first; p < points.last; p += points.step) {
        const std::int32_t* candidates = task.candidates + p * task.c;
        std::int32_t* chosen = task.chosen + p * task.m;
        gather(task, p, k0, room);
        int i = 0;
        for (int a; i < task.m && (a = best(room, task.least_gain * k0, task.tie)) >= 0; ++i) {
            chosen[i] = candidates[a];
            condition(task, room, a, i);
        }
        for (int a = 0; a < task.c && i < task.m; ++a)  // the rest is rounding: the nearest that are left
            if (candidates[a] >= 0 && lane(room.s, a) > 0.5 * TAKEN) chosen[i++] = candidates[a];
        std::fill(chosen + i, chosen + task.m, -1);
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
