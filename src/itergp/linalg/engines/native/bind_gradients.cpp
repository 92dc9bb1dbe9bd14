// The binding of gradients.
#include "bind.h"
#include "gradients.h"

namespace {

using namespace itergp;
using Points = Cube<const double>;

std::vector<Part> parts_of(const std::vector<int>& features, const std::vector<int>& kinds, const std::vector<double>& alphas,
                           std::size_t& all) {
    expect(features.size() == kinds.size() && features.size() == alphas.size(), "parts differ in number");
    std::vector<Part> parts;
    for (std::size_t p = 0; p < features.size(); ++p) {
        expect(features[p] >= 0 && 0 <= kinds[p] && kinds[p] <= RATIONAL_QUADRATIC, "unknown kind of kernel");
        parts.push_back({features[p], kinds[p], alphas[p]});
        all += std::size_t(features[p]);
    }
    return parts;
}

void gradient(Points left, Points right, Points A, Points B, const std::vector<int>& features, const std::vector<int>& kinds,
              const std::vector<double>& alphas, bool per_feature, Cube<double> slopes, Matrix<double> sums,
              std::ptrdiff_t first, std::ptrdiff_t last, std::ptrdiff_t first_right, std::ptrdiff_t last_right, int threads) {
    const std::size_t groups = left.shape(0), groups_right = right.shape(0);
    expect_threads(threads);
    std::size_t all = 0;
    const std::vector<Part> parts = parts_of(features, kinds, alphas, all);
    for (const Points* points : {&left, &right, &A, &B}) expect(points->shape(2) == GROUP, "points are not in groups");
    expect(left.shape(1) == all && right.shape(1) == all, "left and right do not have the features of the parts");
    expect(A.shape(0) == groups && B.shape(0) == groups_right, "A and B do not have one row per padded point");
    expect(A.shape(1) == B.shape(1) && A.shape(1) > 0, "A and B differ in their columns, or have none");
    expect(slopes.shape(0) == groups && slopes.shape(1) == all && slopes.shape(2) == GROUP, "slopes has the wrong shape");
    expect(sums.shape(0) == groups && sums.shape(1) == parts.size() * TOTALS + all, "sums has the wrong shape");
    expect(0 <= first && first <= last && last <= std::ptrdiff_t(groups), "groups out of range");
    expect(0 <= first_right && first_right <= last_right && last_right <= std::ptrdiff_t(groups_right), "groups out of range");
    const Gradient task{parts.data(), int(parts.size()), int(all), int(A.shape(1)), per_feature, left.data(),
                        right.data(), A.data(), B.data(), nullptr, 0, slopes.data(), sums.data()};
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads,
               [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(gradient)(task, range, first_right, last_right); });
}

void symmetric_gradient(Points X, Matrix<const double> W, const std::vector<int>& features, const std::vector<int>& kinds,
                        const std::vector<double>& alphas, bool per_feature, Cube<double> slopes, Matrix<double> sums,
                        std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const std::size_t groups = X.shape(0), points = W.shape(0);
    expect_threads(threads);
    std::size_t all = 0;
    const std::vector<Part> parts = parts_of(features, kinds, alphas, all);
    expect(X.shape(1) == all && X.shape(2) == GROUP, "X does not have the features of the parts, in groups");
    expect(W.shape(1) == points && groups == (points + GROUP - 1) / GROUP, "W does not have one row and column per point");
    expect(slopes.shape(0) == groups && slopes.shape(1) == all && slopes.shape(2) == GROUP, "slopes has the wrong shape");
    expect(sums.shape(0) == groups && sums.shape(1) == parts.size() * TOTALS + all, "sums has the wrong shape");
    expect(0 <= first && first <= last && last <= std::ptrdiff_t(groups), "groups out of range");
    const Gradient task{parts.data(), int(parts.size()), int(all), 0, per_feature, X.data(), X.data(), nullptr,
                        nullptr, W.data(), std::ptrdiff_t(points), slopes.data(), sums.data()};
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads,
               [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(gradient)(task, range, 0, std::ptrdiff_t(groups)); });
}

}  // namespace

void bind_gradients(nb::module_& m) {
    m.attr("GROUP") = GROUP;
    m.attr("TOTALS") = TOTALS;
    m.def("symmetric_gradient", &symmetric_gradient, nb::arg("X").noconvert(), nb::arg("W").noconvert(), nb::arg("features"),
          nb::arg("kinds"), nb::arg("alphas"), nb::arg("per_feature"), nb::arg("slopes").noconvert(), nb::arg("sums").noconvert(),
          nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    m.def("gradient", &gradient, nb::arg("left").noconvert(), nb::arg("right").noconvert(), nb::arg("A").noconvert(),
          nb::arg("B").noconvert(), nb::arg("features"), nb::arg("kinds"), nb::arg("alphas"), nb::arg("per_feature"),
          nb::arg("slopes").noconvert(), nb::arg("sums").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("first_right"),
          nb::arg("last_right"), nb::arg("threads"));
}
