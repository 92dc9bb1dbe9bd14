"""What the predictions of all baselines share: a batch of test points at a time."""

from collections.abc import Iterator

ENTRIES = 2**23  # of a matrix with one column per test point: 64 MB


def batches(points: int, rows: int) -> Iterator[slice]:
    """Slices of so many points that matrices of `rows` rows stay small."""
    size = max(1, ENTRIES // max(1, rows))
    return (slice(start, start + size) for start in range(0, points, size))
