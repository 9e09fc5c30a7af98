"use strict";
// The report works without this script. It adds reading and zooming of charts, switches of lines and levels, the choice
// between light and dark, and opens what paper and links cannot open.
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Theme.
  const button = document.getElementById("theme");
  const names = { "": "automatic", light: "light", dark: "dark" };
  const remembered = () => {
    try {
      return localStorage.getItem("webstone-theme") || "";
    } catch {
      return "";
    }
  };
  const remember = (theme) => {
    try {
      localStorage.setItem("webstone-theme", theme);
    } catch {
      /* a file may have no storage */
    }
  };
  const apply = (theme) => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
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
  // Shown within the front, the page has the front's theme.
  if (parent !== window)
    addEventListener("message", (event) => {
      if (event.source !== parent || !Object.hasOwn(names, event.data)) return;
      theme = event.data;
      apply(theme);
      button.hidden = true;
    });

  // Level: shows the parts of one, and marks its rows.
  const level = document.getElementById("level");
  if (level) {
    level.hidden = false;
    const opened = all("details.level").map((part) => [part, part.open]);
    level.querySelector("select").addEventListener("change", (event) => {
      const wanted = event.target.value;
      for (const [part, open] of opened) {
        part.hidden = wanted !== "" && part.dataset.level !== wanted;
        part.open = wanted === "" ? open : !part.hidden;
      }
      all("tr[data-level]").forEach((row) => row.classList.toggle("chosen", row.dataset.level === wanted));
    });
  }

  // Lines of a chart, switched by its legend.
  for (const item of all(".legend.lines li")) {
    const toggle = document.createElement("button");
    toggle.type = "button";
    toggle.setAttribute("aria-pressed", "true");
    toggle.append(...item.childNodes);
    item.append(toggle);
    toggle.addEventListener("click", () => {
      const off = toggle.getAttribute("aria-pressed") === "true";
      toggle.setAttribute("aria-pressed", String(!off));
      all(".series", item.closest("figure"))
        .filter((line) => line.dataset.name === toggle.textContent)
        .forEach((line) => line.classList.toggle("off", off));
    });
  }

  // Charts of lines. A zoom shows [from, to] of the drawing's own x in the room of the whole.
  const readout = document.getElementById("readout");
  const said = document.getElementById("said");
  const ABSOLUTE = /([ML])(-?[\d.]+)/g;
  const ZOOM_MAX = 50;
  const charts = new Map();
  class Chart {
    constructor(svg, area) {
      Object.assign(this, { svg, left: +area.dataset.from, right: +area.dataset.to, at: 0 });
      this.paths = all("path", area).map((path) => [path, path.getAttribute("d")]);
      this.labels = all("g.x text", svg).map((text) => [text, +text.getAttribute("x")]);
      this.lines = all(".series", area).map((group) => ({
        group,
        name: group.dataset.name,
        at: group.dataset.at.split(" ").map((place) => place.split(",").map(Number)),
        x: group.dataset.x.split("|"),
        y: group.dataset.y.split("|"),
      }));
      this.places = [...new Set(this.lines.flatMap((line) => line.at.map((place) => place[0])))].sort((a, b) => a - b);
      [this.from, this.to] = [this.left, this.right];
      this.reset = document.createElement("button");
      Object.assign(this.reset, { type: "button", className: "reset", textContent: "Show all", hidden: true });
      this.reset.addEventListener("click", () => {
        this.zoom(this.left, this.right);
        svg.focus();
      });
      svg.before(this.reset);
    }
    shown(x) {
      return this.left + ((x - this.from) * (this.right - this.left)) / (this.to - this.from);
    }
    drawn(x) {
      return this.from + ((x - this.left) * (this.to - this.from)) / (this.right - this.left);
    }
    zoom(from, to) {
      const width = Math.min(this.right - this.left, Math.max(to - from, (this.right - this.left) / ZOOM_MAX));
      const middle = (from + to) / 2;
      this.from = Math.max(this.left, Math.min(middle - width / 2, this.right - width));
      this.to = this.from + width;
      for (const [path, d] of this.paths) {
        path.setAttribute(
          "d",
          d.replace(ABSOLUTE, (_, letter, x) => letter + this.shown(+x).toFixed(1)),
        );
      }
      for (const [text, place] of this.labels) {
        const x = this.shown(place);
        text.setAttribute("x", x.toFixed(1));
        text.classList.toggle("off", x < this.left - 1 || x > this.right + 1);
      }
      this.reset.hidden = width > this.right - this.left - 0.01;
    }
    // The values nearest to a place of the drawing, as lines of text; the first says where.
    read(x) {
      const lines = this.lines.filter((line) => !line.group.classList.contains("off"));
      const found = lines.map((line) => ({
        line,
        index: line.at.reduce(
          (best, place, index) => (Math.abs(place[0] - x) < Math.abs(line.at[best][0] - x) ? index : best),
          0,
        ),
      }));
      if (!found.length) return [];
      const place = ({ line, index }) => line.at[index][0];
      const closest = found.reduce((a, b) => (Math.abs(place(b) - x) < Math.abs(place(a) - x) ? b : a));
      const beside = found.filter((one) => Math.abs(place(one) - place(closest)) <= 2);
      return [closest.line.x[closest.index], ...beside.map(({ line, index }) => line.name + ": " + line.y[index])];
    }
    inDrawing(clientX) {
      const box = this.svg.getBoundingClientRect();
      return ((clientX - box.left) * this.svg.viewBox.baseVal.width) / box.width;
    }
    // Shows the values at the keyboard's place, and moves the view there.
    visit() {
      const x = this.places[this.at];
      const width = this.to - this.from;
      if (x < this.from || x > this.to) this.zoom(x - width / 2, x + width / 2);
      const box = this.svg.getBoundingClientRect();
      const lines = this.read(x);
      show(lines, box.left + (this.shown(x) * box.width) / this.svg.viewBox.baseVal.width, box.top + box.height / 4);
      said.textContent = lines.join(", ");
    }
    press(event) {
      const width = this.to - this.from;
      const x = this.places[this.at];
      const by = (factor) => {
        this.zoom(x - (width * factor) / 2, x + (width * factor) / 2);
        this.visit();
      };
      const go = (at) => {
        this.at = Math.max(0, Math.min(at, this.places.length - 1));
        this.visit();
      };
      const keys = {
        ArrowLeft: () => go(this.at - 1),
        ArrowRight: () => go(this.at + 1),
        Home: () => go(0),
        End: () => go(this.places.length - 1),
        "+": () => by(1 / 2),
        "=": () => by(1 / 2),
        "-": () => by(2),
        0: () => this.zoom(this.left, this.right),
        Escape: () => {
          this.zoom(this.left, this.right);
          hide();
        },
      };
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    }
  }
  const hide = () => {
    readout.hidden = true;
  };
  const show = (lines, x, y) => {
    const row = (text, index) => Object.assign(document.createElement(index ? "span" : "b"), { textContent: text });
    readout.replaceChildren(...lines.map(row));
    readout.hidden = !lines.length;
    const left = x + 16 + readout.offsetWidth > innerWidth ? x - 16 - readout.offsetWidth : x + 16;
    readout.style.left = Math.max(4, left) + "px";
    readout.style.top = Math.max(4, Math.min(y + 12, innerHeight - readout.offsetHeight - 4)) + "px";
  };
  for (const area of all("svg.area")) {
    const svg = area.closest("svg.plot");
    const chart = new Chart(svg, area);
    charts.set(svg, chart);
    svg.tabIndex = 0;
    svg.setAttribute("aria-describedby", "keys");
    svg.addEventListener("keydown", (event) => chart.press(event));
    svg.addEventListener("focus", () => {
      if (svg.matches(":focus-visible")) chart.visit();
    });
    svg.addEventListener("blur", hide);
    svg.addEventListener("dblclick", () => chart.zoom(chart.left, chart.right));
    let begun = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) begun = event.clientX;
    });
    svg.addEventListener("pointermove", (event) => {
      if (begun === null || Math.abs(event.clientX - begun) < 8) return;
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      svg.classList.add("dragged");
    });
    svg.addEventListener("pointercancel", () => {
      begun = null;
      svg.classList.remove("dragged");
    });
    svg.addEventListener("pointerup", (event) => {
      if (svg.classList.contains("dragged")) {
        const ends = [begun, event.clientX].map((x) => chart.drawn(chart.inDrawing(x))).sort((a, b) => a - b);
        chart.zoom(Math.max(chart.from, ends[0]), Math.min(chart.to, ends[1]));
      }
      begun = null;
      svg.classList.remove("dragged");
    });
  }
  document.getElementById("keys").hidden = !charts.size;
  document.addEventListener("pointermove", (event) => {
    const chart = event.target.closest && charts.get(event.target.closest("svg.plot"));
    if (chart) show(chart.read(chart.drawn(chart.inDrawing(event.clientX))), event.clientX, event.clientY);
    else hide();
  });
  document.addEventListener("pointerleave", hide);
  addEventListener("scroll", hide, { passive: true });

  // What a link leads to may be folded.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details"))
      fold.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details.printed:not([open]), details.level:not([open]):not([hidden])");
    opened.forEach((details) => {
      details.open = true;
    });
  });
  addEventListener("afterprint", () => {
    opened.forEach((details) => {
      details.open = false;
    });
  });
})();
