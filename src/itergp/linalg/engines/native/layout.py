"""Memory layout of arrays read by the native code: in blocks, padded with zeros."""

import numpy as np

from itergp.linalg.engines.native import _tiles

BLOCK = _tiles.BLOCK


def blocks(F: np.ndarray, dtype: np.dtype, size: int = BLOCK) -> np.ndarray:
    """Points in blocks, feature by feature inside a block; the last block is padded with zeros."""
    whole = len(F) // size
    out = np.zeros((-(-len(F) // size), F.shape[1], size), dtype=dtype)
    out[:whole] = F[: whole * size].reshape(whole, size, F.shape[1]).transpose(0, 2, 1)
    if whole < len(out):
        out[whole, :, : len(F) - whole * size] = F[whole * size :].T
    return out


def _groups(columns: int, dtype: np.dtype) -> list[slice]:
    """The native code's grouping of columns: as wide as its registers allow, and the rest."""
    width = _tiles.group_width(np.dtype(dtype).itemsize)
    return [slice(start, min(start + width, columns)) for start in range(0, columns, width)]


def padded(V: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """V in `dtype`, padded to whole tiles and vectors, each group of columns stored with all its rows."""
    unit = _tiles.columns_unit()
    columns = 1 if V.shape[1] == 1 else -(-V.shape[1] // unit) * unit
    rows = -(-len(V) // BLOCK) * BLOCK
    out = np.zeros(rows * columns, dtype=dtype)
    for group in _groups(columns, dtype):
        some = V[:, group]
        out[rows * group.start : rows * group.stop].reshape(rows, -1)[: len(V), : some.shape[1]] = some
    return out.reshape(rows, columns)


def unpadded(sums: np.ndarray, dtype: np.dtype, out: np.ndarray) -> np.ndarray:
    """The first rows and columns of a grouped result, as many as `out` has, which receives them."""
    flat, height, (rows, columns) = sums.reshape(-1), sums.shape[0], out.shape
    for group in _groups(sums.shape[1], dtype):
        some = flat[height * group.start : height * group.stop].reshape(height, -1)
        out[:, group] = some[:rows, : max(0, columns - group.start)]
    return out
