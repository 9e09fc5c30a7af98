// A run while it lasts. It costs the host as little as it can: one change of the page for each frame of the stream, charts drawn only
// when they are seen and of at most 600 points, no clock of its own.

import { Chart } from "./chart.js";
import { announce, button, el, failed, link, notice, prose, put, row, say, table, unseen } from "./dom.js";
import { lines, named } from "./api.js";
import { add_point, whole_run } from "./points.js";
import { counted, instant, ms, number, short, span } from "./format.js";

/** Seconds until the next attempt after a stream broke; the last one repeats. */
const WAITS = [1, 2, 4, 8, 10];
const STATES = /** @type {Record<string, string>} */ ({
  preparing: "preparing",
  running: "running",
  stopping: "stopping",
  complete: "complete",
  interrupted: "interrupted",
  failed: "failed",
  lost: "lost",
});
const OVER = ["complete", "interrupted", "failed", "lost"];

/** What a run tells of the latency of a window. */
const PERCENTILES = ["p50", "p90", "p99", "p99.9", "max"];

/** @param {number | null | undefined} value */
const rate_of = (value) => (value === null || value === undefined ? "–" : short(value));

/** What is on; the only one at once. @param {import("./view.js").View} view */
export async function live(view) {
  view.head("Live", "Runs that are on, and the last that ended.");
  const { live: runs, queued, unstarted = [] } = await view.get("/api/live");
  const on = runs.filter((/** @type {any} */ one) => !OVER.includes(one.state));
  if (on.length === 1 && !queued.length && !unstarted.length && !view.query.has("all"))
    return view.go(named("/live/", on[0].id), true);
  const of = (/** @type {any} */ one) =>
    row([
      link(named("/live/", one.id), one.name || one.id),
      one.command,
      STATES[one.state] ?? one.state,
      instant(one.started),
      one.watched_in_terminal ? "in a terminal" : "in the front",
    ]);
  const waiting = el("div");
  const draw = (/** @type {any[]} */ all) =>
    put(
      waiting,
      all.length > 0 &&
        table(
          "Waiting for their turn",
          [{ text: "Name", class: "left" }, "Command", unseen("Remove")],
          all.map((one) =>
            row([
              one.name || "–",
              one.command,
              button(
                "Remove",
                () =>
                  view.attempt(async () => {
                    await view.post(named("/api/queue/", String(one.id), "/remove"));
                    draw(all.filter((other) => other !== one));
                    announce("removed from the queue");
                  }),
                { class: "small", "aria-label": `Remove ${one.name} from the queue` },
              ),
            ]),
          ),
        ),
    );
  draw(queued);
  put(
    view.body,
    unstarted.length > 0 &&
      notice(
        "invalid",
        "Not started when their turn came",
        el(
          "ul",
          {},
          ...unstarted.map((/** @type {any} */ one) =>
            el("li", {}, `${one.name || one.command}: `, ...prose(one.error)),
          ),
        ),
      ),
    runs.length
      ? table("Runs", [{ text: "Run", class: "left" }, "Command", "State", "Started", "Where"], runs.map(of), {
          class: "words rows",
        })
      : el(
          "div",
          { class: "empty" },
          el("p", {}, "No run is on."),
          el(
            "p",
            {},
            link("/new", "Set up a run"),
            ", or start one in a terminal: ",
            el("code", {}, "webstone run --watch"),
          ),
        ),
    waiting,
  );
}

