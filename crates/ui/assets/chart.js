// Charts, drawn as the reports draw them. Each has a name, a sentence for those who do not see it, and its data as a table.

import { el, id, put, row, svg, table } from "./dom.js";
import { figure, number } from "./format.js";

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {number} style One of eight: a colour and a pattern.
 * @property {(number | null)[]} values As many as there are places; null: a gap.
 */
/**
 * @typedef {object} Drawing
 * @property {number[]} places Along the x axis, rising.
 * @property {Line[]} lines
 * @property {(place: number) => string} mark The words at a place of the x axis.
 * @property {{ low: number, high: number }[]} [intervals] Of the first line.
 * @property {{ at: number, text: string }[]} [steps] Vertical lines between places.
 * @property {boolean} [dots] Whether each value of the first line is marked.
 * @property {boolean} [floats] Whether the axis begins where the values do, and not at 0.
 */

const TICKS = 4;
const HEIGHT = 220;
const LEFT = 58;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 26;

/** Round steps that cover what is there, with the decimals that they need. @param {number} low @param {number} high @returns {[number, string][]} */
export function ticks(low, high) {
  const raw = (high > low ? high - low : high || 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 2.5, 5, 10].find((one) => one * power >= raw * (1 - 1e-9)) ?? 10) * power;
  const [first, last] = [Math.floor(low / step + 1e-9), Math.max(Math.ceil(high / step - 1e-9), 1)];
  const decimals = Math.max(0, -Math.floor(Math.log10(step)) + (step / power === 2.5 ? 1 : 0));
  return Array.from({ length: last - first + 1 }, (_, n) => [(first + n) * step, number((first + n) * step, decimals)]);
}

/** A chart of lines over time or runs; drawn again whenever its drawing changes. */
export class Chart {
  /** @param {string} title @param {string} unit @param {string} first Head of the data's first column. */
  constructor(title, unit, first) {
    this.unit = unit;
    this.first = first;
    const name = id("chart");
    this.told = el("p", { class: "hidden", id: name + "-d" });
    this.plot = svg("svg", { class: "plot", role: "img", "aria-labelledby": name, "aria-describedby": name + "-d" });
    this.legend = el("ul", { class: "legend" });
    this.data = el("div");
    this.fold = el("details", { class: "data", ontoggle: () => this.tabulate() }, el("summary", {}, "Data"), this.data);
    this.figure = el(
      "figure",
      {},
      el("p", { class: "title", id: name }, title),
      this.legend,
      el("p", { class: "note unit" }, unit),
      this.plot,
      this.told,
      this.fold,
    );
    /** @type {Drawing} */
    this.drawing = { places: [], lines: [], mark: String };
    this.width = 0;
    this.names = "";
    // Drawn in the pixels that it has, so that its texts are as large as all others.
    new ResizeObserver(() => {
      const width = Math.round(this.plot.getBoundingClientRect().width);
      if (width && width !== this.width) {
        this.width = width;
        this.draw(this.drawing);
      }
    }).observe(this.plot);
  }

  /** @param {string} sentence For those who do not see the lines. */
  describe(sentence) {
    put(this.told, sentence);
  }

