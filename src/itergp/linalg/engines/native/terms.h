// The terms of a kernel as they come from Python.
#pragma once
#include <vector>

#include "bind.h"
#include "neighbours.h"

namespace itergp {

inline std::vector<Term> terms_of(const std::vector<int>& sizes, const std::vector<int>& kinds, const std::vector<double>& weights,
                           const std::vector<double>& alphas, int last_kind) {
    expect(kinds.size() == sizes.size() && weights.size() == sizes.size() && alphas.size() == sizes.size(), "terms differ in number");
    std::vector<Term> terms;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        expect(sizes[k] >= 0 && kinds[k] >= 0 && kinds[k] <= last_kind, "unknown kind of term");
        terms.push_back({sizes[k], kinds[k], weights[k], alphas[k]});
    }
    return terms;
}

}  // namespace itergp
