// Two runs or more, compared: what forbids it first, then the sentence, then the differences that were found, then all the rest.

import { interval } from "./chart.js";
import { button, el, link, notice, prose, put, row, table } from "./dom.js";
import { named } from "./api.js";
import { counted, percent } from "./format.js";
import { framed } from "./view.js";

/** @param {string} finding */
const kind = (finding) =>
  /faster|better|improve/.test(finding) ? "good" : /slower|worse|regress/.test(finding) ? "bad" : "";

/** @param {import("./view.js").View} view */
export async function compare(view) {
  const runs = view.query.getAll("run");
  view.head("Compare");
  if (runs.length < 2) {
    put(
      view.body,
      el(
        "div",
        { class: "empty" },
        el("p", {}, "Two runs are needed. Mark them in the ", link("/library", "library"), " with x, then press c."),
        el("p", {}, "In a terminal: ", el("code", {}, "webstone compare RUN RUN")),
      ),
    );
    return;
  }
  head([]);
  await show(false);

  /** @param {{ run: string, word: string }[]} verdicts */
  function head(verdicts) {
    const run = (/** @type {string} */ name) => {
      const word = verdicts.find((one) => one.run === name)?.word;
      return [link(named("/run/", name), name), word ? ` (${word})` : ""];
    };
    view.head(
      "Compare",
      "Baseline: ",
      ...run(runs[0]),
      "; against it: ",
      ...runs.slice(1).flatMap((name, n) => [n ? ", " : "", ...run(name)]),
    );
  }

  /** @param {boolean} force */
  async function show(force) {
    put(view.body, el("p", { class: "note" }, "Comparing …"));
    const found = await view.post("/api/compare", { runs, force });
    const { forbids = [], differs = [], rows = [] } = found;
    head(found.verdicts ?? []);
    const isReal = (/** @type {any} */ one) => one.is_difference ?? kind(one.finding) !== "";
    const real = rows.filter(isReal);
    const untold = rows.filter((/** @type {any} */ one) => one.finding === "cannot tell");
    const rest = rows.filter((/** @type {any} */ one) => !isReal(one) && !untold.includes(one));
    const forbidden =
      forbids.length > 0 &&
      el(
        "div",
        { role: force ? null : "alert" },
        notice(
          "invalid",
          force ? "These runs are not comparable; compared anyway" : "These runs are not comparable",
          table(
            "What forbids it",
            [
              { text: "What", class: "left" },
              { text: "Baseline", class: "left" },
              { text: "Candidate", class: "left" },
            ],
            forbids.map((/** @type {any} */ one) =>
              row([one.what, el("td", { class: "left" }, one.baseline), el("td", { class: "left" }, one.candidate)]),
            ),
            { class: "words" },
          ),
          !force &&
            el(
              "p",
              {},
              button("Compare anyway", () => view.attempt(() => show(true))),
            ),
        ),
      );
    const doubtful = (found.verdicts ?? []).filter((/** @type {any} */ one) =>
      ["noisy", "inconclusive", "invalid"].includes(one.standing),
    );
    const isInvalid = doubtful.some((/** @type {any} */ one) => one.standing === "invalid");
    const doubt =
      doubtful.length > 0 &&
      notice(
        isInvalid ? "invalid" : "noisy",
        isInvalid ? "Some of these figures must not be used" : "Some of these figures are noisy",
        el(
          "ul",
          {},
          ...doubtful.map((/** @type {any} */ one) =>
            el("li", {}, link(named("/run/", one.run), one.run), `: ${one.word}`),
          ),
        ),
      );
    const few =
      found.iterations_needed &&
      notice(
        "noisy",
        "Too few iterations",
        el(
          "p",
          {},
          `A difference needs at least ${found.iterations_needed} iterations of each run. `,
          link("/new?from=" + encodeURIComponent(runs[0]), "Repeat the baseline"),
          " with more, then the other.",
        ),
      );
    put(
      view.body,
      forbidden,
      doubt,
      few,
      found.sentence &&
        el("p", { class: "sentence" }, ...prose(found.sentence[0].toUpperCase() + found.sentence.slice(1))),
      rows.length > 0 &&
        (real.length
          ? el(
              "section",
              {},
              el("h2", {}, "Differences"),
              forest("Differences that were found", real, rows),
              el(
                "p",
                { class: "note" },
                "Bars: 95 % intervals of the change. To the right of the line: more than the baseline.",
              ),
            )
          : !forbids.length && !untold.length && el("p", {}, "No figure shows a difference.")),
      untold.length > 0 &&
        el(
          "details",
          { class: "group", open: !real.length && !rest.length },
          el(
            "summary",
            {},
            el("h2", {}, "Cannot tell"),
            el("span", { class: "note" }, counted(untold.length, "figure")),
          ),
          forest("Figures of which nothing can be said", untold, rows),
        ),
      rest.length > 0 &&
        el(
          "details",
          { class: "group" },
          el(
            "summary",
            {},
            el("h2", {}, "No difference shown"),
            el("span", { class: "note" }, counted(rest.length, "figure")),
          ),
          forest("Figures without a difference", rest, rows),
        ),
      differs.length > 0 &&
        el(
          "details",
          { class: "group" },
          el(
            "summary",
            {},
            el("h2", {}, "What else differs"),
            el("span", { class: "note" }, counted(differs.length, "setting")),
          ),
          el(
            "ul",
            {},
            ...differs.map((/** @type {any} */ one) =>
              el(
                "li",
                {},
                ...(typeof one === "string" ? prose(one) : [`${one.what}: ${one.baseline} → ${one.candidate}`]),
              ),
            ),
          ),
        ),
      found.url &&
        el("section", { class: "framed" }, el("h2", {}, "Full comparison"), framed(found.url, "Full comparison")),
    );
  }
}