  /** @param {Drawing} drawing */
  draw(drawing) {
    this.drawing = drawing;
    /** @type {string} */
    const names = drawing.lines.map((line) => line.name).join("|");
    if (names !== this.names) {
      this.names = names;
      put(
        this.legend,
        ...drawing.lines.map((/** @type {Line} */ line) =>
          el(
            "li",
            {},
            svg(
              "svg",
              { class: "key s" + line.style, viewBox: "0 0 28 12", "aria-hidden": "true" },
              svg("path", { class: "line", d: "M0 6H28" }),
            ),
            line.name,
          ),
        ),
      );
    }
    this.legend.hidden = drawing.lines.length < 2;
    if (this.fold.open) this.tabulate();
    if (!this.width) return;
    if (!drawing.places.length) {
      this.plot.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
      return put(
        this.plot,
        svg("text", { x: this.width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "no values yet"),
      );
    }
    const { places, lines, intervals = [], steps = [], mark } = drawing;
    const values = /** @type {number[]} */ (
      [...lines.flatMap((line) => line.values), ...intervals.flatMap((one) => [one.low, one.high])].filter(
        (one) => one !== null,
      )
    );
    const high = values.reduce((most, one) => Math.max(most, one), 0);
    const up = ticks(drawing.floats ? values.reduce((least, one) => Math.min(least, one), high) : 0, high);
    const [bottom, top] = [up[0][0], up[up.length - 1][0]];
    const [from, to] = [places[0] ?? 0, places[places.length - 1] ?? 1];
    const wide = this.width - LEFT - RIGHT;
    const x = (/** @type {number} */ place) =>
      +(LEFT + (to > from ? (place - from) / (to - from) : 0.5) * wide).toFixed(1);
    const y = (/** @type {number} */ value) =>
      +(TOP + (1 - (value - bottom) / (top - bottom)) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
    const grid = up.map(([value, label], n) =>
      svg(
        "g",
        {},
        svg("path", { class: n ? "grid" : "axis", d: `M${LEFT} ${y(value)}H${this.width - RIGHT}` }),
        svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, label),
      ),
    );
    // As many labels as have room.
    const count = Math.max(1, Math.min(places.length - 1, Math.floor(wide / 120)));
    const labelled = places.length
      ? Array.from({ length: count + 1 }, (_, n) => places[Math.round((n * (places.length - 1)) / count)])
      : [];
    const labels = [...new Set(labelled)].map((place) =>
      svg(
        "text",
        {
          x: x(place),
          y: HEIGHT - 8,
          "text-anchor": place === from && to > from ? "start" : place === to && to > from ? "end" : "middle",
        },
        mark(place),
      ),
    );
    const marks = steps.map((step) => svg("path", { class: "step", d: `M${x(step.at)} ${TOP}V${HEIGHT - BOTTOM}` }));
    const spans = intervals.map((one, n) =>
      svg("path", { class: "error s" + lines[0].style, d: `M${x(places[n])} ${y(one.low)}V${y(one.high)}` }),
    );
    const drawn = lines.map((line, at) => {
      let d = "";
      let pen = false;
      line.values.forEach((value, n) => {
        if (value !== null) d += `${pen ? "L" : "M"}${x(places[n])} ${y(value)}`;
        pen = value !== null;
      });
      const dots =
        (drawing.dots && !at) || places.length === 1
          ? line.values.map(
              (value, n) => value !== null && svg("circle", { class: "mark", cx: x(places[n]), cy: y(value), r: 3.5 }),
            )
          : [];
      return svg("g", { class: "s" + line.style }, svg("path", { class: "line", d }), ...dots);
    });
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.plot.setAttribute("height", String(HEIGHT));
    put(this.plot, ...grid, ...labels, ...marks, ...spans, ...drawn);
  }

  /** Writes the data out, where somebody looks at them. */
  tabulate() {
    const { places, lines, intervals, mark } = this.drawing;
    if (!this.fold.open) return put(this.data);
    const heads = [this.first, ...lines.map((line) => line.name), ...(intervals ? ["95 % from", "to"] : [])];
    const rows = places.map((place, n) =>
      row([
        mark(place),
        ...lines.map((line) => figure(line.values[n])),
        ...(intervals ? [figure(intervals[n].low), figure(intervals[n].high)] : []),
      ]),
    );
    put(this.data, table(this.unit, heads, rows));
  }
}

/**
 * A change with its interval, drawn on an axis that all rows share: the rows of a forest plot.
 * @param {{ change: number, low: number, high: number, kind: "good" | "bad" | "" }} one In percent. @param {number} reach Of the axis, to either side.
 */
export function interval(one, reach) {
  const x = (/** @type {number} */ value) => (100 + Math.max(-1, Math.min(1, value / reach)) * 96).toFixed(1);
  return svg(
    "svg",
    { class: "forest plot", viewBox: "0 0 200 20", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "zero", d: "M100 0V20" }),
    svg(
      "g",
      { class: "change " + one.kind },
      svg("path", { class: "error", d: `M${x(one.low)} 10H${x(one.high)}M${x(one.low)} 6V14M${x(one.high)} 6V14` }),
      svg("path", { class: "dot", d: `M${x(one.change)} 10h.01` }),
    ),
  );
}
