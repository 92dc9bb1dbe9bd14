"use strict";
/* The figures. Each draws into its host for a target and returns a function of the slider's position, which redraws what moves:
   scales are chosen once, over all positions, so that the axes stay where they are. */

/** The value of a path at a position: positions that a figure does not have show its last. */
const atPosition = (values, k) => list(values)[Math.min(k, list(values).length - 1)];

function drawSlices(host, target) {
  const slices = list(target.slices).filter(slice => list(slice.x).some(isNumber) && extent(slice.mean));
  host.classList.toggle("single", slices.length === 1);
  if (!slices.length) return nothing(host);
  const domain = airy(extent(slices.map(sliceExtent)));
  const updates = slices.map(slice => {
    const panel = html("div", "panel");
    host.append(panel);
    return drawSlice(panel, slice, target, domain, slices.length === 1);
  });
  return k => updates.forEach(update => update(k));
}

/** What of a slice must be visible: the data and the final band, and of earlier, wider bands some more on each side. */
function sliceExtent(slice) {
  const last = list(slice.mean).length - 1, noise = noiseOf(slice);
  const spread = (k, sign) => list(slice.mean[k]).map((m, i) => edge(m, (atPosition(slice.combined, k) ?? [])[i] + noise(i), sign));
  const core = extent(spread(last, 1), spread(last, -1), slice.near?.y);
  const all = extent(core, slice.mean.map((_, k) => [spread(k, 1), spread(k, -1)]));
  if (!core) return all;
  const room = 0.3 * (core[1] - core[0]);
  return [Math.max(all[0], core[0] - room), Math.min(all[1], core[1] + room)];
}

/** Two standard deviations above or below a mean; the mean itself where the variance is not known. */
const edge = (mean, variance, sign) => (isNumber(mean) ? mean + sign * 2 * Math.sqrt(Math.max(0, isNumber(variance) ? variance : 0)) : null);

function drawSlice(host, slice, target, y, alone) {
  const feature = String(slice.feature ?? ""), xs = slice.x;
  const at = axes(host, {
    x: airy(extent(xs), 0), y, xLabel: slice.sd_units ? `${feature} (in standard deviations)` : feature, yLabel: target.name,
    ratio: alone ? 0.46 : 0.64, name: `Mean and bands of ${target.name} along ${feature}`,
  });
  const layers = {};
  for (const name of ["computational", "mathematical", "noise", "halo", "mean"]) {
    layers[name] = make("path", { class: name });
    at.plot.append(layers[name]);
    if (name === "mathematical" && slice.near) {
      at.plot.append(make("path", { class: "point", d: dots(list(slice.near.x), list(slice.near.y), at, 2.2) }));
    }
  }
  const split = list(slice.mathematical).some(isNumber);
  if (!split) host.append(html("p", "help", "The mathematical part was not computed; the whole band is shown as combined."));
  if (slice.held_at) {
    const held = html("p", "help held", slice.held_at);
    held.title = slice.held_at;
    host.append(held);
  }
  const readout = html("p", "readout", "\u00a0");
  host.append(readout);
  let now = null;
  const update = k => {
    now = bands(slice, k);
    layers.mathematical.setAttribute("d", split ? area(xs, now.inner[0], now.inner[1], at) : "");
    layers.computational.setAttribute("d", split
      ? area(xs, now.outer[0], now.inner[0], at) + area(xs, now.inner[1], now.outer[1], at)
      : area(xs, now.outer[0], now.outer[1], at));
    layers.computational.setAttribute("class", split ? "computational" : "combined");
    layers.noise.setAttribute("d", line(xs, now.observed[0], at) + line(xs, now.observed[1], at));
    layers.mean.setAttribute("d", line(xs, now.mean, at));
    layers.halo.setAttribute("d", line(xs, now.mean, at));
  };
  readAlong(at, xs, i => i === null ? "\u00a0"
    : `${short(feature, 24)} ${show(xs[i])}: mean ${show(now.mean[i])}, sd mathematical ${show(now.math[i])}, computational ${show(now.comp[i])}`,
  readout);
  return update;
}

