// What the binding files share: array types, checks, threads, and the instruction set that was chosen.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tiles.h"

namespace nb = nanobind;

template <typename T>
using Matrix = nb::ndarray<T, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Vector = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Cube = nb::ndarray<T, nb::numpy, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

extern std::string chosen;  // of the instruction sets that this machine has

#if defined(__x86_64__)
#define ITERGP_DISPATCH(function) \
    (chosen == "avx512" ? itergp::avx512::function : chosen == "avx2" ? itergp::avx2::function : itergp::baseline::function)
#else
#define ITERGP_DISPATCH(function) itergp::baseline::function
#endif

inline void expect(bool fine, const char* message) {
    if (!fine) throw std::invalid_argument(message);
}

// Panels first <= p < last, dealt out in turn: thread t takes first + t, first + t + threads, ... always the same ones.
template <typename Work>
void in_threads(std::ptrdiff_t first, std::ptrdiff_t last, int threads, Work work) {
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t)
        pool.emplace_back([=] { work(t, itergp::Range{first + ((t - first) % threads + threads) % threads, last, threads}); });
    work(0, itergp::Range{first + ((0 - first) % threads + threads) % threads, last, threads});
    for (auto& thread : pool) thread.join();
}

void bind_neighbours(nb::module_& m);
void bind_gradients(nb::module_& m);
