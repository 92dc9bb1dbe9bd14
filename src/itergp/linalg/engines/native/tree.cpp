// Nearest points by a search tree, in float64: a leaf is scanned as a whole, which is faster than going down to single points.
#include "tree.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "vectors.h"

namespace itergp {
namespace ITERGP_ISA {
namespace {

using V = Vec<double>;
constexpr int W = width<double>;
constexpr double SLACK = 1.0 + 1e-12;  // for the rounding of distances to boxes

using Candidate = std::pair<double, std::int32_t>;  // squared distance, row

// The nearest so far, and some that came since: sorted out now and then, which takes less time than keeping an order.
struct Found {
    std::vector<Candidate> some;
    std::size_t count;
    double limit = std::numeric_limits<double>::infinity();

    explicit Found(int count) : count(std::size_t(count)) { some.reserve(2 * this->count + LEAF); }

    void settle() {
        if (some.size() > count) {
            std::nth_element(some.begin(), some.begin() + std::ptrdiff_t(count) - 1, some.end());
            some.resize(count);
            limit = some.back().first;
        }
    }

    bool full() const { return some.size() >= (limit == std::numeric_limits<double>::infinity() ? count + 1 : 2 * count); }
};

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

void scan(const Tree& tree, std::int32_t leaf, const double* x, Found& found) {
    const double* points = tree.points.data() + std::ptrdiff_t(leaf) * tree.features * LEAF;
    const std::int32_t* rows = tree.rows.data() + std::ptrdiff_t(leaf) * LEAF;
    constexpr int STEP = 4;
    for (int j = 0; j < LEAF; j += STEP * W) {
        V s[STEP] = {};
        for (int f = 0; f < tree.features; ++f) {
            for (int v = 0; v < STEP; ++v) {
                const V difference = load<double>(points + f * LEAF + j + v * W) - x[f];
                s[v] += difference * difference;
            }
        }
        for (int v = 0; v < STEP; ++v) {
            const Vec<std::int64_t> near = s[v] <= found.limit;
            std::uint64_t words[W], any = 0;
            std::memcpy(words, &near, sizeof(near));
            for (auto word : words) any |= word;
            if (!any) continue;
            for (int l = 0; l < W; ++l)
                if (words[l] && rows[j + v * W + l] >= 0) found.some.push_back({s[v][l], rows[j + v * W + l]});
        }
    }
    if (found.full()) found.settle();
}

using Waiting = std::pair<double, std::int32_t>;  // squared distance to the box, node

void search(const Tree& tree, const double* x, Found& found, std::vector<Waiting>& stack) {
    stack.assign(1, {to_box(tree, 0, x), 0});
    while (!stack.empty()) {
        const auto [distance, at] = stack.back();
        stack.pop_back();
        if (distance > found.limit * SLACK) continue;
        const Node& node = tree.nodes[at];
        if (node.left < 0) {
            scan(tree, node.leaf, x, found);
            continue;
        }
        Waiting near{to_box(tree, node.left, x), node.left}, far{to_box(tree, node.right, x), node.right};
        if (far.first < near.first) std::swap(near, far);
        if (far.first <= found.limit * SLACK) stack.push_back(far);
        stack.push_back(near);
    }
}

}  // namespace

// The leaf that a query lies in, or next to.
std::int32_t home(const Tree& tree, const double* x) {
    std::int32_t at = 0;
    while (tree.nodes[at].left >= 0) {
        const Node& node = tree.nodes[at];
        at = to_box(tree, node.right, x) < to_box(tree, node.left, x) ? node.right : node.left;
    }
    return tree.nodes[at].leaf;
}

void nearby(const Nearby& task, Range queries) {
    Found found(task.count);
    std::vector<Waiting> stack;
    for (std::ptrdiff_t i = queries.first; i < queries.last; i += queries.step) {
        const std::ptrdiff_t q = task.order[i];
        found.some.clear();
        found.limit = std::numeric_limits<double>::infinity();
        search(*task.tree, task.queries + q * task.tree->features, found, stack);
        found.settle();
        std::sort(found.some.begin(), found.some.end());
        std::int32_t* rows = task.found + q * task.count;
        for (int k = 0; k < task.count; ++k) rows[k] = k < int(found.some.size()) ? found.some[k].second : -1;
    }
}

}  // namespace ITERGP_ISA
}  // namespace itergp