/** The noise variance at a point of a slice: the same everywhere, or one for each point. */
function noiseOf(slice) {
  return i => { const one = isNumber(slice.noise) ? slice.noise : list(slice.noise)[i]; return isNumber(one) ? one : 0; };
}

/** Mean, the edges of the bands and the standard deviations of the parts after so much computation. */
function bands(slice, k) {
  const mean = list(atPosition(slice.mean, k)), combined = list(atPosition(slice.combined, k)), math = list(slice.mathematical);
  const noise = noiseOf(slice);
  const inner = mean.map((_, i) => (isNumber(math[i]) && isNumber(combined[i]) ? Math.min(math[i], combined[i]) : combined[i]));
  const pair = of => [-1, 1].map(sign => mean.map((m, i) => edge(m, of(i), sign)));
  return {
    mean, inner: pair(i => inner[i]), outer: pair(i => combined[i]), observed: pair(i => combined[i] + noise(i)),
    math: mean.map((_, i) => (isNumber(math[i]) ? Math.sqrt(Math.max(0, math[i])) : null)),
    comp: mean.map((_, i) => (isNumber(math[i]) && isNumber(combined[i]) ? Math.sqrt(Math.max(0, combined[i] - math[i])) : null)),
  };
}

/** A vertical line under the pointer, and what stands there in words. */
function readAlong(at, xs, words, readout) {
  const cursor = make("path", { class: "cursor" });
  at.plot.append(cursor);
  const move = event => {
    const place = at.svg.getBoundingClientRect(), view = at.svg.viewBox.baseVal.width;
    const pixel = (event.clientX - place.left) * view / place.width;
    let best = null;
    xs.forEach((x, i) => { if (isNumber(x) && (best === null || Math.abs(at.x(x) - pixel) < Math.abs(at.x(xs[best]) - pixel))) best = i; });
    if (best === null) return;
    cursor.setAttribute("d", `M${at.x(xs[best]).toFixed(1)} ${at.box.top}V${at.box.bottom}`);
    readout.textContent = words(best);
  };
  at.svg.addEventListener("pointermove", move);
  at.svg.addEventListener("pointerleave", () => { cursor.setAttribute("d", ""); readout.textContent = words(null); });
}

function drawDecomposition(host, target) {
  const parts = target.decomposition ?? {}, math = list(parts.mathematical), comp = list(parts.computational);
  const count = Math.max(math.length, comp.length), value = v => (isNumber(v) ? Math.max(0, v) : 0);
  const total = Array.from({ length: count }, (_, i) => value(math[i]) + value(comp[i]));
  const known = math.concat(comp).some(isNumber), top = Math.max(0, ...total);
  if (!known) return nothing(host);
  const noise = isNumber(parts.noise) ? parts.noise : null, fits = noise !== null && noise <= 2 * top;
  const at = axes(host, {
    x: [0, 100], y: [0, (Math.max(top, fits ? noise : 0) || 1) * 1.06], xLabel: "points, most certain first (%)",
    yLabel: "variance of f", ratio: 0.36, name: `Variance of ${target.name} at each point, in its parts`,
  });
  const width = 100 / count, gap = count > 60 ? 0 : 0.08 * width;
  let lower = "", upper = "";
  for (let i = 0; i < count; i++) {
    lower += block(i * width + gap, (i + 1) * width - gap, 0, value(math[i]), at);
    upper += block(i * width + gap, (i + 1) * width - gap, value(math[i]), total[i], at);
  }
  at.plot.append(make("path", { class: "mathematical solid", d: lower }), make("path", { class: "computational", d: upper }));
  if (fits) {
    at.plot.append(make("path", { class: "noise", d: `M${at.box.left} ${at.y(noise).toFixed(1)}H${at.box.right}` }));
    at.svg.append(make("text", { class: "note", x: at.box.left + 8, y: (at.y(noise) - 6).toFixed(1) }, `noise of an observation, ${tidy(noise)}`));
  }
  const legend = html("ul", "legend");
  legend.append(swatch("computational", "computational"), swatch("mathematical solid", "mathematical"));
  host.prepend(legend);
  if (noise !== null && !fits) host.append(html("p", "help", `The noise of an observation, ${tidy(noise)}, lies above this picture.`));
  host.append(html("p", "help", `In units of ${short(target.name, 40)}, squared. ${parts.about ?? ""}`));
  return () => {};
}

