"use strict";
/* The slider, the choice of a target, and what follows them. */

(() => {
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const find = id => document.getElementById(id);
  const slider = find("budget"), play = find("play"), choice = find("target");
  const PLAY = "M2 0L14 7L2 14Z", PAUSE = "M1 0H5V14H1ZM9 0H13V14H9Z";
  const last = Number(slider.max), STEP = last > 20 ? 220 : 420; // milliseconds for each position
  let updates = [], timer = null, width = 0;

  const target = () => numbers.targets[Number(choice.value) || 0] ?? { name: "y", tiles: [] };

  function drawAll() {
    updates = Object.entries(FIGURES).map(([id, draw]) => {
      const host = document.querySelector(`#${id} .panels`);
      host.replaceChildren();
      return draw(host, target(), numbers);
    });
    for (const [key, values] of Object.entries({ ...target().metrics, share: numbers.path.share })) {
      const host = document.querySelector(`#tile-${key} .spark`);
      if (!host) continue;
      host.replaceChildren();
      updates.push(drawSpark(host, values, key === "share" || key === "coverage" ? [0, 1] : undefined,
        key === "share" ? numbers.share?.error : 0));
    }
    for (const part of document.querySelectorAll(".of-target")) part.hidden = part.dataset.target !== (choice.value || "0");
    width = document.documentElement.clientWidth;
    move();
  }

  function move() {
    const k = Number(slider.value);
    slider.setAttribute("aria-valuetext", numbers.path.labels[k]);
    find("spoken").textContent = numbers.path.spoken[k];
    find("frozen").textContent = numbers.path.labels[k];
    for (const [key, [value, note]] of Object.entries(target().tiles[k] ?? {})) {
      const tile = find(`tile-${key}`);
      if (!tile) continue;
      tile.querySelector(".value").textContent = value;
      tile.querySelector(".note").textContent = note;
    }
    slider.style.setProperty("--done", `${last ? 100 * k / last : 100}%`);
    updates.forEach(update => update(k));
    document.body.dataset.position = String(k);
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    find("icon").setAttribute("d", PLAY);
    play.setAttribute("aria-label", "Play the computation from its beginning");
  }

  function start() {
    slider.value = "0";
    move();
    find("icon").setAttribute("d", PAUSE);
    play.setAttribute("aria-label", "Pause");
    timer = setInterval(() => {
      slider.value = String(Number(slider.value) + 1);
      move();
      if (Number(slider.value) >= last) pause();
    }, STEP);
  }

  slider.addEventListener("input", () => { if (timer !== null) pause(); move(); });
  play.addEventListener("click", () => (timer === null ? start() : pause()));
  choice.addEventListener("change", drawAll);
  for (const part of document.querySelectorAll("section details")) part.addEventListener("toggle", drawAll);
  window.addEventListener("resize", () => { if (document.documentElement.clientWidth !== width) drawAll(); });
  window.addEventListener("beforeprint", () => { axes.zoom = 0.7; drawAll(); });
  window.addEventListener("afterprint", () => { axes.zoom = 1; drawAll(); });

  find("choose").hidden = numbers.targets.length < 2;
  find("controls").hidden = last === 0 && numbers.targets.length < 2;
  slider.disabled = play.disabled = last === 0;
  document.body.classList.add("drawn");
  drawAll();
})();