/** @param {import("./view.js").View} view */
export async function liveRun(view) {
  const id = view.parameters[0];
  view.head(id);
  const page = new LivePage(view, id);
  const seen = () => page.draw();
  document.addEventListener("visibilitychange", seen, { signal: view.signal });
  for (let attempt = 0; !view.signal.aborted; ) {
    try {
      for await (const line of lines(named("/api/live/", id), view.signal)) {
        if (attempt) page.connection(null);
        attempt = 0;
        page.take(line);
        if (page.isOver()) return;
      }
    } catch (/** @type {any} */ error) {
      if (view.signal.aborted) return;
      if (error.status === 404)
        return put(
          view.body,
          failed(error),
          el("p", {}, "If it has ended, it is in the ", link("/library", "library"), "."),
        );
      if (error.status === 401) return;
    }
    const wait = WAITS[Math.min(attempt++, WAITS.length - 1)];
    page.connection(`Connection lost; trying again after ${wait} s. The run goes on without it.`);
    await new Promise((done) => {
      setTimeout(done, wait * 1000);
      view.signal.addEventListener("abort", done, { once: true });
    });
  }
}

class LivePage {
  /** @param {import("./view.js").View} view @param {string} id */
  constructor(view, id) {
    Object.assign(this, { view, id });
    this.view = view;
    this.id = id;
    /** @type {any} */
    this.snapshot = null;
    /** @type {number | null} A level that was chosen; null: the whole run. */
    this.chosen = null;
    this.drawn = 0;
    this.isDue = false;
    this.broken = el("div");
    this.end = el("div");
    this.phase = el("p", { class: "phase" });
    this.bar = el("progress", { max: 1, value: 0, "aria-label": "Progress of the run" });
    this.left = el("p", { class: "note left-time" });
    this.stopped = el("p", { class: "note" });
    this.stop = button("Stop", () => this.halt(false));
    this.now = button("Stop now", () => this.halt(true), { class: "danger", hidden: true });
    this.controls = el("div", { class: "actions" }, this.stop, this.now, this.stopped);
    /** @type {Record<string, HTMLElement[]>} */
    this.tiles = Object.fromEntries(
      ["rate", "mean", "p99", "errors", "offered", "cpu"].map((name) => [
        name,
        [el("dd", { class: "value" }, "–"), el("dd")],
      ]),
    );
    const tile = (/** @type {string} */ name, /** @type {string} */ title) =>
      el("div", {}, el("dt", {}, title), ...this.tiles[name]);
    this.percentiles = PERCENTILES.map(() => el("td", {}, "–"));
    this.offered = tile("offered", "Offered / due");
    this.rate = new Chart("Requests/s", "per second", "Second");
    this.latency = new Chart("Latency", "milliseconds", "Second");
    this.pick = el("select", {
      name: "level",
      onchange: () => {
        this.chosen = this.pick.value === "" ? null : Number(this.pick.value);
        this.draw();
      },
    });
    this.title = el("h2", {}, "The whole run");
    this.every = el(
      "select",
      { name: "refresh" },
      ...[
        [1, "every second"],
        [5, "every 5 s"],
        [30, "every 30 s"],
      ].map(([value, text]) => el("option", { value }, text)),
    );
    this.cells = el("div");
    this.hosts = el("div");
    this.ended = el("div");
    this.warnings = el("div");
    this.facts = el("div");
    put(
      view.body,
      this.broken,
      this.end,
      el("section", { class: "now", "aria-label": "Progress" }, this.phase, this.bar, this.left, this.controls),
      el(
        "dl",
        { class: "tiles live" },
        tile("rate", "Requests/s"),
        tile("mean", "Latency mean"),
        tile("p99", "Latency p99"),
        tile("errors", "Errors/s"),
        this.offered,
        tile("cpu", "CPU of generator / server"),
      ),
      table("Latency of this level so far", PERCENTILES, [el("tr", {}, ...this.percentiles)], { class: "percentiles" }),
      el(
        "div",
        { class: "charts-head" },
        this.title,
        el("label", {}, "Level ", this.pick),
        el("label", {}, "Refresh ", this.every),
      ),
      el("div", { class: "charts two" }, this.rate.figure, this.latency.figure),
      this.cells,
      this.ended,
      this.warnings,
      this.hosts,
      this.facts,
    );
  }

  isOver() {
    return Boolean(this.snapshot?.finished);
  }

