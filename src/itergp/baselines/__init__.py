"""What the paper compares with: each is a Gaussian process with `mean`, `var` and `cov` of the latent
function.

`exact` by a Cholesky factor; `cggp` with the mean of conjugate gradients and the variance of LOVE, as
GPyTorch has it; `svgp` with inducing points, collapsed or by the stochastic bound.
`benchmarks/baselines.py` compares each with GPyTorch.
"""

from itergp.baselines.cggp import CGGP as CGGP, cggp as cggp
from itergp.baselines.exact import ExactGP as ExactGP, exact as exact
from itergp.baselines.svgp import SVGP as SVGP, stochastic_svgp as stochastic_svgp, svgp as svgp
