// The binding of the search tree, and how it is built.
#include <cmath>
#include <limits>

#include "bind.h"
#include "tree.h"

namespace {

using namespace itergp;

constexpr double NOWHERE = std::numeric_limits<double>::infinity();

// The least and the largest of each feature of some rows.
std::vector<double> box_of(const double* F, int d, const std::vector<std::int32_t>& order, std::ptrdiff_t first, std::ptrdiff_t last) {
    std::vector<double> box(std::size_t(2 * d), NOWHERE);
    std::fill(box.begin() + d, box.end(), -NOWHERE);
    for (std::ptrdiff_t i = first; i < last; ++i) {
        const double* x = F + order[i] * std::ptrdiff_t(d);
        for (int f = 0; f < d; ++f) {
            box[f] = std::min(box[f], x[f]);
            box[d + f] = std::max(box[d + f], x[f]);
        }
    }
    return box;
}

// Splits the rows first to last at the middle of their widest feature, at a whole number of groups or leaves, and so on. Returns
// the node; there are none below a group.
std::int32_t build(Tree& tree, const double* F, std::vector<std::int32_t>& order, std::ptrdiff_t first, std::ptrdiff_t last, bool inside = false) {
    const auto at = std::int32_t(tree.nodes.size());
    const int d = tree.features;
    const auto box = box_of(F, d, order, first, last);
    const bool group = last - first <= LEAF * GROUP;
    if (!inside) {
        tree.nodes.push_back({-1, -1, std::int32_t(first / (LEAF * GROUP))});
        tree.boxes.insert(tree.boxes.end(), box.begin(), box.end());
    }
    if (last - first <= LEAF) return at;
    int widest = 0;
    for (int f = 1; f < d; ++f)
        if (box[d + f] - box[f] > box[d + widest] - box[widest]) widest = f;
    const std::ptrdiff_t unit = group ? LEAF : LEAF * GROUP, middle = first + ((last - first) / 2 + unit - 1) / unit * unit;
    const auto before = [&](std::int32_t a, std::int32_t b) { return F[a * std::ptrdiff_t(d) + widest] < F[b * std::ptrdiff_t(d) + widest]; };
    std::nth_element(order.begin() + first, order.begin() + middle, order.begin() + last, before);
    const std::int32_t left = build(tree, F, order, first, middle, group), right = build(tree, F, order, middle, last, group);
    if (!group) {
        tree.nodes[at].left = left;
        tree.nodes[at].right = right;
    }
    return at;
}

struct SearchTree {
    Tree tree;

    explicit SearchTree(Matrix<const double> F) {
        const auto n = std::ptrdiff_t(F.shape(0)), groups = (n + LEAF * GROUP - 1) / (LEAF * GROUP);
        expect(n > 0 && n < std::numeric_limits<std::int32_t>::max() && F.shape(1) > 0, "F must have rows and features");
        const double* from = F.data();
        for (std::ptrdiff_t i = 0; i < n * std::ptrdiff_t(F.shape(1)); ++i) expect(std::isfinite(from[i]), "F is not finite");
        tree.features = int(F.shape(1));
        const nb::gil_scoped_release unlocked;
        std::vector<std::int32_t> order(std::size_t(n), 0);
        for (std::ptrdiff_t i = 0; i < n; ++i) order[i] = std::int32_t(i);
        build(tree, from, order, 0, n);
        fill(from, order, groups);
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

    // Points in the order of the leaves, exactly and coarsely.
    void fill(const double* from, const std::vector<std::int32_t>& order, std::ptrdiff_t groups) {
        const int d = tree.features;
        const auto places = std::size_t(groups * GROUP * LEAF);
        tree.points.assign(places * std::size_t(d), 0.0);
        tree.coarse.assign(places * std::size_t(d), 0.0f);
        tree.rows.assign(places, -1);
        choose_units();
        const auto placed = [&](double x, int f) { return float((x - tree.centre[f]) * tree.scale); };
        for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(order.size()); ++i) {
            const double* x = from + order[i] * std::ptrdiff_t(d);
            tree.rows[i] = order[i];
            std::copy(x, x + d, tree.points.begin() + i * d);
            for (int f = 0; f < d; ++f) tree.coarse[(i / LEAF * d + f) * LEAF + i % LEAF] = placed(x[f], f);
        }
        tree.sides.assign(std::size_t(groups * GROUP * d * 2), std::numeric_limits<float>::infinity());  // no box: far from all
        for (std::ptrdiff_t first = 0, size = std::ptrdiff_t(order.size()); first < size; first += LEAF) {
            const auto box = box_of(from, d, order, first, std::min(size, first + LEAF));
            const std::ptrdiff_t leaf = first / LEAF;
            float* sides = tree.sides.data() + leaf / GROUP * d * 2 * GROUP + leaf % GROUP;
            for (int f = 0; f < d; ++f) {
                sides[2 * f * GROUP] = placed(box[f], f);
                sides[(2 * f + 1) * GROUP] = placed(box[d + f], f);
            }
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
        .def(nb::init<Matrix<const double>>(), nb::arg("F").noconvert())
        .def("nearest", &SearchTree::nearest, nb::arg("queries").noconvert(), nb::arg("found").noconvert(), nb::arg("threads"));
}
