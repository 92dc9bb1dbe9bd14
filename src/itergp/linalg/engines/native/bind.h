// What the binding files share: array types, checks, threads, and the instruction set that was chosen.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

inline void expect_threads(std::ptrdiff_t threads) { expect(threads > 0, "threads must be at least 1"); }

// While it lives, this thread takes what is below the smallest normal number for 0. On x86 each operation with such a number
// takes some hundred cycles, and where rows lie in the order of a short lengthscale, as in a time series, whole tiles are
// products with them: such a pass took 80 times as long. On other processors they cost nothing.
class WithoutDenormals {
#if defined(__x86_64__)
    static constexpr unsigned FLUSH_RESULTS = 0x8000, IGNORE_INPUTS = 0x0040;
    const unsigned before = _mm_getcsr();

  public:
    WithoutDenormals() { _mm_setcsr(before | FLUSH_RESULTS | IGNORE_INPUTS); }
    ~WithoutDenormals() { _mm_setcsr(before); }
#else
  public:
    WithoutDenormals() {}
#endif
    WithoutDenormals(const WithoutDenormals&) = delete;
};

// Panels first <= p < last, dealt out in turn to so many shares: share t has the panels p with p % shares == t, whatever runs
// it. The shares are run by as many threads as there are cores, work, and room for them: where no thread can be started, by
// the caller alone. The first exception of any of them is thrown when all have ended.
template <typename Work>
void in_threads(std::ptrdiff_t first, std::ptrdiff_t last, std::ptrdiff_t shares, Work work) {
    std::atomic<std::ptrdiff_t> next{first};
    std::exception_ptr failure;
    std::mutex failing;
    const std::ptrdiff_t stop = std::min(last, first + shares);
    const auto run = [&]() noexcept {
        const WithoutDenormals fast;
        try {
            for (std::ptrdiff_t p; (p = next.fetch_add(1)) < stop;) work(p % shares, itergp::Range{p, last, shares});
        } catch (...) {
            next = stop;
            const std::lock_guard<std::mutex> one(failing);
            if (!failure) failure = std::current_exception();
        }
    };
    struct Pool {
        std::vector<std::thread> threads;
        ~Pool() {
            for (auto& thread : threads) thread.join();
        }
    };
    {
        Pool pool;
        try {
            const std::ptrdiff_t cores = std::max(1u, std::thread::hardware_concurrency());
            for (auto more = std::min(cores, stop - first); more > 1; --more) pool.threads.emplace_back(run);
        } catch (const std::exception&) {  // no room for one more: those that run, and this one, do the work
        }
        run();
    }
    if (failure) std::rethrow_exception(failure);
}

void bind_neighbours(nb::module_& m);
void bind_gradients(nb::module_& m);
void bind_local(nb::module_& m);
void bind_tree(nb::module_& m);