  /** @param {any} line */
  take(line) {
    const { snapshot, frame, ended, warning, cells, finished } = line;
    if (snapshot) {
      this.snapshot = snapshot;
      this.head();
      this.chosen = null;
      this.endedTable();
      this.warningList();
      this.cellTable();
      this.options();
    }
    const all = this.snapshot;
    if (!all) return;
    if (frame) {
      const before = { state: all.state, level: all.level, iteration: all.iteration };
      const { point, ...scalars } = frame;
      Object.assign(all, scalars);
      if (point) this.add(point);
      if (before.state !== all.state) announce(STATES[all.state] ?? all.state);
      else if (before.level !== all.level || before.iteration !== all.iteration)
        announce(`level ${all.level}, iteration ${all.iteration}`);
    }
    if (ended) {
      all.ended.push(ended);
      this.endedTable();
    }
    if (warning) {
      all.warnings.push(warning);
      this.warningList();
      announce("warning: " + warning.text);
    }
    if (cells) {
      all.cells = cells;
      this.cellTable();
    }
    if (finished) {
      all.finished = finished;
      all.state = finished.state;
    }
    if (all.finished) this.over();
    this.draw(Boolean(snapshot || finished || all.finished));
  }

  head() {
    const all = this.snapshot;
    const command = (all.command_line ?? []).join(" ");
    const what = [all.workload, all.target && "on " + all.target].filter(Boolean).join(" ");
    this.view.head(
      all.name || all.id,
      [what, all.started && "started " + instant(all.started)].filter(Boolean).join("; "),
    );
    put(
      this.facts,
      command &&
        el(
          "p",
          { class: "note" },
          all.watched_in_terminal ? "Started in a terminal: " : "Started as: ",
          el("code", {}, command),
        ),
    );
    this.offered.hidden = !all.open_loop;
  }

  /** @param {any[]} point */
  add(point) {
    const { levels, step, level } = this.snapshot;
    if (add_point(levels, step, level, point)) this.options();
  }

  options() {
    put(
      this.pick,
      el("option", { value: "" }, "all so far"),
      ...this.snapshot.levels.map((/** @type {any} */ one, /** @type {number} */ n) =>
        el("option", { value: n }, `${one.label ?? "level"} (${one.step})`),
      ),
    );
    this.pick.value = this.chosen === null ? "" : String(this.chosen);
  }