function swatch(className, text) {
  const item = html("li", "");
  item.append(make("svg", { width: 26, height: 14, "aria-hidden": "true" }, make("rect", { class: className, width: 26, height: 14 })), ` ${text}`);
  return item;
}

function drawCalibration(host, target) {
  const levels = list(target.calibration?.levels), observed = list(target.calibration?.observed);
  if (!levels.some(isNumber) || !extent(observed)) return nothing(host);
  const percent = v => String(Math.round(100 * v));
  const at = axes(host, {
    x: [0, 1], y: [0, 1], xLabel: "level of the interval (%)", yLabel: "points inside (%)", xTick: percent, yTick: percent, ratio: 0.8,
    name: "Share of points inside their intervals over the level of the intervals",
  });
  at.plot.append(make("path", { class: "ideal", d: line([0, 1], [0, 1], at) }));
  const gap = make("path", { class: "gap" }), curve = make("path", { class: "curve" }), marks = make("path", { class: "mark" });
  at.plot.append(gap, curve, marks);
  at.svg.append(make("text", { class: "note", x: at.x(0.04), y: at.y(0.93) }, "too careful"));
  at.svg.append(make("text", { class: "note", x: at.x(0.96), y: at.y(0.04), "text-anchor": "end" }, "too sure"));
  return k => {
    const ys = list(atPosition(observed, k));
    gap.setAttribute("d", area(levels, levels, ys, at));
    curve.setAttribute("d", line(levels, ys, at));
    marks.setAttribute("d", dots(levels, ys, at, 2.6));
  };
}

function drawPit(host, target) {
  const edges = list(target.pit?.edges), counts = list(target.pit?.counts);
  const totals = counts.map(row => list(row).reduce((sum, v) => sum + (isNumber(v) ? v : 0), 0));
  if (edges.length < 2 || !totals.some(total => total > 0)) return nothing(host);
  const bins = edges.length - 1, density = counts.map((row, k) => list(row).map(v => (isNumber(v) && totals[k] ? v / totals[k] * bins : 0)));
  const top = clamp(extent(density)[1], 1.6, 3);
  const at = axes(host, {
    x: [edges[0], edges[bins]], y: [0, top * 1.04], xLabel: "place in the predictive distribution", yLabel: "density", ratio: 0.8,
    name: "Histogram of the probability integral transform",
  });
  const chance = make("path", { class: "chance" }), bars = make("path", { class: "bars" });
  const level = make("path", { class: "ideal", d: line([edges[0], edges[bins]], [1, 1], at) }), beyond = make("g", { class: "beyond" });
  at.plot.append(chance, bars, level);
  at.svg.append(beyond);
  return k => {
    const row = list(atPosition(density, k)), half = 1.96 * Math.sqrt((bins - 1) / Math.max(1, totals[Math.min(k, totals.length - 1)]));
    chance.setAttribute("d", block(edges[0], edges[bins], Math.max(0, 1 - half), 1 + half, at));
    bars.setAttribute("d", row.map((v, i) => block(edges[i] + 0.06 / bins, edges[i + 1] - 0.06 / bins, 0, Math.min(v, top * 1.2), at)).join(""));
    beyond.replaceChildren(...row.flatMap((v, i) => (v > top * 1.04
      ? [make("text", { x: at.x((edges[i] + edges[i + 1]) / 2).toFixed(1), y: at.box.top + 12, "text-anchor": "middle" }, `\u2191${v.toFixed(0)}`)] : [])));
  };
}

