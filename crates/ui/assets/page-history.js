// A server's runs over time, and where their figures look like a step: how large, how sure, and what else changed there.

import { Chart } from "./chart.js";
import { el, link, notice, prose, put, row, table } from "./dom.js";
import { named } from "./api.js";
import { counted, figure, instant, percent } from "./format.js";

/** @param {import("./view.js").View} view */
export async function past(view) {
  const name = view.query.get("name") ?? "";
  view.head("History", "Comparable runs of the server of ", link(named("/run/", name), name));
  const { server, metric, unit, points, steps, excluded, why } = await view.get(
    "/api/history?name=" + encodeURIComponent(name),
  );
  view.head(
    server ? "History of " + server : "History",
    `${counted(points.length, "run")} comparable with `,
    link(named("/run/", name), name),
    excluded ? `; ${excluded} left out: not ended as planned, INVALID, INCONCLUSIVE, or without this level` : "",
  );
  if (!points.length)
    return put(view.body, el("div", { class: "empty" }, el("p", {}, ...prose(why ?? "No comparable run is stored."))));
  const chart = new Chart(metric ?? "Requests/s", unit ?? "", "Run");
  const at = (/** @type {string} */ run) => points.findIndex((/** @type {any} */ one) => one.run === run);
  /** @type {(number | null)[]} */
  const means = points.map(() => null);
  steps.forEach((/** @type {any} */ step, /** @type {number} */ n) => {
    const from = n ? at(steps[n - 1].at_run) : 0;
    const to = n + 1 < steps.length ? at(steps[n + 1].at_run) : points.length;
    for (let k = from; k < at(step.at_run); k += 1) means[k] = step.before;
    for (let k = at(step.at_run); k < to; k += 1) means[k] = step.after;
  });
  put(
    view.body,
    why && notice("", why),
    steps.length
      ? el(
          "p",
          { class: "sentence" },
          `${counted(steps.length, "change")} look${steps.length === 1 ? "s" : ""} like a step.`,
        )
      : !why && el("p", { class: "sentence" }, "No step."),
    el("div", { class: "wide-chart" }, chart.figure),
    el(
      "p",
      { class: "note" },
      "Bars: 95 % intervals. The axis does not begin at 0. Runs stand side by side, however long after one another they were made.",
    ),
    steps.length > 0 &&
      table(
        "Steps",
        [
          { text: "From run", class: "left" },
          "Change",
          "95 % interval",
          "p",
          { text: "What else changed there", class: "left" },
        ],
        steps.map((/** @type {any} */ one) =>
          row([
            link(named("/run/", one.at_run), one.at_run),
            percent(one.change_percent),
            `${percent(one.low_percent)} to ${percent(one.high_percent)}`,
            one.p < 0.001 ? "< 0.001" : figure(one.p),
            el("td", { class: "note" }, one.changed?.length ? one.changed.join("; ") : "nothing that the records tell"),
          ]),
        ),
      ),
    table(
      "Runs",
      [
        { text: "Run", class: "left" },
        { text: "Started", class: "left" },
        metric ?? "Value",
        "95 % from",
        "to",
        { text: "Verdict", class: "left" },
      ],
      points
        .toReversed()
        .map((/** @type {any} */ one) =>
          row([
            link(named("/run/", one.run), one.run),
            el("td", { class: "left" }, instant(one.started)),
            figure(one.value),
            figure(one.low),
            figure(one.high),
            el("td", { class: "left" }, one.verdict),
          ]),
        ),
      { class: "rows" },
    ),
  );
  chart.describe(
    `${counted(points.length, "run")}, from ${figure(points[0].value)} to ${figure(points[points.length - 1].value)} ${unit ?? ""}; ${counted(steps.length, "step")}`,
  );
  chart.draw({
    places: points.map((/** @type {any} */ _, /** @type {number} */ n) => n),
    mark: (place) => (points[place]?.started ?? "").slice(0, 10),
    dots: true,
    floats: true,
    lines: [
      { name: "run", style: 0, values: points.map((/** @type {any} */ one) => one.value) },
      ...(steps.length ? [{ name: "mean between steps", style: 1, values: means }] : []),
    ],
    intervals: points.map((/** @type {any} */ one) => ({ low: one.low ?? one.value, high: one.high ?? one.value })),
    steps: steps.map((/** @type {any} */ one) => ({ at: at(one.at_run) - 0.5, text: percent(one.change_percent) })),
  });
}
