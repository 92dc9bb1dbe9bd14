/* The method on a line, in float64: Algorithm 1 of the paper, the posterior that follows from it, and the exact one.

   Pure functions, and nothing of the page: `Stepping` at the end is all there is. A vector is a Float64Array, a matrix an array
   of rows. A problem is { x, b, K, noise }; a policy is { passes, listed, action }, where action(problem, state) is the next
   direction in R^n, or null when there is none left; a state is what has been computed, and is never changed. */

"use strict";

const Stepping = (() => {
  // Vectors and matrices.

  function dot(a, b) {
    let sum = 0;
    for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
    return sum;
  }

  /* The vector with these entries. A loop: `map` and `from` of a Float64Array are far slower. */
  function vector(n, entry) {
    const a = new Float64Array(n);
    for (let j = 0; j < n; j++) a[j] = entry(j);
    return a;
  }

  const norm = (a) => Math.sqrt(dot(a, a));
  const times = (A, s) => vector(A.length, (j) => dot(A[j], s));
  const plus = (a, factor, b) => vector(a.length, (j) => a[j] + factor * b[j]); // a + factor b
  const scaled = (a, factor) => vector(a.length, (j) => factor * a[j]);

  function plusDiagonal(A, value) {
    return A.map((row, i) => vector(row.length, (j) => (i === j ? row[j] + value : row[j])));
  }

  // The prior: zero mean and a Matern kernel of order 3/2, with k(x, x) = 1.

  function kernel(x, z, lengthscale) {
    const r = (Math.sqrt(3) * Math.abs(x - z)) / lengthscale;
    return (1 + r) * Math.exp(-r);
  }

  const kernelMatrix = (x, z, lengthscale) => Array.from(x, (xi) => vector(z.length, (j) => kernel(xi, z[j], lengthscale)));

  /* K_hat v* = b, with K_hat = K + noise I: what Algorithm 1 learns about. */
  function problem(x, y, lengthscale, noise) {
    x = Float64Array.from(x);
    const K = kernelMatrix(x, x, lengthscale);
    return { x, b: Float64Array.from(y), K, K_hat: plusDiagonal(K, noise), lengthscale, noise };
  }

  // Algorithm 1.

  /* No computation yet: v = 0 and C = 0 give back the prior. */
  function start({ b }) {
    const n = b.length;
    return {
      rank: 0, // i, the number of actions
      proposed: 0, // by the policy, with those that were linearly dependent
      passes: 0,
    listed: true,
      action: null, // the last one, as proposed
      Q: [], // all of them, made orthonormal
      D: [], // search directions: C = sum_j d_j d_j^T / eta_j
      eta: [],
      v: new Float64Array(n), // representer weights
      residual: b,
      variance: new Float64Array(n).fill(1), // at the training inputs
    };
  }

  /* One action. The state after it; or null where the policy has nothing left that is new.

     As printed, the algorithm loses its conjugacy to rounding. With actions that are orthonormal it does not: the Gram matrix
     of the actions is then no worse conditioned than K_hat, and only the span of the actions matters for the posterior. */
  function step(problem, state, policy) {
    const s = policy.action(problem, state); // line 6: the policy selects an action
    if (s === null) return null;
    const q = orthonormal(s, state.Q);
    if (q === null) return policy.listed ? step(problem, { ...state, proposed: state.proposed + 1 }, policy) : null;
    const alpha = dot(q, state.residual); // lines 7 and 8: the observation, of r = b - K_hat v
    const K_hat_q = times(problem.K_hat, q);
    const d = plus(q, -1, precisionTimes(state, K_hat_q)); // line 9: the search direction, (I - C K_hat) s
    const eta = dot(K_hat_q, d); // line 10: its square norm
    const v = plus(state.v, alpha / eta, d); // line 13: representer weights
    const Kd = times(problem.K, d);
    return {
      rank: state.rank + 1,
      proposed: state.proposed + 1,
      passes: state.passes + policy.passes,
      action: scaled(s, 1 / norm(s)),
      Q: [...state.Q, q],
      D: [...state.D, d], // line 11: C + d d^T / eta
      eta: [...state.eta, eta],
      v,
      residual: plus(problem.b, -1, times(problem.K_hat, v)),
      variance: plus(state.variance, -1 / eta, vector(Kd.length, (j) => Kd[j] ** 2)),
    };
  }

  /* C z */
  function precisionTimes({ D, eta }, z) {
    const Cz = new Float64Array(z.length);
    D.forEach((d, j) => {
      const weight = dot(d, z) / eta[j];
      for (let k = 0; k < Cz.length; k++) Cz[k] += weight * d[k];
    });
    return Cz;
  }

  /* What s adds to the span of Q, of length one: projected twice. Null where that is only rounding. */
  function orthonormal(s, Q) {
    let q = scaled(s, 1 / norm(s));
    for (let time = 0; time < 2; time++) {
      for (const earlier of Q) q = plus(q, -dot(earlier, q), earlier);
      const left = norm(q);
      if (!(left > 1e-10)) return null;
      q = scaled(q, 1 / left);
    }
    return q;
  }

  // The posteriors, at points z.

  /* Lines 16 and 17: mean k(z, X) v and variance k(z, z) - k(z, X) C k(X, z). */
  function posterior({ x, lengthscale }, { v, D, eta }, z) {
    const k = kernelMatrix(z, x, lengthscale);
    return {
      mean: times(k, v),
      variance: vector(z.length, (i) => D.reduce((variance, d, j) => variance - dot(d, k[i]) ** 2 / eta[j], 1)),
    };
  }

  /* With all the computation there is: v* = K_hat^{-1} b by a Cholesky factorisation. What is left is mathematical. */
  function exactPosterior({ x, b, K_hat, lengthscale }, z) {
    const L = cholesky(K_hat);
    const white = forward(L, b);
    const columns = kernelMatrix(z, x, lengthscale).map((row) => forward(L, row)); // L^{-1} k(X, z)
    return { mean: times(columns, white), variance: vector(z.length, (i) => 1 - dot(columns[i], columns[i])) };
  }

  /* combined = mathematical + computational, and the share of the latter over all points. */
  function decompose(combined, mathematical) {
    const computational = combined.map((variance, j) => Math.max(0, variance - mathematical[j]));
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    return { mathematical, computational, share: sum(computational) / sum(combined) };
  }

  /* L with A = L L^T, lower triangular. */
  function cholesky(A) {
    const L = A.map((row) => new Float64Array(row.length));
    for (let i = 0; i < A.length; i++) {
      for (let j = 0; j <= i; j++) {
        let sum = A[i][j];
        for (let k = 0; k < j; k++) sum -= L[i][k] * L[j][k];
        L[i][j] = i === j ? Math.sqrt(sum) : sum / L[j][j];
      }
    }
    return L;
  }

  /* L^{-1} b */
  function forward(L, b) {
    const w = new Float64Array(b.length);
    for (let i = 0; i < b.length; i++) {
      let sum = b[i];
      for (let k = 0; k < i; k++) sum -= L[i][k] * w[k];
      w[i] = sum / L[i][i];
    }
    return w;
  }

  // Policies: Table 1 of the paper. A unit vector needs one column of K; every other action a pass over all of it.

  const unit = (j, n) => new Float64Array(n).fill(1, j, j + 1);

  /* s_i = e_i: a Cholesky factorisation, row by row. */
  const cholesky_in_order = () => ({
    passes: 0,
    listed: true,
    action: ({ b }, { proposed }) => (proposed < b.length ? unit(proposed, b.length) : null),
  });

  /* s_i = e_j, where the variance at the training inputs is largest: pivoted Cholesky. */
  const cholesky_pivoted = () => ({
    passes: 0,
    listed: true,
    action: ({ b }, { Q, variance }) => {
      const free = variance.map((value, j) => (Q.some((q) => Math.abs(q[j]) > 0.5) ? -Infinity : value));
      const largest = Math.max(...free);
      return largest === -Infinity ? null : unit(free.indexOf(largest), b.length);
    },
  });

  /* s_i = r_{i-1}: the method of conjugate gradients. Below that size a residual is rounding, and no direction. */
  const conjugateGradients = () => ({
    passes: 1,
    listed: false,
    action: ({ b }, { residual }) => (norm(residual) > 1e-9 * norm(b) ? residual : null),
  });

  /* s_i = the i-th vector of a list; random ones give a randomised Kaczmarz method. */
  const listed = (S) => ({
    passes: 1,
    listed: true,
    action: (_, { proposed }) => (proposed < S.length ? S[proposed] : null),
  });

  /* s_i = the i-th eigenvector of K_hat, the largest eigenvalue first: a partial eigendecomposition. */
  const eigenvectors = ({ K_hat }) => listed(symmetricEigenvectors(K_hat));

  /* s_i = k(X, z_i): inducing points z_i, as in Nystroem's method and SVGP. */
  const pseudoInputs = ({ x, lengthscale }, Z) => listed(kernelMatrix(Z, x, lengthscale));

  /* All eigenvectors of a symmetric matrix, the largest eigenvalue first: reflections, then QL iterations (EISPACK). */
  function symmetricEigenvectors(matrix) {
    const { d, e, W } = tridiagonal(matrix);
    for (let l = 0; l < d.length; l++) {
      for (let m = end(d, e, l); m > l; m = end(d, e, l)) implicitQL(d, e, W, l, m);
    }
    const order = Array.from(d.keys()).sort((i, j) => d[j] - d[i]);
    return order.map((j) => W[j]);
  }

  /* The first m >= l where the tridiagonal matrix falls apart: nothing but rounding beside the diagonal. */
  function end(d, e, l) {
    let m = l;
    while (m < d.length - 1 && Math.abs(e[m]) > 2 ** -53 * (Math.abs(d[m]) + Math.abs(d[m + 1]))) m++;
    return m;
  }

  /* W A W^T has the diagonal d and e beside it: one Householder reflection I - 2 u u^T for each column. */
  function tridiagonal(matrix) {
    const n = matrix.length;
    const A = matrix.map((row) => row.slice());
    const W = A.map((_, j) => unit(j, n));
    for (let k = 0; k < n - 2; k++) {
      const u = vector(n, (j) => (j > k ? A[j][k] : 0));
      u[k + 1] += (u[k + 1] < 0 ? -1 : 1) * norm(u);
      const length = norm(u);
      if (length === 0) continue;
      for (let j = k + 1; j < n; j++) u[j] /= length;
      const Au = times(A, u);
      const w = plus(Au, -dot(u, Au), u);
      const uW = new Float64Array(n);
      for (let j = k + 1; j < n; j++) for (let i = 0; i < n; i++) uW[i] += u[j] * W[j][i];
      for (let j = k; j < n; j++) {
        for (let i = k; i < n; i++) A[j][i] -= 2 * (u[j] * w[i] + w[j] * u[i]);
        if (j > k) for (let i = 0; i < n; i++) W[j][i] -= 2 * u[j] * uW[i];
      }
    }
    return { d: vector(n, (j) => A[j][j]), e: vector(n, (j) => (j < n - 1 ? A[j + 1][j] : 0)), W };
  }

  /* One QL step with an implicit shift on the rows l to m; W takes part in every rotation. */
  function implicitQL(d, e, W, l, m) {
    const half = (d[l + 1] - d[l]) / (2 * e[l]);
    let g = d[m] - d[l] + e[l] / (half + (half < 0 ? -1 : 1) * Math.hypot(half, 1));
    let [s, c, p] = [1, 1, 0];
    for (let i = m - 1; i >= l; i--) {
      const [f, b] = [s * e[i], c * e[i]];
      const r = Math.hypot(f, g);
      e[i + 1] = r;
      if (r === 0) {
        d[i + 1] -= p;
        e[m] = 0;
        return;
      }
      [s, c] = [f / r, g / r];
      g = d[i + 1] - p;
      const t = (d[i] - g) * s + 2 * c * b;
      p = s * t;
      d[i + 1] = g + p;
      g = c * t - b;
      rotate(W[i], W[i + 1], c, s);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
  }

  function rotate(upper, lower, c, s) {
    for (let k = 0; k < upper.length; k++) {
      const f = lower[k];
      lower[k] = s * upper[k] + c * f;
      upper[k] = c * upper[k] - s * f;
    }
  }

  return Object.freeze({
    problem, start, step, posterior, exactPosterior, decompose, norm,
    policies: Object.freeze({ cholesky_in_order, cholesky_pivoted, eigenvectors, conjugateGradients, pseudoInputs, listed }),
  });
})();
