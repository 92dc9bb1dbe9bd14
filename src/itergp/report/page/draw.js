"use strict";
/* Axes, lines and bands in SVG. Text from the data is only ever set as text. */

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { top: 10, right: 14, bottom: 44, left: 58 };

/** An SVG element with its attributes and children; strings become text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** An HTML element of a class with a text. */
function html(name, className, text = "") {
  const element = document.createElement(name);
  element.className = className;
  element.textContent = text;
  return element;
}

const isNumber = value => typeof value === "number" && Number.isFinite(value);
const list = value => (Array.isArray(value) ? value : []);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** Smallest and largest finite number of nested lists; null where there is none. */
function extent(...values) {
  let low = Infinity, high = -Infinity;
  const visit = value => {
    if (Array.isArray(value)) value.forEach(visit);
    else if (isNumber(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  };
  values.forEach(visit);
  return low <= high ? [low, high] : null;
}

/** A domain with some air on both sides; one value alone gets a neighbourhood. */
function airy(domain, air = 0.05) {
  let [low, high] = domain ?? [0, 1];
  if (!(high > low)) { const half = Math.abs(low) * 0.1 || 0.5; low -= half; high += half; }
  const pad = air * (high - low);
  return [low - pad, high + pad];
}

/** The map of a domain to pixels. */
function scale([low, high], [from, to]) {
  const map = value => from + (value - low) / (high - low) * (to - from);
  map.domain = [low, high];
  return map;
}

/** Round numbers inside a domain: steps of 1, 2 or 5 times a power of ten. */
function ticks([low, high], wanted) {
  const rough = (high - low) / Math.max(1, wanted), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999) ?? 10 * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && found.length < 50; i++) found.push(i * step);
  return { step, values: found };
}

/** A number as short as the step between its neighbours allows. */
function tickText(value, step) {
  if (Math.abs(value) < step * 1e-6) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || step < 1e-4) {
    const digits = clamp(Math.ceil(Math.log10(size) - Math.log10(step) - 1e-9), 0, 8);
    return minus(value.toExponential(digits).replace("e+", "e"));
  }
  const decimals = clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 8);
  return minus(size >= 1e4 ? thousands(value.toFixed(decimals)) : value.toFixed(decimals));
}

/** Thousands separated by commas. */
function thousands(text) {
  const [whole, ...rest] = text.split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
}

const minus = text => text.replace(/-/g, "\u2212");

/** A number for a sentence: four significant digits. */
function show(value) {
  if (!isNumber(value)) return "not known";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return minus(value.toExponential(2).replace("e+", "e"));
  return minus(value.toFixed(clamp(3 - Math.floor(Math.log10(size)), 0, 6)));
}

const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "\u2026" : text);

/** Axes in a host element: returns the SVG, a clipped group to draw in, and both scales. */
function axes(host, { x, y, xLabel, yLabel, height, name, ratio = 0.62, xTick = tickText, yTick = tickText, xTicks, yTicks }) {
  const width = Math.max(260, Math.round((host.clientWidth || 480) * axes.zoom));
  const tall = Math.round(height ?? clamp(width * ratio, 240, 420));
  const yt = yTicks ?? ticks(y, clamp(tall / 48, 3, 7)), xt = xTicks ?? ticks(x, clamp(width / 90, 3, 9));
  const texts = yt.values.map(v => yTick(v, yt.step));
  const left = Math.max(MARGIN.left, 30 + 7 * Math.max(0, ...texts.map(t => t.length)));
  const box = { left, right: width - MARGIN.right, top: MARGIN.top, bottom: tall - MARGIN.bottom };
  const sx = scale(x, [box.left, box.right]), sy = scale(y, [box.bottom, box.top]);
  const svg = make("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": name, class: "plot" });
  const clip = `clip-${axes.count++}`;
  svg.append(make("defs", {}, make("clipPath", { id: clip },
    make("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }))));
  const grid = make("g", { class: "axis", "aria-hidden": "true" });
  yt.values.forEach((v, i) => {
    grid.append(make("path", { class: "grid", d: `M${box.left} ${sy(v).toFixed(1)}H${box.right}` }));
    grid.append(make("text", { x: box.left - 7, y: (sy(v) + 4).toFixed(1), "text-anchor": "end" }, texts[i]));
  });
  xt.values.forEach(v => {
    grid.append(make("path", { class: "tick", d: `M${sx(v).toFixed(1)} ${box.bottom}v4` }));
    grid.append(make("text", { x: sx(v).toFixed(1), y: box.bottom + 18, "text-anchor": "middle" }, xTick(v, xt.step)));
  });
  grid.append(make("path", { class: "base", d: `M${box.left} ${box.bottom}H${box.right}` }));
  grid.append(title(xLabel, { x: (box.left + box.right) / 2, y: tall - 6, "text-anchor": "middle" }, (box.right - box.left) / 6.6));
  grid.append(title(yLabel, { transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" },
    (box.bottom - box.top) / 6.6));
  const plot = make("g", { "clip-path": `url(#${clip})` });
  svg.append(grid, plot);
  host.append(svg);
  return { svg, plot, x: sx, y: sy, box };
}
axes.count = 0;
axes.zoom = 1; // below one, letters are larger: for paper

/** The title of an axis: cut to the room it has, whole in its tooltip. */
function title(label, attributes, room) {
  const text = make("text", { class: "title", ...attributes }, short(label, Math.max(8, Math.floor(room))));
  if (label.length > room) text.prepend(make("title", {}, label));
  return text;
}

/** The d of a line through points; what is not finite interrupts it. */
function line(xs, ys, at) {
  let d = "", pen = false;
  for (let i = 0; i < xs.length; i++) {
    if (!isNumber(xs[i]) || !isNumber(ys[i])) { pen = false; continue; }
    d += `${pen ? "L" : "M"}${at.x(xs[i]).toFixed(1)} ${at.y(ys[i]).toFixed(1)}`;
    pen = true;
  }
  return d;
}

/** The d of the area between two lines, over the runs where both are finite. */
function area(xs, lower, upper, at) {
  let d = "", run = [];
  const close = () => {
    if (run.length > 1) {
      const there = run.map(i => `${at.x(xs[i]).toFixed(1)} ${at.y(upper[i]).toFixed(1)}`);
      const back = run.map(i => `${at.x(xs[i]).toFixed(1)} ${at.y(lower[i]).toFixed(1)}`).reverse();
      d += `M${there.join("L")}L${back.join("L")}Z`;
    }
    run = [];
  };
  for (let i = 0; i < xs.length; i++) {
    if (isNumber(xs[i]) && isNumber(lower[i]) && isNumber(upper[i])) run.push(i);
    else close();
  }
  close();
  return d;
}

/** Circles of a radius as one path. */
function dots(xs, ys, at, radius) {
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (!isNumber(xs[i]) || !isNumber(ys[i])) continue;
    d += `M${(at.x(xs[i]) - radius).toFixed(1)} ${at.y(ys[i]).toFixed(1)}a${radius} ${radius} 0 1 0 ${2 * radius} 0`
      + `a${radius} ${radius} 0 1 0 ${-2 * radius} 0`;
  }
  return d;
}

/** A rectangle between data coordinates, as the d of a path. */
function block(x0, x1, y0, y1, at) {
  const left = at.x(x0).toFixed(2), right = at.x(x1).toFixed(2);
  return `M${left} ${at.y(y0).toFixed(2)}H${right}V${at.y(y1).toFixed(2)}H${left}Z`;
}

/** A figure without data says so. */
function nothing(host, why = "There are no numbers for this figure.") {
  host.append(html("p", "nothing", why));
  return () => {};
}
