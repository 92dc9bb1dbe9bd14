// A search tree over points: boxes around the points of each node, groups of leaves below, and points side by side in leaves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tiles.h"

namespace itergp {

constexpr int LEAF = 64;    // points of a leaf
constexpr int GROUP = 16;   // leaves below the lowest nodes: their boxes are compared side by side

struct Node {
    std::int32_t left, right;  // children, or -1 above a group of leaves
    std::int32_t group;        // its number
};

struct Tree {
    int features;
    std::vector<Node> nodes;           // the first one is the root
    const double* points;              // [leaf][LEAF][features], as far as there are rows
    // In units in which all points lie between -2 and 2, (x - centre) * scale, so that float32 can hold their squares:
    std::vector<double> centre;
    double scale;
    std::vector<double> boxes;         // [node][2][features]: the least and the largest of each feature
    std::vector<float> coarse;         // [leaf][feature][LEAF]
    std::vector<float> sides;          // [group][feature][2][GROUP]: of the boxes of leaves
    std::vector<std::int32_t> rows;    // [leaf][LEAF], -1 where there is none
};

// The `count` points nearest to each query, nearest first, those with smaller numbers first where distances are equal.
struct Nearby {
    const Tree* tree;
    const double* queries;     // queries x features
    const std::int32_t* order; // in which queries are answered: those near each other read the same leaves
    std::int32_t* found;       // queries x count, -1 where there are not so many
    int count;
};

#define ITERGP_DECLARE_TREE(isa)                       \
    namespace isa {                                    \
    void nearby(const Nearby& task, Range queries);    \
    std::int32_t home(const Tree& tree, const double* x); \
    }

ITERGP_DECLARE_TREE(baseline)
ITERGP_DECLARE_TREE(avx2)
ITERGP_DECLARE_TREE(avx512)

}  // namespace itergp
