/* The page: settings, pictures and buttons. What is computed is in stepping-math.js. */

"use strict";

(() => {
  const LEFT = -1.25, RIGHT = 1.25; // of the picture; the data lie within [-1, 1], with a gap in the middle
  const HEIGHT = 2.7; // from -HEIGHT to HEIGHT: the prior's band and a little more
  const GRID = Float64Array.from({ length: 241 }, (_, j) => LEFT + ((RIGHT - LEFT) * j) / 240);
  const PACE = 450; // milliseconds between two actions

  const POLICIES = {
    cg: {
      title: "Conjugate gradients: the residual",
      about: "Acts where the mean is still wrong, so the mean converges quickly; the variance takes longer.",
      ended: "The residual is gone up to rounding: this policy has no direction left, although some variance is still computational.",
      make: () => Stepping.policies.conjugateGradients(),
    },
    pivoted: {
      title: "Pivoted Cholesky: the point with the largest variance",
      about: "Uses one data point at a time, always the one with the largest variance.",
      make: () => Stepping.policies.cholesky_pivoted(),
    },
    order: {
      title: "Cholesky: one point after the other",
      about: "Uses the data points from left to right. Points not yet reached have no effect.",
      make: () => Stepping.policies.cholesky_in_order(),
    },
    eigenvectors: {
      title: "Eigenvectors of the kernel matrix",
      about: "No other directions lower the variance at the data faster. But they have to be computed first, and that work is not counted here.",
      make: (problem) => Stepping.policies.eigenvectors(problem),
    },
    pseudo: {
      title: "Pseudo-inputs: kernel functions at inducing points",
      about: "Each action is the kernel around one point, here around randomly chosen data points, as in Nyström's method and SVGP.",
      make: (problem, random) => Stepping.policies.pseudoInputs(problem, shuffled(problem.x, random)),
    },
    random: {
      title: "Random directions",
      about: "Directions that do not depend on the data. They converge too, and are never overconfident on the way.",
      make: (problem, random) => Stepping.policies.listed(problem.K.map(() => normals(problem.x.length, random))),
    },
  };

  const find = (id) => document.getElementById(id);

  let run; // { problem, policy, exact, history }: what the settings led to
  let position = 0; // actions taken
  let wanted = 0; // and asked for: a policy may have fewer
  let timer = null;

  // Data, from a seed.

  /* Numbers in [0, 1), the same for the same seed (mulberry32). */
  function generator(seed) {
    let a = seed >>> 0;
    return () => {
      a = (a + 0x6d2b79f5) >>> 0;
      let t = Math.imul(a ^ (a >>> 15), 1 | a);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  const normals = (n, random) =>
    Float64Array.from({ length: n }, () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()));

  function shuffled(values, random) {
    const order = Array.from(values);
    for (let j = order.length - 1; j > 0; j--) {
      const k = Math.floor((j + 1) * random());
      [order[j], order[k]] = [order[k], order[j]];
    }
    return Float64Array.from(order);
  }

  function observations(n, noise, random) {
    const x = Float64Array.from({ length: n }, (_, j) => (j % 2 ? 1 : -1) * (0.15 + 0.85 * random())).sort();
    const errors = normals(n, random);
    return { x, y: x.map((t, j) => Math.sin(2 * Math.PI * t) + Math.sqrt(noise) * errors[j]) };
  }

  // Settings.

  function settings() {
    return {
      policy: POLICIES[find("policy").value],
      points: Number(find("points").value),
      lengthscale: 10 ** Number(find("lengthscale").value),
      noise: 10 ** Number(find("noise").value),
      seed: Math.min(9999, Math.max(0, Math.trunc(Number(find("seed").value) || 0))),
    };
  }

  function begin() {
    const { policy, points, lengthscale, noise, seed } = settings();
    const random = generator(seed);
    const { x, y } = observations(points, noise, random);
    const problem = Stepping.problem(x, y, lengthscale, noise);
    run = {
      problem,
      policy: policy.make(problem, random),
      exact: Stepping.exactPosterior(problem, GRID),
      history: [Stepping.start(problem)],
      ended: null, // the number of actions after which the policy had no more
      wording: policy.ended || "This policy has no more actions.",
    };
    show("points", String(points));
    show("lengthscale", lengthscale.toPrecision(2));
    show("noise", noise < 0.01 ? noise.toPrecision(2) : String(Number(noise.toPrecision(2))));
    find("about").textContent = policy.about;
    find("taken").max = points;
    go(wanted);
  }

  function show(id, text) {
    document.querySelector(`output[for="${id}"]`).textContent = text;
    find(id).setAttribute("aria-valuetext", text);
  }

  // Actions.

  /* To the state after this number of actions, or after all that the policy has. */
  function go(count) {
    const { problem, policy, history } = run;
    wanted = Math.max(0, Math.min(count, problem.x.length));
    while (history.length <= wanted && run.ended === null) {
      const next = Stepping.step(problem, history[history.length - 1], policy);
      if (next === null) run.ended = history.length - 1;
      else history.push(next);
    }
    position = Math.min(wanted, history.length - 1);
    draw();
  }

  function step() {
    go(position + 1);
    if (wanted > position) wanted = position;
  }

  const finished = () => position === run.problem.x.length || position === run.ended;

  function play(on) {
    clearInterval(timer);
    timer = null;
    if (on) {
      if (finished()) go(0);
      timer = setInterval(() => {
        step();
        if (finished()) play(false);
      }, PACE);
    }
    find("play").textContent = on ? "Pause" : "Play";
    find("play").setAttribute("aria-pressed", String(on));
  }

  // Pictures.

  function draw() {
    const { problem, exact, history } = run;
    const state = history[position];
    const { mean, variance } = Stepping.posterior(problem, state, GRID);
    const { computational, share } = Stepping.decompose(variance, exact.variance);
    drawPosterior(mean, exact, computational);
    drawAction(state.action);
    tell(state, share);
  }

  function drawPosterior(mean, exact, computational) {
    const picture = find("picture");
    const { width, height } = picture.getBoundingClientRect();
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const bottom = height - 22;
    const x = (t) => ((t - LEFT) / (RIGHT - LEFT)) * width;
    const y = (f) => bottom * (0.5 - f / (2 * HEIGHT));
    const half = exact.variance.map((variance) => 2 * Math.sqrt(Math.max(0, variance)));
    const outer = exact.variance.map((variance, j) => 2 * Math.sqrt(Math.max(0, variance + computational[j])));
    const set = (name, d) => picture.querySelector(`.${name}`).setAttribute("d", d);
    set("computational", band(x, y, mean, outer) + band(x, y, mean, half)); // even-odd: a ring around the mathematical band
    set("mathematical", band(x, y, mean, half));
    set("exact", line(x, y, exact.mean));
    set("mean", line(x, y, mean));
    set("data", Array.from(run.problem.x, (t, j) => `M${at(x(t))} ${at(y(run.problem.b[j]))}h0`).join(""));
    set("levels", [-2, 0, 2].map((f) => `M0 ${at(y(f))}H${at(width)}`).join(""));
    const below = [-1, -0.5, 0, 0.5, 1].map((t) => label(String(t), x(t), bottom + 16, "middle"));
    picture.querySelector(".labels").replaceChildren(...below, ...[-2, 2].map((f) => label(String(f), 2, y(f) - 4, "start")));
  }

  function drawAction(action) {
    const panel = find("action");
    const { width, height } = panel.getBoundingClientRect();
    panel.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const middle = (height + 18) / 2, tall = (height - 18) / 2 - 3;
    const largest = action === null ? 1 : action.reduce((size, weight) => Math.max(size, Math.abs(weight)), 0);
    const x = (t) => ((t - LEFT) / (RIGHT - LEFT)) * width;
    const stem = (t, length) => (Math.abs(length) < 0.05 ? "" : `M${at(x(t))} ${at(middle)}v${at(-length)}`);
    const stems = (weights) => Array.from(run.problem.x, (t, j) => stem(t, (tall * weights[j]) / largest)).join("");
    panel.querySelector(".zero").setAttribute("d", `M0 ${middle}H${width}`);
    panel.querySelector(".weights").setAttribute("d", action === null ? "" : stems(action));
    const caption = panel.querySelector(".caption");
    caption.setAttribute("x", 2);
    caption.setAttribute("y", 12);
    caption.textContent = action === null ? "no action yet: this is the prior" : `action ${position}: a weight for each data point`;
  }

  const at = (value) => value.toFixed(2);
  const line = (x, y, f) => "M" + Array.from(f, (value, j) => `${at(x(GRID[j]))} ${at(y(value))}`).join("L");

  function band(x, y, mean, half) {
    const upper = Array.from(mean, (m, j) => `${at(x(GRID[j]))} ${at(y(m + half[j]))}`);
    const lower = Array.from(mean, (m, j) => `${at(x(GRID[j]))} ${at(y(m - half[j]))}`).reverse();
    return "M" + upper.concat(lower).join("L") + "Z";
  }

  function label(text, x, y, anchor) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", "text");
    element.setAttribute("x", x);
    element.setAttribute("y", y);
    element.setAttribute("text-anchor", anchor);
    element.textContent = text.replace("-", "\u2212");
    return element;
  }

  // Numbers.

  function tell(state, share) {
    const n = run.problem.x.length;
    const residual = number(Stepping.norm(state.residual));
    const percent = `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
    find("actions").replaceChildren(String(position), " ", small(`of ${n}`));
    find("residual").textContent = residual;
    find("share").textContent = percent;
    find("passes").textContent = String(state.passes);
    find("spoken").textContent =
      `${position} of ${n} actions. Residual norm ${residual}, ${percent} of the variance is computational, ${state.passes} passes.`;
    find("taken").value = position;
    find("taken").setAttribute("aria-valuetext", `${position} of ${n} actions`);
    find("back").disabled = position === 0;
    find("reset").disabled = position === 0;
    find("step").disabled = finished();
    const exact = position === n ? "As many actions as data: this is the exact Gaussian process." : run.wording;
    find("ended").textContent = finished() ? exact : "";
  }

  const number = (value) => (value >= 0.001 || value === 0 ? value.toPrecision(3) : value.toExponential(1));

  function small(text) {
    const element = document.createElement("small");
    element.textContent = text;
    return element;
  }

  // The beginning.

  for (const [name, { title }] of Object.entries(POLICIES)) find("policy").add(new Option(title, name));
  find("settings").addEventListener("input", begin);
  find("settings").addEventListener("submit", (event) => event.preventDefault());
  find("step").addEventListener("click", () => { play(false); step(); });
  find("back").addEventListener("click", () => { play(false); go(position - 1); });
  find("reset").addEventListener("click", () => { play(false); go(0); });
  find("play").addEventListener("click", () => play(timer === null));
  find("taken").addEventListener("input", () => { play(false); go(Number(find("taken").value)); });
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, summary")) return;
    if (event.key === "ArrowRight") find("step").click();
    else if (event.key === "ArrowLeft") find("back").click();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => draw()).observe(find("figure"));
  begin();
})();