  /** Draws with the next picture of the screen, unless nobody looks. @param {boolean} [at_once] */
  draw(at_once = true) {
    const now = performance.now();
    // A frame may come a little early.
    if (
      !this.snapshot ||
      document.hidden ||
      this.isDue ||
      (!at_once && now - this.drawn < Number(this.every.value) * 1000 - 300)
    )
      return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.drawn = now;
      this.paint();
    });
  }

  paint() {
    const all = this.snapshot;
    const iteration = all.iteration ? `, iteration ${all.iteration}` : "";
    const where = all.steps ? ` (${all.step} of ${all.steps})` : "";
    say(
      this.phase,
      all.finished
        ? (STATES[all.state] ?? all.state)
        : [all.phase || all.state, all.level && `${all.level}${iteration}${where}`].filter(Boolean).join(": "),
    );
    const whole = all.left_ms === null || all.left_ms === undefined ? null : all.elapsed_ms + all.left_ms;
    this.bar.hidden = whole === null && !all.steps;
    const share = all.finished
      ? 1
      : whole
        ? all.elapsed_ms / whole
        : all.steps
          ? Math.max(0, all.step - 1) / all.steps
          : 0;
    if (Math.abs(this.bar.value - share) > 0.001) this.bar.value = Math.min(1, share);
    say(
      this.left,
      all.finished
        ? `took ${span(all.elapsed_ms / 1000)}`
        : `${span(all.elapsed_ms / 1000)} gone` +
            (whole === null ? "; the end cannot be foreseen" : `, ${span(all.left_ms / 1000)} left`),
    );
    const newest = all.levels[all.levels.length - 1];
    // A level that warms up has no points yet, and those of the one before are not its own.
    const running = all.finished || newest?.step === all.step ? newest : undefined;
    const last = (/** @type {any[]} */ points) => points[points.length - 1] ?? [];
    const [, rate, , mean, errors, due, offered] = last(running?.points ?? []);
    const tell = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ more) => {
      say(this.tiles[name][0], value);
      say(this.tiles[name][1], more);
    };
    tell("rate", rate_of(rate), counted(all.totals?.requests ?? 0, "request") + " in this level");
    tell("mean", ms(mean), "of the last second");
    // From where the table has it, which is newer than the last point: one figure, one value.
    tell("p99", ms(all.percentiles_ms?.[PERCENTILES.indexOf("p99")]), "of this level so far");
    this.percentiles.forEach((cell, n) => say(cell, ms(all.percentiles_ms?.[n])));
    tell("errors", rate_of(errors), counted(all.totals?.errors ?? 0, "error") + " in this level");
    tell(
      "offered",
      `${rate_of(offered)} / ${rate_of(due)}`,
      offered < due * 0.99 ? "the generator is behind its schedule" : "arrivals per second",
    );
    const share_of = (/** @type {number | null | undefined} */ value) =>
      value === null || value === undefined ? "–" : number(value) + " %";
    tell("cpu", `${share_of(all.cpu?.generator_percent)} / ${share_of(all.cpu?.server_percent)}`, "100 %: one CPU");
    this.tiles.errors[0].parentElement?.classList.toggle("bad", errors > 0);
    // All levels one after the other, or one that was chosen.
    const level = this.chosen === null ? null : all.levels[this.chosen];
    const { points, steps } = level ? { points: level.points, steps: [] } : whole_run(all.levels);
    say(this.title, level ? (level.label ?? "One level") : "The whole run");
    const second = (/** @type {number} */ at) => (at / 1000).toFixed(at % 1000 ? 1 : 0) + " s";
    const of = (/** @type {number} */ column) => points.map((/** @type {any[]} */ point) => point[column] ?? null);
    const places = points.map((/** @type {any[]} */ point) => point[0]);
    const loop = all.open_loop
      ? [
          { name: "due", style: 6, values: of(5) },
          { name: "offered", style: 1, values: of(6) },
        ]
      : [];
    this.rate.draw({ places, steps, mark: second, lines: [{ name: "answered", style: 0, values: of(1) }, ...loop] });
    this.latency.draw({
      places,
      steps,
      mark: second,
      lines: [
        { name: "mean", style: 0, values: of(3) },
        { name: "p99", style: 2, values: of(2) },
      ],
    });
    const told = points.length
      ? `${(level ?? newest)?.label ?? ""}: ${rate_of(last(points)[1])} requests per second, p99 ${ms(last(points)[2])} after ${second(places[places.length - 1])}`
      : "no values yet";
    this.rate.describe(told);
    this.latency.describe(told);
    const hosts = all.hosts ?? [];
    if (hosts.length)
      put(
        this.hosts,
        table(
          "Hosts that make the load",
          [{ text: "Host", class: "left" }, "Requests/s", "p99", "CPU", unseen("Remark")],
          hosts.map((/** @type {any} */ one) =>
            row([one.name, rate_of(one.rate), ms(one.p99_ms), share_of(one.cpu_percent), one.note]),
          ),
        ),
      );
  }

  endedTable() {
    const rows = this.snapshot.ended;
    const cells = rows.some((/** @type {any} */ one) => one.cell);
    put(
      this.ended,
      rows.length > 0 &&
        table(
          "Levels that ended",
          [
            { text: "Level", class: "left" },
            cells && "Cell",
            "Iteration",
            "Requests/s",
            "Mean",
            "p50",
            "p99",
            "Errors",
            unseen("Remark"),
          ].filter(Boolean),
          rows.map((/** @type {any} */ one) =>
            row(
              [
                one.label,
                cells && el("td", {}, one.cell ?? ""),
                one.iteration,
                rate_of(one.rate),
                ms(one.mean_ms),
                ms(one.p50_ms),
                ms(one.p99_ms),
                number(one.errors),
                el(
                  "td",
                  { class: "note remark" },
                  one.void ? "void: " + one.void : one.interrupted ? "interrupted" : "",
                ),
              ].filter((cell) => cell !== false),
              { class: one.void ? "caution" : one.errors ? "alarm" : "" },
            ),
          ),
        ),
    );
  }

  warningList() {
    const all = this.snapshot.warnings;
    put(
      this.warnings,
      all.length > 0 &&
        el(
          "section",
          {},
          el("h2", {}, "Warnings"),
          el(
            "ul",
            {},
            ...all.map((/** @type {any} */ one) =>
              el("li", {}, el("span", { class: "note" }, instant(one.time).slice(11, 16), " "), ...prose(one.text)),
            ),
          ),
        ),
    );
  }

  cellTable() {
    const cells = this.snapshot.cells;
    put(
      this.cells,
      cells &&
        table(
          "Cells of the series",
          [{ text: "Cell", class: "left" }, "Round", { text: "State", class: "left" }, "Requests/s at best"],
          cells.map((/** @type {any} */ one) =>
            row(
              [
                one.name,
                `${one.round} of ${one.rounds}`,
                el(
                  "td",
                  { class: "note" },
                  el(
                    "span",
                    {
                      class: "state " + (["waiting", "running", "done", "failed"].includes(one.state) ? one.state : ""),
                    },
                    one.state,
                  ),
                  one.error ? ": " + one.error : "",
                ),
                rate_of(one.rate),
              ],
              { class: one.state === "failed" ? "alarm" : "" },
            ),
          ),
        ),
    );
  }

  over() {
    const { finished } = this.snapshot;
    this.controls.hidden = true;
    const kind =
      finished.state === "complete"
        ? (finished.standing ?? "valid")
        : finished.state === "interrupted"
          ? "noisy"
          : "invalid";
    const title =
      {
        complete: "Complete",
        interrupted: "Interrupted; what was measured is kept",
        lost: "The run's process is gone",
      }[/** @type {string} */ (finished.state)] ?? "Failed";
    // One that was stopped has no verdict that says more than that.
    const worth =
      finished.state === "complete" &&
      {
        invalid: "The run is complete. Do not use its figures; the report says why.",
        noisy: "The run is complete. The machine was busy; the report says how far the figures may be off.",
        inconclusive: "The run is complete. The machine was too busy to conclude anything from it.",
      }[/** @type {string} */ (finished.standing)];
    put(
      this.end,
      notice(
        kind,
        worth ? finished.standing.toUpperCase() : title,
        worth && el("p", {}, worth),
        finished.message && el("p", {}, ...prose(finished.message)),
        finished.hint && el("p", { class: "note" }, ...prose(finished.hint)),
        el("p", {}, finished.run ? link(named("/run/", finished.run), "Open the report") : link("/library", "Library")),
      ),
    );
    announce(worth || title);
  }

  /** @param {string | null} text */
  connection(text) {
    put(this.broken, text && notice("noisy", text));
    announce(text ?? "connected");
  }

  /** @param {boolean} now */
  async halt(now) {
    (now ? this.now : this.stop).disabled = true;
    await this.view.attempt(async () => {
      try {
        await this.view.post(named("/api/live/", this.id, "/stop"), { now });
      } catch (error) {
        (now ? this.now : this.stop).disabled = false;
        throw error;
      }
      put(this.stopped, now ? "Stopping at once." : "This level ends; what is measured is kept.");
      announce(now ? "stopping at once" : "stopping; what is measured is kept");
      this.now.hidden = false;
    });
  }
}