function drawResiduals(host, target) {
  const { x_edges: xs, y_edges: ys, counts } = target.residuals ?? {};
  const most = extent(counts)?.[1] ?? 0;
  if (list(xs).length < 2 || list(ys).length < 2 || !(most > 0) || !xs.concat(ys).every(isNumber)) return nothing(host);
  const at = axes(host, {
    x: airy([xs[0], xs.at(-1)], 0), y: airy([ys[0], ys.at(-1)], 0), xLabel: `predicted ${target.name}`, yLabel: "error, in its sd", ratio: 0.42,
    name: `Standardised residuals of ${target.name} over its predicted mean`,
  });
  const shades = 8, shade = v => Math.ceil(shades * Math.sqrt(v / most)), paths = Array(shades + 1).fill("");
  counts.forEach((row, i) => list(row).forEach((v, j) => {
    if (v > 0 && i + 1 < xs.length && j + 1 < ys.length) paths[shade(v)] += block(xs[i], xs[i + 1], ys[j], ys[j + 1], at);
  }));
  paths.forEach((d, s) => { if (d) at.plot.append(make("path", { class: "density", "fill-opacity": (0.12 + 0.88 * s / shades).toFixed(2), d })); });
  for (const z of [-1.96, 1.96]) at.plot.append(make("path", { class: "noise", d: line(at.x.domain, [z, z], at) }));
  at.plot.append(make("path", { class: "zero", d: line(at.x.domain, [0, 0], at) }));
  host.append(shadeLegend(shades, most));
  return () => {};
}

/** What a shade stands for: counts, from one point to the fullest cell. */
function shadeLegend(shades, most) {
  const legend = html("p", "shades", "1 point ");
  const svg = make("svg", { width: 14 * shades, height: 12, "aria-hidden": "true" });
  for (let s = 1; s <= shades; s++) {
    svg.append(make("rect", { class: "density", x: 14 * (s - 1), width: 13, height: 12, "fill-opacity": (0.12 + 0.88 * s / shades).toFixed(2) }));
  }
  legend.append(svg, ` ${tidy(most)} points in a cell`);
  return legend;
}

function drawLearning(host, target, numbers) {
  const trace = list(numbers.learning).filter(step => isNumber(step?.seconds) && isNumber(step?.objective));
  if (!trace.length) return nothing(host, String(numbers.unlearned ?? "There is no trace of the learning."));
  const values = trace.map(step => step.objective).sort((a, b) => a - b), typical = values[Math.floor(0.9 * (values.length - 1))];
  const cut = values.at(-1) - values[0] > 4 * (typical - values[0]) && typical > values[0];
  const y = airy([values[0], cut ? typical + (typical - values[0]) : values.at(-1)], 0.06);
  const at = axes(host, {
    x: airy(extent(trace.map(step => step.seconds)), 0.02), y, xLabel: "seconds", yLabel: "objective", name: "Objective of learning over seconds",
  });
  const stages = [...new Set(trace.map(step => String(step.stage ?? "")))];
  stages.forEach((stage, s) => {
    const steps = trace.filter(step => String(step.stage ?? "") === stage), first = at.x(steps[0].seconds);
    if (s > 0) at.plot.append(make("path", { class: "border", d: `M${first.toFixed(1)} ${at.box.top}V${at.box.bottom}` }));
    at.plot.append(make("path", { class: "curve", d: line(steps.map(p => p.seconds), steps.map(p => p.objective), at) }));
    if (steps.length < 40) at.plot.append(make("path", { class: "mark", d: dots(steps.map(p => p.seconds), steps.map(p => p.objective), at, 2) }));
    const near = first > (at.box.left + at.box.right) * 0.6;
    at.svg.append(make("text", { class: "note", x: (near ? first - 5 : first + 5).toFixed(1), y: at.box.top + 12 + 14 * (s % 4), "text-anchor": near ? "end" : "start" }, short(stage, 26)));
  });
  if (cut) host.append(html("p", "help", "The highest values lie above this figure."));
  return () => {};
}

