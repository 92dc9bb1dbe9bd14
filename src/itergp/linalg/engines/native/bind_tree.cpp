// The binding of the search tree, and how it is grown.
#include <cmath>
#include <limits>

#include "bind.h"
#include "tree.h"

namespace {

using namespace itergp;

constexpr double NOWHERE = std::numeric_limits<double>::infinity();

// The least and the largest of each feature of some points.
struct Box {
    std::vector<double> sides;
    explicit Box(int d) : sides(std::size_t(2 * d), NOWHERE) { std::fill(sides.begin() + d, sides.end(), -NOWHERE); }
    void add(const double* x) {
        const std::size_t d = sides.size() / 2;
        for (std::size_t f = 0; f < d; ++f) {
            sides[f] = std::min(sides[f], x[f]);
            sides[d + f] = std::max(sides[d + f], x[f]);
        }
    }
};

// Rows that are still to be split: a node of the tree, or, inside a group, some of its leaves.
struct Segment {
    std::ptrdiff_t first, last;
    std::int32_t above;  // the node whose right child this is, -1 if it is none
    bool inside;
};

// What a split compares, side by side in memory.
struct Compared {
    double value;
    std::int32_t row;
};

// A tree is grown in steps of a fraction of a second, so that whoever waits for it can be interrupted in between. The points are
// those of F itself, which is reordered: there is no second copy of them.
struct SearchTree {
    Tree tree;
    Matrix<double> F;
    std::vector<Segment> waiting;     // the last one is next
    std::vector<Compared> compared;
    std::vector<double> carried;      // the point that is on its way, while F is reordered
    std::ptrdiff_t cycle = 0, at = 0; // where it came from, and where the next one goes
    std::ptrdiff_t moved = 0, filled = 0;  // points

    explicit SearchTree(Matrix<double> points) : F(points) {
        const auto n = std::ptrdiff_t(F.shape(0));
        expect(n > 0 && n < std::numeric_limits<std::int32_t>::max() && F.shape(1) > 0, "F must have rows and features");
        for (std::ptrdiff_t i = 0; i < n * std::ptrdiff_t(F.shape(1)); ++i) expect(std::isfinite(F.data()[i]), "F is not finite");
        tree.features = int(F.shape(1));
        tree.points = F.data();
        tree.rows.resize(std::size_t(n));
        for (std::ptrdiff_t i = 0; i < n; ++i) tree.rows[i] = std::int32_t(i);
        waiting.push_back({0, n, -1, false});
    }

    std::ptrdiff_t size() const { return std::ptrdiff_t(F.shape(0)); }
    bool grown() const { return filled == size(); }

    // Splits, moves or fills in at least so many points, if there are as many left; returns whether the tree is grown.
    bool grow(std::ptrdiff_t points) {
        const nb::gil_scoped_release unlocked;
        while (points > 0 && !waiting.empty()) {
            const Segment next = waiting.back();
            waiting.pop_back();
            split(next);
            points -= next.last - next.first;
        }
        if (points > 0 && moved < size()) points -= move(points);
        if (points > 0 && !grown()) fill(points);
        return grown();
    }

    // Splits rows at the middle of their widest feature, at a whole number of groups or leaves. Both halves wait, the left one is
    // next; there are no nodes below a group.
    void split(const Segment& some) {
        const int d = tree.features;
        const auto node = std::int32_t(tree.nodes.size());
        const std::ptrdiff_t count = some.last - some.first;
        Box box(d);
        for (std::ptrdiff_t i = some.first; i < some.last; ++i) box.add(tree.points + tree.rows[i] * std::ptrdiff_t(d));
        const auto& sides = box.sides;
        const bool group = count <= LEAF * GROUP;
        if (!some.inside) {
            tree.nodes.push_back({group ? -1 : node + 1, -1, std::int32_t(some.first / (LEAF * GROUP))});
            tree.boxes.insert(tree.boxes.end(), sides.begin(), sides.end());
            if (some.above >= 0) tree.nodes[some.above].right = node;
        }
        if (count <= LEAF) return;
        int widest = 0;
        for (int f = 1; f < d; ++f)
            if (sides[d + f] - sides[f] > sides[d + widest] - sides[widest]) widest = f;
        const std::ptrdiff_t unit = group ? LEAF : LEAF * GROUP, half = (count / 2 + unit - 1) / unit * unit;
        compared.resize(std::size_t(count));
        for (std::ptrdiff_t i = 0; i < count; ++i) {
            const std::int32_t row = tree.rows[some.first + i];
            compared[i] = {tree.points[row * std::ptrdiff_t(d) + widest], row};
        }
        std::nth_element(compared.begin(), compared.begin() + half, compared.end(), [](const Compared& a, const Compared& b) { return a.value < b.value; });
        for (std::ptrdiff_t i = 0; i < count; ++i) tree.rows[some.first + i] = compared[i].row;
        waiting.push_back({some.first + half, some.last, group ? -1 : node, group});
        waiting.push_back({some.first, some.first + half, -1, group});
    }