/** A forest plot as a table: a row a figure, all on the axis of these figures. @param {string} caption @param {any[]} rows @param {any[]} all Rows of the whole comparison. */
function forest(caption, rows, all) {
  const sizes = rows
    .flatMap((one) => [one.change_percent, one.low_percent, one.high_percent])
    .filter((one) => Number.isFinite(one))
    .map(Math.abs)
    .sort((a, b) => a - b);
  // One far outlier must not press all others into the line.
  const typical = sizes[Math.floor(sizes.length * 0.9)] ?? 1;
  const reach = Math.max(1, Math.min(sizes[sizes.length - 1] ?? 1, typical * 2));
  // JSON has no infinity.
  const isOpen = (/** @type {any} */ one) => Number.isFinite(one.low_percent) && !Number.isFinite(one.high_percent);
  const drawn = (/** @type {any} */ one) =>
    Number.isFinite(one.change_percent) &&
    interval(
      {
        change: one.change_percent,
        low: one.low_percent ?? one.change_percent,
        high: one.high_percent ?? (isOpen(one) ? Infinity : one.change_percent),
        kind: /** @type {"good"} */ (kind(one.finding)),
      },
      reach,
    );
  const told = (/** @type {any} */ one, /** @type {number | null} */ value) =>
    value === null || value === undefined ? "–" : percent(value).replace("%", one.unit ?? "%");
  return table(
    caption,
    [
      { text: "Figure", class: "left" },
      { text: sizes.length ? `−${reach.toFixed(0)} % … +${reach.toFixed(0)} %` : "Interval", class: "axis-head" },
      { text: "Change, 95 % interval", class: "left" },
      { text: "Finding", class: "left" },
    ],
    rows.map((one) =>
      row([
        el(
          "th",
          { scope: "row", class: "left" },
          one.figure,
          el("small", {}, one.level),
          all.some((other) => other.run !== one.run) && el("small", {}, one.run),
        ),
        el("td", { class: "forest-cell" }, drawn(one)),
        el(
          "td",
          { class: "left interval" },
          told(one, one.change_percent),
          one.low_percent === null || one.low_percent === undefined
            ? null
            : el("small", {}, `${told(one, one.low_percent)} to ${isOpen(one) ? "∞" : told(one, one.high_percent)}`),
        ),
        el("td", { class: "left " + kind(one.finding) }, one.finding),
      ]),
    ),
  );
}
