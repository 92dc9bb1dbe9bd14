// The binding of local actions and of triangular solves.
#include <numeric>

#include "bind.h"
#include "local.h"
#include "terms.h"

namespace {

using namespace itergp;

using Strided = nb::ndarray<const double, nb::numpy, nb::ndim<2>, nb::device::cpu>;

void solve_lower(Strided L, Matrix<const double> B, Matrix<double> X, int threads) {
    const auto size = std::ptrdiff_t(L.shape(0)), count = std::ptrdiff_t(B.shape(0));
    expect_threads(threads);
    expect(std::ptrdiff_t(L.shape(1)) == size && L.stride(1) == 1, "L is not square, or its rows are not contiguous");
    expect(std::ptrdiff_t(B.shape(1)) == size && std::ptrdiff_t(X.shape(1)) == size && std::ptrdiff_t(X.shape(0)) == count,
           "B and X do not have one column per row of L");
    const Triangular task{L.data(), std::ptrdiff_t(L.stride(0)), int(size), B.data(), X.data(), count};
    const nb::gil_scoped_release unlocked;
    in_threads(0, (count + SOLVED - 1) / SOLVED, threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(solve_lower)(task, range); });
}

void local_actions(const std::vector<int>& sizes, const std::vector<int>& kinds, const std::vector<double>& weights,
                   const std::vector<double>& alphas, double constant, Matrix<const double> points, Matrix<const double> F,
                   Vector<const double> N, Matrix<const double> W, Matrix<const double> H, Matrix<const double> residual,
                   Matrix<const std::int32_t> neighbours, double jitter, Matrix<double> mean, Vector<double> variance,
                   std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const auto rows = std::ptrdiff_t(F.shape(0)), count = std::ptrdiff_t(points.shape(0)), m = std::ptrdiff_t(neighbours.shape(1));
    expect_threads(threads);
    const auto terms = terms_of(sizes, kinds, weights, alphas, LINEAR);
    const auto features = std::accumulate(sizes.begin(), sizes.end(), std::ptrdiff_t(0));
    expect(features == std::ptrdiff_t(F.shape(1)) && features == std::ptrdiff_t(points.shape(1)), "points and F do not have the features of all terms");
    expect(std::ptrdiff_t(N.shape(0)) == rows && std::ptrdiff_t(H.shape(0)) == rows && std::ptrdiff_t(residual.shape(0)) == rows,
           "N, H and residual do not have one row per row of F");
    expect(std::ptrdiff_t(W.shape(0)) == count && std::ptrdiff_t(neighbours.shape(0)) == count && std::ptrdiff_t(mean.shape(0)) == count &&
           std::ptrdiff_t(variance.shape(0)) == count, "W, neighbours, mean and variance do not have one row per point");
    expect(W.shape(1) == H.shape(1), "W and H differ in their number of actions");
    expect(mean.shape(1) == residual.shape(1), "mean and residual differ in their number of targets");
    expect(0 < m && m < 1 << 12, "too many neighbours, or none");
    const std::ptrdiff_t group = ITERGP_DISPATCH(group_of_points)();
    expect(0 <= first && first <= last && last <= (count + group - 1) / group, "groups out of range");
    const std::int32_t* all = neighbours.data();
    for (std::ptrdiff_t p = first * group * m; p < std::min(count, last * group) * m; ++p) expect(all[p] >= -1 && all[p] < rows, "neighbours out of range");
    const Local task{terms.data(), int(terms.size()), int(features), constant, points.data(), F.data(), N.data(), W.data(), H.data(), int(H.shape(1)),
                     residual.data(), int(residual.shape(1)), all, count, int(m), jitter, mean.data(), variance.data()};
    const nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(local_actions)(task, range); });
}

}  // namespace

void bind_local(nb::module_& m) {
    m.def("group_of_points", [] { return ITERGP_DISPATCH(group_of_points)(); }, "Points whose small matrices are worked on side by side.");
    m.def("solve_lower", &solve_lower, nb::arg("L").noconvert(), nb::arg("B").noconvert(), nb::arg("X").noconvert(), nb::arg("threads"));
    m.def("local_actions", &local_actions, nb::arg("sizes"), nb::arg("kinds"), nb::arg("weights"), nb::arg("alphas"), nb::arg("constant"),
          nb::arg("points").noconvert(), nb::arg("F").noconvert(), nb::arg("N").noconvert(), nb::arg("W").noconvert(), nb::arg("H").noconvert(),
          nb::arg("residual").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("jitter"), nb::arg("mean").noconvert(),
          nb::arg("variance").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("threads"));
}