    // Puts points in the order of the leaves, cycle by cycle of this permutation; rows of places that are done are marked as ~row.
    std::ptrdiff_t move(std::ptrdiff_t points) {
        const int d = tree.features;
        double* to = F.data();
        std::ptrdiff_t some = 0;
        if (carried.empty()) {
            compared = {};
            carried.resize(std::size_t(d));
            cycle = at = -1;
        }
        for (; some < points && moved < size(); ++some, ++moved) {
            if (at < 0) {
                do ++cycle;
                while (tree.rows[cycle] < 0);
                at = cycle;
                std::copy_n(to + at * d, d, carried.begin());
            }
            const std::ptrdiff_t from = tree.rows[at];
            tree.rows[at] = ~tree.rows[at];
            std::copy_n(from == cycle ? carried.data() : to + from * d, d, to + at * d);
            at = from == cycle ? -1 : from;
        }
        if (moved == size()) prepare_leaves();
        return some;
    }

    // Centre and scale, and the boxes in these units.
    void choose_units() {
        const int d = tree.features;
        double reach = 0.0;
        tree.centre.resize(std::size_t(d));
        for (int f = 0; f < d; ++f) {
            tree.centre[f] = 0.5 * tree.boxes[f] + 0.5 * tree.boxes[d + f];
            reach = std::max(reach, tree.boxes[d + f] - tree.centre[f]);
        }
        tree.scale = reach > 0.0 ? std::ldexp(1.0, -std::clamp(std::ilogb(reach), -1000, 1000)) : 1.0;
        for (std::size_t i = 0; i < tree.boxes.size(); ++i) tree.boxes[i] = (tree.boxes[i] - tree.centre[i % d]) * tree.scale;
    }

    void prepare_leaves() {
        const std::ptrdiff_t groups = (size() + LEAF * GROUP - 1) / (LEAF * GROUP);
        const auto places = std::size_t(groups * GROUP * LEAF), d = std::size_t(tree.features);
        for (auto& row : tree.rows) row = ~row;
        tree.rows.resize(places, -1);
        tree.coarse.assign(places * d, 0.0f);
        tree.sides.assign(std::size_t(groups * GROUP) * d * 2, std::numeric_limits<float>::infinity());  // no box: far from all
        choose_units();
    }

    // Coarse points and boxes of so many points, or a few more: of whole leaves.
    void fill(std::ptrdiff_t points) {
        const int d = tree.features;
        const auto placed = [&](double x, int f) { return float((x - tree.centre[f]) * tree.scale); };
        for (; points > 0 && !grown(); points -= LEAF) {
            const std::ptrdiff_t leaf = filled / LEAF, last = std::min(size(), filled + LEAF);
            float* coarse = tree.coarse.data() + leaf * d * LEAF;
            Box box(d);
            for (std::ptrdiff_t i = filled; i < last; ++i) {
                const double* x = tree.points + i * d;
                box.add(x);
                for (int f = 0; f < d; ++f) coarse[f * LEAF + i % LEAF] = placed(x[f], f);
            }
            float* sides = tree.sides.data() + leaf / GROUP * d * 2 * GROUP + leaf % GROUP;
            for (int f = 0; f < d; ++f) {
                sides[2 * f * GROUP] = placed(box.sides[f], f);
                sides[(2 * f + 1) * GROUP] = placed(box.sides[d + f], f);
            }
            filled = last;
        }
    }

    // The queries, group by group.
    std::vector<std::int32_t> by_place(const double* queries, std::ptrdiff_t count) const {
        std::vector<std::int32_t> order(std::size_t(count), 0), group(std::size_t(count), 0);
        for (std::ptrdiff_t q = 0; q < count; ++q) {
            order[q] = std::int32_t(q);
            if (count > 1) group[q] = ITERGP_DISPATCH(home)(tree, queries + q * tree.features);
        }
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return group[a] < group[b]; });
        return order;
    }

    void nearest(Matrix<const double> queries, Matrix<std::int32_t> found, int threads) const {
        expect_threads(threads);
        expect(grown(), "the tree is not grown");
        expect(int(queries.shape(1)) == tree.features, "queries do not have the features of the tree");
        expect(queries.shape(0) < std::size_t(std::numeric_limits<std::int32_t>::max()), "too many queries");
        expect(found.shape(0) == queries.shape(0) && found.shape(1) > 0, "found does not have one row per query");
        const nb::gil_scoped_release unlocked;
        const auto order = by_place(queries.data(), std::ptrdiff_t(queries.shape(0)));
        const Nearby task{&tree, queries.data(), order.data(), found.data(), int(found.shape(1))};
        in_threads(0, std::ptrdiff_t(order.size()), threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(nearby)(task, range); });
    }
};

}  // namespace

void bind_tree(nb::module_& m) {
    nb::class_<SearchTree>(m, "SearchTree")
        .def(nb::init<Matrix<double>>(), nb::arg("F").noconvert())
        .def("grow", &SearchTree::grow, nb::arg("points"))
        .def("nearest", &SearchTree::nearest, nb::arg("queries").noconvert(), nb::arg("found").noconvert(), nb::arg("threads"));
}