function drawConvergence(host, target, numbers) {
  const trace = list(numbers.convergence).filter(step => isNumber(step?.actions) && isNumber(step?.residual) && step.residual > 0);
  if (!trace.length) return nothing(host, "No residuals were stored.");
  if (trace.length === 1) return nothing(host, `There is one residual: ${tidy(trace[0].residual)} after ${trace[0].actions} actions.`);
  const log = trace.map(step => Math.log10(step.residual)), span = airy(extent(log), 0.05);
  const at = axes(host, {
    x: airy(extent(0, trace.map(step => step.actions)), 0.01), y: span, xLabel: "actions", yLabel: "relative residual", yTicks: powers(span), yTick: v => tidy(10 ** v),
    name: "Relative residual over actions, on a logarithmic scale",
  });
  at.plot.append(make("path", { class: "curve", d: line(trace.map(step => step.actions), log, at) }));
  if (trace.length < 40) at.plot.append(make("path", { class: "mark", d: dots(trace.map(step => step.actions), log, at, 2.6) }));
  const here = make("path", { class: "here" });
  at.plot.append(here);
  return k => {
    const actions = list(numbers.path?.actions)[k];
    here.setAttribute("d", isNumber(actions) ? `M${at.x(actions).toFixed(1)} ${at.box.top}V${at.box.bottom}` : "");
  };
}

/** Ticks of a logarithmic axis: powers of ten, or 1, 2 and 5 times them where there are few. */
function powers([low, high]) {
  const all = factors => {
    const found = [];
    for (let e = Math.floor(low); e <= Math.ceil(high); e++) factors.forEach(f => found.push(e + Math.log10(f)));
    return found.filter(v => v >= low && v <= high);
  };
  const tens = all([1]), some = tens.length >= 3 ? tens : all([1, 2, 5]), thin = Math.ceil(some.length / 7);
  return some.length >= 2 ? { step: 1, values: some.filter((_, i) => i % thin === 0) } : ticks([low, high], 4);
}

/** A number without the zeros at its end. */
function tidy(value) {
  if (value < 1e-3 || value >= 1e6) return minus(value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e"));
  return String(Number(value.toPrecision(3)));
}

/** A small line of a tile over all positions, with a dot where the slider stands and, at its end, one standard error. */
function drawSpark(host, values, domain, error = 0) {
  const ys = list(values);
  if (ys.filter(isNumber).length < 2) return () => {};
  const width = 92, height = 26, at = { x: scale([0, ys.length - 1], [4, width - 4]), y: scale(domain ?? airy(extent(ys), 0.02), [height - 4, 4]) };
  const dot = make("circle", { class: "mark", r: 3.2 }), end = ys.at(-1);
  const bar = isNumber(end) && error > 0 ? `M${width - 4} ${at.y(end - error).toFixed(1)}V${at.y(end + error).toFixed(1)}` : "";
  host.append(make("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, make("path", { class: "curve", d: line(ys.map((_, i) => i), ys, at) }),
    make("path", { class: "whisker", d: bar }), dot));
  return k => {
    dot.setAttribute("visibility", isNumber(ys[k]) ? "visible" : "hidden");
    if (isNumber(ys[k])) { dot.setAttribute("cx", at.x(k).toFixed(1)); dot.setAttribute("cy", at.y(ys[k]).toFixed(1)); }
  };
}

/** Observed over predicted, on one scale: the diagonal is a prediction without error. */
function drawPredicted(host, target) {
  const observed = list(target.predicted?.observed), mean = list(target.predicted?.mean), domain = extent(observed, mean);
  if (!domain) return nothing(host);
  const both = airy(domain, 0.04);
  const at = axes(host, {
    x: both, y: both, xLabel: `predicted ${target.name}`, yLabel: `observed ${target.name}`, ratio: 0.5,
    name: `Observed over predicted ${target.name}`,
  });
  at.plot.append(make("path", { class: "ideal", d: line(both, both, at) }));
  at.plot.append(make("path", { class: "point", d: dots(mean, observed, at, 2.6) }));
  return () => {};
}

const FIGURES = {
  predicted: drawPredicted, slices: drawSlices, decomposition: drawDecomposition, calibration: drawCalibration, pit: drawPit, residuals: drawResiduals,
  learning: drawLearning, convergence: drawConvergence,
};
