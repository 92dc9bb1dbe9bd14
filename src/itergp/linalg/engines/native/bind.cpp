// The binding: checks that cannot be made in Python, threads, and the choice of instruction set at run time.
#include "bind.h"

using namespace itergp;

std::string chosen = "";

namespace {

std::vector<std::string> instruction_sets() {
    std::vector<std::string> known;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) known.push_back("avx512");
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) known.push_back("avx2");
#endif
    known.push_back("baseline");
    return known;
}

void choose(const std::string& name) {
    for (const auto& known : instruction_sets())
        if (known == name) {
            chosen = name;
            return;
        }
    throw std::invalid_argument("instruction set " + name + " is not available on this machine");
}

// Columns of V come one, or in multiples of this: the widest vector of float.
int columns_unit() { return chosen == "avx512" ? 16 : 8; }

template <typename T>
const Engine<T>& engine() {
    constexpr bool single = sizeof(T) == 4;
#if defined(__x86_64__)
    if (chosen == "avx512") {
        if constexpr (single) return avx512::engine_float();
        else return avx512::engine_double();
    }
    if (chosen == "avx2") {
        if constexpr (single) return avx2::engine_float();
        else return avx2::engine_double();
    }
#endif
    if constexpr (single) return baseline::engine_float();
    else return baseline::engine_double();
}

// A sum of stationary kernels, and the features of two sets of points (blocks x features x BLOCK); keeps the arrays alive.
template <typename T>
struct Kernel {
    std::vector<Component<T>> parts;
    std::vector<Cube<const T>> arrays;
    std::ptrdiff_t left_rows = -1, right_rows = -1;

    void add(Cube<const T> left, Cube<const T> right, int kind, T weight, T alpha) {
        const auto rows = std::ptrdiff_t(left.shape(0)) * BLOCK, columns = std::ptrdiff_t(right.shape(0)) * BLOCK;
        expect(left.shape(1) == right.shape(1), "left and right differ in their number of features");
        expect(left.shape(2) == BLOCK && right.shape(2) == BLOCK && rows > 0 && columns > 0, "features are not in whole blocks");
        expect(left_rows < 0 || (rows == left_rows && columns == right_rows), "components differ in their number of points");
        expect(kind >= 0 && kind <= RATIONAL_QUADRATIC, "unknown kind of kernel");
        left_rows = rows;
        right_rows = columns;
        parts.push_back({left.data(), right.data(), int(left.shape(1)), kind, weight, alpha});
        arrays.push_back(left);
        arrays.push_back(right);
    }
};

// Where the tiles of the first panels lie: each of them whole, or not at all.
template <typename T>
std::vector<std::ptrdiff_t> starts_of(Vector<T> store, Vector<const std::int64_t> offsets, std::ptrdiff_t left_rows,
                                      std::ptrdiff_t right_rows, std::ptrdiff_t after) {
    const auto stored = std::ptrdiff_t(offsets.shape(0)) - 1;
    expect(0 <= stored && stored <= left_rows / PANEL, "more panels are stored than there are");
    expect(offsets(0) == 0 && offsets(stored) <= std::int64_t(store.shape(0)), "the store is too small");
    std::vector<std::ptrdiff_t> starts(offsets.data(), offsets.data() + stored + 1);
    for (std::ptrdiff_t p = 0; p < stored; ++p) {
        const std::ptrdiff_t size = starts[p + 1] - starts[p], blocks = right_rows / BLOCK - p * PANEL / BLOCK - after;
        expect(size == 0 || size == blocks * PANEL * BLOCK, "offsets do not match the tiles");
    }
    return starts;
}

