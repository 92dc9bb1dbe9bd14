"""What the paper compares with: each is a Gaussian process with `mean`, `var` and `cov` of the latent
function.

`exact` by a Cholesky factor; `cggp` with the mean of conjugate gradients and the variance of LOVE, as
GPyTorch has it; `svgp` with inducing points, collapsed or by the stochastic bound.
`benchmarks/baselines.py` compares each with GPyTorch.
"""

from itergp.baselines.cggp import CGGP as CGGP
from itergp.baselines.cggp import cggp as cggp
from itergp.baselines.exact import ExactGP as ExactGP
from itergp.baselines.exact import exact as exact
from itergp.baselines.svgp import SVGP as SVGP
from itergp.baselines.svgp import stochastic_svgp as stochastic_svgp
from itergp.baselines.svgp import svgp as svgp
