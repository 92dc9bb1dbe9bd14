"""The paper's baselines: each is a Gaussian process with `mean`, `var` and `cov` of the latent function.

`exact` uses a Cholesky factor; `cggp` has the mean of conjugate gradients and the variance of LOVE, as in
GPyTorch; `svgp` uses inducing points, collapsed or with the stochastic bound. `benchmarks/baselines.py`
compares each with GPyTorch.
"""

from itergp.baselines.cggp import CGGP as CGGP, cggp as cggp
from itergp.baselines.exact import ExactGP as ExactGP, exact as exact
from itergp.baselines.svgp import SVGP as SVGP, stochastic_svgp as stochastic_svgp, svgp as svgp