template <typename T>
void symmetric(const Kernel<T>& kernel, Matrix<const T> V, Cube<double> out, std::ptrdiff_t first, std::ptrdiff_t last,
               std::ptrdiff_t from_block, Vector<T> store, Vector<const std::int64_t> offsets, bool filled) {
    const auto rows = std::ptrdiff_t(V.shape(0));
    const int columns = int(V.shape(1));
    const auto threads = std::ptrdiff_t(out.shape(0));
    expect_threads(threads);
    expect(!kernel.parts.empty(), "the kernel has no parts");
    expect(rows == kernel.left_rows && rows == kernel.right_rows, "V does not have one row per padded point");
    expect(std::ptrdiff_t(out.shape(1)) == rows && int(out.shape(2)) == columns, "out does not have the shape of V for each thread");
    expect(columns == 1 || columns % columns_unit() == 0, "columns must be 1 or a multiple of columns_unit()");
    expect(0 <= first && first <= last && last <= rows / PANEL && 0 <= from_block, "panels out of range");
    const auto starts = starts_of(store, offsets, rows, rows, 0);
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t t, Range range) {
        const Operand<T> side{V.data(), out.data() + t * rows * columns, rows, from_block};
        engine<T>().symmetric(kernel.parts.data(), int(kernel.parts.size()), side, side, 0, columns, range, store.data(),
                              starts.data(), std::ptrdiff_t(starts.size()) - 1, filled);
    });
}

// Half of K between two sets of points, multiplied from both sides, by one thread.
template <typename T>
void rectangle(const Kernel<T>& kernel, Matrix<const T> left, Matrix<const T> right, Matrix<double> left_out, Matrix<double> right_out,
               std::ptrdiff_t after, std::ptrdiff_t left_from, std::ptrdiff_t right_from, Vector<T> store,
               Vector<const std::int64_t> offsets, bool filled) {
    const auto left_rows = std::ptrdiff_t(left.shape(0)), right_rows = std::ptrdiff_t(right.shape(0));
    const int columns = int(left.shape(1));
    expect(!kernel.parts.empty(), "the kernel has no parts");
    expect(left_rows == kernel.left_rows && right_rows == kernel.right_rows, "V does not have one row per padded point");
    expect(int(right.shape(1)) == columns, "both sides must have the same columns");
    expect(std::ptrdiff_t(left_out.shape(0)) == left_rows && int(left_out.shape(1)) == columns, "left_out has the wrong shape");
    expect(std::ptrdiff_t(right_out.shape(0)) == right_rows && int(right_out.shape(1)) == columns, "right_out has the wrong shape");
    expect(columns == 1 || columns % columns_unit() == 0, "columns must be 1 or a multiple of columns_unit()");
    expect(0 <= left_from && 0 <= right_from && (after == 0 || after == 1), "blocks out of range");
    expect(left_out.data() != right_out.data() || (left.data() == right.data() && left_from == right_from && after == 0),
           "one set of points has one V, and is multiplied from its own block on");
    const auto starts = starts_of(store, offsets, left_rows, right_rows, after);
    nb::gil_scoped_release unlocked;
    engine<T>().symmetric(kernel.parts.data(), int(kernel.parts.size()), {left.data(), left_out.data(), left_rows, left_from},
                          {right.data(), right_out.data(), right_rows, right_from}, after, columns, Range{0, left_rows / PANEL, 1},
                          store.data(), starts.data(), std::ptrdiff_t(starts.size()) - 1, filled);
}

template <typename T>
void cross(const Kernel<T>& kernel, Matrix<const T> V, Matrix<double> out, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const int columns = int(V.shape(1));
    expect_threads(threads);
    expect(!kernel.parts.empty(), "the kernel has no parts");
    expect(std::ptrdiff_t(V.shape(0)) == kernel.right_rows, "V does not have one row per padded point");
    expect(std::ptrdiff_t(out.shape(0)) == kernel.left_rows && int(out.shape(1)) == columns, "out has the wrong shape");
    expect(columns == 1 || columns % columns_unit() == 0, "columns must be 1 or a multiple of columns_unit()");
    expect(0 <= first && first <= last && last <= kernel.left_rows / PANEL, "panels out of range");
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) {
        engine<T>().cross(kernel.parts.data(), int(kernel.parts.size()), kernel.left_rows, kernel.right_rows, V.data(), columns,
                          out.data(), range);
    });
}

