// Nearest points by a search tree. A leaf is scanned as a whole, in float32: that halves what has to be read. What may be among
// the nearest, given the rounding of these distances, is kept, and its distance taken in float64 at the end.
#include "tree.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

using V = Vec<float>;
constexpr int W = width<float>;
constexpr double UNIT = 6e-8;  // rounding of float32

// The nearest so far, and some that came since: sorted out now and then, which takes less time than keeping an order.
struct Found {
    std::vector<std::pair<float, std::int32_t>> some;  // squared distance in float32, place
    std::size_t count, next;
    double slack = 0.0;                                // of distances in float32
    float limit = std::numeric_limits<float>::infinity();

    explicit Found(int count) : count(std::size_t(count)) { some.reserve(2 * this->count + LEAF); }

    // Distances in float32 err by the rounding of coordinates, and relatively by that of the sum of their squares.
    void start(const Tree& tree, const double* x) {
        double farthest = 2.0;
        for (int f = 0; f < tree.features; ++f) farthest = std::max(farthest, std::abs(x[f]));
        some.clear();
        next = count + 1;
        slack = 8.0 * UNIT * std::sqrt(double(tree.features)) * farthest;
        limit = std::numeric_limits<float>::infinity();
    }

    // Of more than `count`, those that may be among the nearest.
    void settle(int features) {
        if (some.size() <= count) return;
        std::nth_element(some.begin(), some.begin() + std::ptrdiff_t(count) - 1, some.end());
        const double reach = std::sqrt(double(some[count - 1].first)) * (1.0 + 4.0 * UNIT * (features + 4)) + 2.0 * slack;
        limit = float(reach * reach * (1.0 + 4.0 * UNIT));
        some.erase(std::remove_if(some.begin() + std::ptrdiff_t(count), some.end(), [&](const auto& one) { return one.first > limit; }), some.end());
        next = 2 * some.size();
    }
};

// A query in the units of the tree.
void place(const Tree& tree, const double* query, double* x) {
    for (int f = 0; f < tree.features; ++f) x[f] = (query[f] - tree.centre[f]) * tree.scale;
}

double to_box(const Tree& tree, std::int32_t node, const double* x) {
    const double* low = tree.boxes.data() + std::ptrdiff_t(node) * 2 * tree.features;
    const double* high = low + tree.features;
    double sum = 0.0;
    for (int f = 0; f < tree.features; ++f) {
        const double away = std::max(0.0, std::max(low[f] - x[f], x[f] - high[f]));
        sum += away * away;
    }
    return sum;
}

void scan(const Tree& tree, std::int32_t leaf, const float* x, Found& found) {
    const float* points = tree.coarse.data() + std::ptrdiff_t(leaf) * tree.features * LEAF;
    constexpr int STEP = 4;
    for (int j = 0; j < LEAF; j += STEP * W) {
        V s[STEP] = {};
        for (int f = 0; f < tree.features; ++f) {
            for (int v = 0; v < STEP; ++v) {
                const V difference = load<float>(points + f * LEAF + j + v * W) - x[f];
                s[v] += difference * difference;
            }
        }
        for (int v = 0; v < STEP; ++v) {
            const Vec<std::int32_t> far = s[v] > found.limit;  // what is not a number is not far
            std::uint64_t words[sizeof(far) / 8], all = ~std::uint64_t(0);
            std::memcpy(words, &far, sizeof(far));
            for (auto word : words) all &= word;
            if (all == ~std::uint64_t(0)) continue;
            for (int l = 0; l < W; ++l) {
                const std::int32_t place = leaf * LEAF + j + v * W + l;
                if (!far[l] && tree.rows[place] >= 0) found.some.push_back({s[v][l], place});
            }
        }
    }
    if (found.some.size() >= found.next) found.settle(tree.features);
}

double distance(const Tree& tree, std::int32_t place, const double* x) {
    const double* point = tree.points + std::ptrdiff_t(place) * tree.features;
    double sum = 0.0;
    for (int f = 0; f < tree.features; ++f) {
        const double difference = point[f] - x[f];
        sum += difference * difference;
    }
    return sum;
}

// The leaves of a group, where they may have points within the limit.
void scan_group(const Tree& tree, std::int32_t group, const float* x, Found& found) {
    const float* sides = tree.sides.data() + std::ptrdiff_t(group) * tree.features * 2 * GROUP;
    alignas(64) float away[GROUP];
    for (int l = 0; l < GROUP; l += W) {
        V sum = {};
        for (int f = 0; f < tree.features; ++f) {
            const V below = load<float>(sides + 2 * f * GROUP + l) - x[f], above = x[f] - load<float>(sides + (2 * f + 1) * GROUP + l);
            V more = below > above ? below : above;
            more = more > 0.0f ? more : V{};
            sum += more * more;
        }
        save<float>(away + l, sum);
    }
    for (int l = 0; l < GROUP; ++l)
        if (!(away[l] > found.limit)) scan(tree, group * GROUP + l, x, found);
}

using Waiting = std::pair<double, std::int32_t>;  // squared distance to the box, node

void search(const Tree& tree, const double* x, const float* coarse, Found& found, std::vector<Waiting>& stack) {
    stack.assign(1, {to_box(tree, 0, x), 0});
    while (!stack.empty()) {
        const auto [distance, at] = stack.back();
        stack.pop_back();
        if (distance > found.limit) continue;
        const Node& node = tree.nodes[at];
        if (node.left < 0) {
            scan_group(tree, node.group, coarse, found);
            continue;
        }
        Waiting near{to_box(tree, node.left, x), node.left}, far{to_box(tree, node.right, x), node.right};
        if (far.first < near.first) std::swap(near, far);
        if (far.first <= found.limit) stack.push_back(far);
        stack.push_back(near);
    }
}

}  // namespace

// The group of leaves that a query lies in, or next to.
std::int32_t home(const Tree& tree, const double* query) {
    std::vector<double> own(std::size_t(tree.features));
    place(tree, query, own.data());
    const double* x = own.data();
    std::int32_t at = 0;
    while (tree.nodes[at].left >= 0) {
        const Node& node = tree.nodes[at];
        at = to_box(tree, node.right, x) < to_box(tree, node.left, x) ? node.right : node.left;
    }
    return tree.nodes[at].group;
}

void nearby(const Nearby& task, Range queries) {
    const Tree& tree = *task.tree;
    Found found(task.count);
    std::vector<Waiting> stack;
    std::vector<double> x(std::size_t(tree.features));
    std::vector<float> coarse(std::size_t(tree.features));
    std::vector<std::pair<double, std::int32_t>> nearest;  // squared distance, row
    for (std::ptrdiff_t i = queries.first; i < queries.last; i += queries.step) {
        const double* query = task.queries + std::ptrdiff_t(task.order[i]) * tree.features;
        std::int32_t* rows = task.found + std::ptrdiff_t(task.order[i]) * task.count;
        place(tree, query, x.data());
        std::copy(x.begin(), x.end(), coarse.begin());
        found.start(tree, x.data());
        search(tree, x.data(), coarse.data(), found, stack);
        found.settle(tree.features);
        nearest.clear();
        for (const auto& one : found.some) nearest.push_back({distance(tree, one.second, query), tree.rows[one.second]});
        std::sort(nearest.begin(), nearest.end());
        for (int k = 0; k < task.count; ++k) rows[k] = k < int(nearest.size()) ? nearest[k].second : -1;
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
