"""Shared by the predictions of all baselines: batches of test points."""

from collections.abc import Iterator

ENTRIES = 2**23  # for a matrix with one column per test point: 64 MB


def batches(points: int, rows: int) -> Iterator[slice]:
    """Slices of points, such that matrices with `rows` rows stay small."""
    size = max(1, ENTRIES // max(1, rows))
    return (slice(start, start + size) for start in range(0, points, size))