template <typename T>
void dense(const Kernel<T>& kernel, Matrix<T> out, std::ptrdiff_t first, std::ptrdiff_t last, int threads) {
    const auto rows = std::ptrdiff_t(out.shape(0)), columns = std::ptrdiff_t(out.shape(1));
    expect_threads(threads);
    expect(!kernel.parts.empty(), "the kernel has no parts");
    expect(rows <= kernel.left_rows && columns <= kernel.right_rows, "out is larger than the kernel");
    expect(0 <= first && first <= last && last <= (rows + PANEL - 1) / PANEL, "panels out of range");
    nb::gil_scoped_release unlocked;
    in_threads(first, last, threads, [&](std::ptrdiff_t, Range range) {
        engine<T>().dense(kernel.parts.data(), int(kernel.parts.size()), rows, columns, out.data(), columns, range);
    });
}

template <typename T>
void bind(nb::module_& m, const char* suffix) {
    nb::class_<Kernel<T>>(m, (std::string("Kernel") + suffix).c_str())
        .def(nb::init<>())
        .def("add", &Kernel<T>::add, nb::arg("left").noconvert(), nb::arg("right").noconvert(), nb::arg("kind"), nb::arg("weight"), nb::arg("alpha"));
    m.def((std::string("symmetric") + suffix).c_str(), &symmetric<T>, nb::arg("kernel"), nb::arg("V").noconvert(), nb::arg("out").noconvert(),
          nb::arg("first"), nb::arg("last"), nb::arg("from_block"), nb::arg("store").noconvert(), nb::arg("offsets").noconvert(), nb::arg("filled"));
    m.def((std::string("rectangle") + suffix).c_str(), &rectangle<T>, nb::arg("kernel"), nb::arg("left").noconvert(),
          nb::arg("right").noconvert(), nb::arg("left_out").noconvert(), nb::arg("right_out").noconvert(), nb::arg("after"),
          nb::arg("left_from"), nb::arg("right_from"), nb::arg("store").noconvert(), nb::arg("offsets").noconvert(), nb::arg("filled"));
    m.def((std::string("cross") + suffix).c_str(), &cross<T>, nb::arg("kernel"), nb::arg("V").noconvert(), nb::arg("out").noconvert(),
          nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    m.def((std::string("dense") + suffix).c_str(), &dense<T>, nb::arg("kernel"), nb::arg("out").noconvert(), nb::arg("first"), nb::arg("last"), nb::arg("threads"));
    m.def((std::string("exp_minus") + suffix).c_str(), [](Vector<const T> x, Vector<T> out) {
        expect(x.shape(0) == out.shape(0), "x and out differ in length");
        engine<T>().exp_minus(x.data(), out.data(), std::ptrdiff_t(x.shape(0)));
    }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
    m.def((std::string("square_root") + suffix).c_str(), [](Vector<const T> x, Vector<T> out) {
        expect(x.shape(0) == out.shape(0), "x and out differ in length");
        engine<T>().square_root(x.data(), out.data(), std::ptrdiff_t(x.shape(0)));
    }, nb::arg("x").noconvert(), nb::arg("out").noconvert());
}

}  // namespace

NB_MODULE(_tiles, m) {
    nb::set_leak_warnings(false);  // what a graph of torch holds outlives the interpreter: no fault of ours
    chosen = instruction_sets().front();
    m.attr("PANEL") = PANEL;
    m.attr("BLOCK") = BLOCK;
    m.def("instruction_sets", &instruction_sets, "What this machine can run, the best first.");
    m.def("instruction_set", [] { return chosen; });
    m.def("columns_unit", &columns_unit);
    m.def("group_width", [](int bytes) {
        expect(bytes == 4 || bytes == 8, "bytes must be 4 or 8");
        return bytes == 4 ? engine<float>().group_width : engine<double>().group_width;
    }, nb::arg("bytes"));
    m.def("choose", &choose, nb::arg("name"), "Use another instruction set, for tests.");
    bind<float>(m, "32");
    bind<double>(m, "64");
    bind_neighbours(m);
    bind_gradients(m);
    bind_local(m);
    bind_tree(m);
}
