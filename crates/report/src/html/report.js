"use strict";
// The report works without this script. It adds a read-out under the pointer, the switch between light and dark, and
// opens what paper cannot open.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const names = { "": "automatic", light: "light", dark: "dark" };
  const remembered = () => { try { return localStorage.getItem("webstone-theme") || ""; } catch { return ""; } };
  const remember = (theme) => { try { localStorage.setItem("webstone-theme", theme); } catch { /* a file may have no storage */ } };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    button.textContent = "Theme: " + names[theme];
  };
  let theme = remembered();
  if (!(theme in names)) theme = "";
  apply(theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    const order = Object.keys(names);
    theme = order[(order.indexOf(theme) + 1) % order.length];
    apply(theme);
    remember(theme);
  });

  const readout = document.getElementById("readout");
  const points = new WeakMap();
  const lines = (svg) => {
    if (!points.has(svg)) {
      points.set(svg, [...svg.querySelectorAll(".series")].map((group) => ({
        name: group.dataset.name,
        at: group.dataset.at.split(" ").map((place) => place.split(",").map(Number)),
        x: group.dataset.x.split("|"),
        y: group.dataset.y.split("|"),
      })));
    }
    return points.get(svg);
  };
  const nearest = (line, x) => line.at.reduce((best, place, index) =>
    Math.abs(place[0] - x) < Math.abs(line.at[best][0] - x) ? index : best, 0);
  const hide = () => { readout.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest && event.target.closest("svg.plot");
    const all = svg ? lines(svg) : [];
    if (!all.length) { hide(); return; }
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const found = all.map((line) => ({ line, index: nearest(line, x) }));
    const closest = found.reduce((a, b) =>
      Math.abs(b.line.at[b.index][0] - x) < Math.abs(a.line.at[a.index][0] - x) ? b : a);
    const head = document.createElement("b");
    head.textContent = closest.line.x[closest.index];
    readout.replaceChildren(head);
    for (const { line, index } of found) {
      if (Math.abs(line.at[index][0] - closest.line.at[closest.index][0]) > 2) continue;
      const row = document.createElement("span");
      row.textContent = line.name + ": " + line.y[index];
      readout.append(row);
    }
    readout.hidden = false;
    const width = readout.offsetWidth;
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
    readout.style.left = Math.max(4, left) + "px";
    readout.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - readout.offsetHeight - 4)) + "px";
  });
  document.addEventListener("pointerleave", hide);
  addEventListener("scroll", hide, { passive: true });

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.printed:not([open]), details.level:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => { opened.forEach((details) => { details.open = false; }); });
})();
