"""Sizes up to which work that grows as n^2 or n^3 is done as a whole, measured on two cores."""

EXACT_LIKELIHOOD_ROWS = 1000  # learning: up to here the exact likelihood is as fast as any other
EXACT_ROWS = 2048  # inference: up to here the default is the exact GP, which costs about a second
PASS_ROWS = (
    60_000  # inference: beyond, no pass over all pairs by default; a pass takes longer than it is worth
)
DENSE_ROWS = 4096  # up to here K + N may be factorised as a whole: `decompose`, `rkhs_error`, Adversarial
COMPILED_ROWS = 2048  # below, no compiled tile pays for its start-up
FLOAT32_ROWS = 4096  # below, tiles in float32 gain nothing
JOINT_POINTS = 2000  # test points: joint samples are exact up to here
# storage: beyond, K Q of actions on a few rows is made again when needed, not stored (0.8 MB for each action)
LEAN_ROWS = 100_000
