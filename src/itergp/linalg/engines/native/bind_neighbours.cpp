// The binding of nearest neighbours, the choice among them, and their likelihood.
#include <limits>
#include <numeric>

#include "bind.h"
#include "neighbours.h"
#include "terms.h"

namespace {

using namespace itergp;

void search(Cube<const float> left, Cube<const float> right, Vector<const std::int32_t> places, std::ptrdiff_t right_rows, int among,
            Matrix<std::int32_t> found, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const auto left_rows = std::ptrdiff_t(places.shape(0));
    expect_threads(threads);
    expect(left.shape(1) == right.shape(1), "left and right differ in their number of features");
    for (std::ptrdiff_t i = 1; i < left_rows; ++i) expect(places(i - 1) < places(i), "places are not in ascending order");
    expect(left_rows == 0 || (places(0) >= 0 && (among == 0 || places(left_rows - 1) < right_rows)), "places out of range");
    expect(left.shape(2) == BLOCK && right.shape(2) == BLOCK, "features are not in whole blocks");
    expect(0 < left_rows && left_rows <= std::ptrdiff_t(left.shape(0)) * BLOCK, "left has fewer points than left_rows");
    expect(0 < right_rows && right_rows <= std::ptrdiff_t(right.shape(0)) * BLOCK, "right has fewer points than right_rows");
    expect(std::ptrdiff_t(found.shape(0)) == left_rows && found.shape(1) > 0, "found does not have one row per point");
    expect(among >= 0 && among <= 2, "among must be 0, 1 or 2");
    expect(0 <= first && first <= last && last <= (left_rows + ROWS - 1) / ROWS, "panels out of range");
    const Search task{left.data(), right.data(), int(left.shape(1)), places.data(), left_rows, right_rows, int(found.shape(1)), among, found.data()};
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(search)(task, range); });
}

// What is asked for, checked; the terms are kept by the caller.
Likelihood likelihood_of(const std::vector<Term>& terms, double constant, Matrix<const double> F, Matrix<const double> y,
                         Vector<const double> N, Vector<const double> share, Vector<const std::int32_t> rows,
                         Matrix<const std::int32_t> neighbours, Vector<double> values, Matrix<double> sums, std::ptrdiff_t first,
                         std::ptrdiff_t last) {
    const auto points = std::ptrdiff_t(F.shape(0)), count = std::ptrdiff_t(rows.shape(0)), m = std::ptrdiff_t(neighbours.shape(1));
    std::ptrdiff_t features = 0;
    for (const auto& term : terms) features += term.features;
    expect(features == std::ptrdiff_t(F.shape(1)), "F does not have the features of all terms");
    expect(std::ptrdiff_t(y.shape(0)) == points && std::ptrdiff_t(N.shape(0)) == points && std::ptrdiff_t(share.shape(0)) == points,
           "y, N and share do not have one row per point");
    expect(std::ptrdiff_t(neighbours.shape(0)) == count && std::ptrdiff_t(values.shape(0)) == count, "neighbours do not match rows");
    expect(std::ptrdiff_t(sums.shape(1)) == 2 * std::ptrdiff_t(terms.size()) + features + 2, "sums are too small");
    const std::ptrdiff_t most = std::numeric_limits<int>::max(), pairs = m < 1 << 15 ? (m + 1) * (m + 2) / 2 : most;
    expect(pairs < most / std::max<std::ptrdiff_t>(1, terms.size()) && m + 1 < most / std::max<std::ptrdiff_t>(1, features) &&
           m + 1 < most / std::max<std::ptrdiff_t>(1, y.shape(1)), "too many neighbours");
    expect(0 <= first && first <= last && last <= std::ptrdiff_t(sums.shape(0)) && last <= (count + CHUNK - 1) / CHUNK, "chunks out of range");
    for (std::ptrdiff_t p = 0; p < count; ++p) expect(rows(p) >= 0 && rows(p) < points, "rows out of range");
    const std::int32_t* all = neighbours.data();
    for (std::ptrdiff_t p = 0; p < count * m; ++p) expect(all[p] >= -1 && all[p] < points, "neighbours out of range");
    return {terms.data(), int(terms.size()), int(features), constant, F.data(), y.data(), int(y.shape(1)), N.data(), share.data(),
            rows.data(), all, count, int(m), values.data(), sums.data()};
}

void run(const Likelihood& task, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(likelihood)(task, range); });
}

void likelihood(const std::vector<int>& sizes, const std::vector<int>& kinds, const std::vector<double>& weights,
                const std::vector<double>& alphas, double constant, Matrix<const double> F, Matrix<const double> y,
                Vector<const double> N, Vector<const double> share, Vector<const std::int32_t> rows,
                Matrix<const std::int32_t> neighbours, Vector<double> values, Matrix<double> sums, std::ptrdiff_t first,
                std::ptrdiff_t last, int threads) {
    expect_threads(threads);
    const auto terms = terms_of(sizes, kinds, weights, alphas, FIXED);
    run(likelihood_of(terms, constant, F, y, N, share, rows, neighbours, values, sums, first, last), first, last, threads);
}

void likelihood_weights(const std::vector<int>& sizes, const std::vector<int>& kinds, const std::vector<double>& weights,
                        const std::vector<double>& alphas, double constant, Matrix<const double> F, Matrix<const double> y,
                        Vector<const double> N, Vector<const double> share, Vector<const std::int32_t> rows,
                        Matrix<const std::int32_t> neighbours, Vector<double> values, Matrix<double> sums, Matrix<double> w,
                        Matrix<double> q, Matrix<double> pull, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    expect_threads(threads);
    const auto terms = terms_of(sizes, kinds, weights, alphas, FIXED);
    auto task = likelihood_of(terms, constant, F, y, N, share, rows, neighbours, values, sums, first, last);
    for (const auto& each : {w, q})
        expect(std::ptrdiff_t(each.shape(0)) == task.count && std::ptrdiff_t(each.shape(1)) == task.m + 1, "w and q do not match neighbours");
    expect(std::ptrdiff_t(pull.shape(0)) == task.count && pull.shape(1) == y.shape(1), "pull does not match rows and targets");
    task.w = w.data(), task.q = q.data(), task.pull = pull.data();
    run(task, first, last, threads);
}

void most_informative(const std::vector<int>& sizes, const std::vector<int>& kinds, const std::vector<double>& weights,
                      const std::vector<double>& alphas, double constant, Matrix<const double> points, Matrix<const double> F,
                      Vector<const double> N, Matrix<const std::int32_t> candidates, double least_variance, double least_gain,
                      double tie, Matrix<std::int32_t> found, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const auto rows = std::ptrdiff_t(F.shape(0)), count = std::ptrdiff_t(points.shape(0));
    const auto c = std::ptrdiff_t(candidates.shape(1)), m = std::ptrdiff_t(found.shape(1));
    expect_threads(threads);
    const auto terms = terms_of(sizes, kinds, weights, alphas, RATIONAL_QUADRATIC);
    const auto features = std::accumulate(sizes.begin(), sizes.end(), std::ptrdiff_t(0));
    expect(features == std::ptrdiff_t(F.shape(1)) && features == std::ptrdiff_t(points.shape(1)), "points and F do not have the features of all terms");
    expect(std::ptrdiff_t(N.shape(0)) == rows, "N does not have one entry per row");
    expect(std::ptrdiff_t(candidates.shape(0)) == count && std::ptrdiff_t(found.shape(0)) == count, "candidates and found do not match points");
    expect(0 < m && m <= c && c < 1 << 20, "found must have between 1 and as many columns as there are candidates");
    expect(0 <= first && first <= last && last <= count, "points out of range");
    const std::int32_t* all = candidates.data();
    for (std::ptrdiff_t p = first * c; p < last * c; ++p) expect(all[p] >= -1 && all[p] < rows, "candidates out of range");
    const Choice task{terms.data(), int(terms.size()), int(features), constant, points.data(), F.data(), N.data(), all, count, int(c), int(m),
                      least_variance, least_gain, tie, found.data()};
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) { ITERGP_DISPATCH(most_informative)(task, range); });
}

}  // namespace

void bind_neighbours(nb::module_& m) {
    m.attr("CHUNK") = CHUNK;
    m.attr("FIXED") = FIXED;
    m.def("search", &search, nb::arg("left").noconvert(), nb::arg("right").noconvert(), nb::arg("places").noconvert(), nb::arg("right_rows"),
          nb::arg("among"), nb::arg("found").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    m.def("likelihood", &likelihood, nb::arg("sizes"), nb::arg("kinds"), nb::arg("weights"), nb::arg("alphas"), nb::arg("constant"),
          nb::arg("F").noconvert(), nb::arg("y").noconvert(), nb::arg("N").noconvert(), nb::arg("share").noconvert(),
          nb::arg("rows").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("values").noconvert(), nb::arg("sums").noconvert(),
          nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    m.def("likelihood_weights", &likelihood_weights, nb::arg("sizes"), nb::arg("kinds"), nb::arg("weights"), nb::arg("alphas"),
          nb::arg("constant"), nb::arg("F").noconvert(), nb::arg("y").noconvert(), nb::arg("N").noconvert(), nb::arg("share").noconvert(),
          nb::arg("rows").noconvert(), nb::arg("neighbours").noconvert(), nb::arg("values").noconvert(), nb::arg("sums").noconvert(),
          nb::arg("w").noconvert(), nb::arg("q").noconvert(), nb::arg("pull").noconvert(), nb::arg("first"), nb::arg("last"),
          nb::arg("threads"));
    m.def("most_informative", &most_informative, nb::arg("sizes"), nb::arg("kinds"), nb::arg("weights"), nb::arg("alphas"), nb::arg("constant"),
          nb::arg("points").noconvert(), nb::arg("F").noconvert(), nb::arg("N").noconvert(), nb::arg("candidates").noconvert(),
          nb::arg("least_variance"), nb::arg("least_gain"), nb::arg("tie"), nb::arg("found").noconvert(), nb::arg("first"),
          nb::arg("last"), nb::arg("threads"));
}
