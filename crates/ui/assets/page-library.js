// The stored runs: found by words, sorted, marked, compared, annotated, taken away and brought back.

import { announce, button, el, failed, id, link, notice, prose, put, say, table, unseen } from "./dom.js";
import { named } from "./api.js";
import { comparison, mark, marks } from "./marks.js";
import { Notes } from "./notes.js";
import { brief, counted, figure, instant, ms, number } from "./format.js";

/** Rows that are asked for, and drawn, at a time. */
const ROWS = 100;
/** Of them so many at once while somebody types; the others follow. */
const AT_ONCE = 25;
/** Columns that the search can be narrowed to, and the words for them. */
const FACETS = /** @type {[string, string][]} */ ([
  ["server", "Server"],
  ["workload", "Workload"],
  ["host", "Host"],
  ["verdict", "Verdict"],
  ["tag", "Tag"],
]);
/** Most chips of a facet. */
const CHIPS = 8;
const COLUMNS = /** @type {{ key: string, title: string, below?: string, left?: boolean }[]} */ ([
  { key: "name", title: "Run", below: "started", left: true },
  { key: "server", title: "Server", below: "workload", left: true },
  { key: "rate", title: "Peak" },
  { key: "at", title: "At" },
  { key: "p99_ms", title: "p99" },
  { key: "limit", title: "Bottleneck", left: true },
  { key: "errors", title: "Errors" },
  { key: "duration_s", title: "Time" },
  { key: "verdict", title: "Verdict", left: true },
]);

/** A word of the search that narrows a column. @param {string} facet @param {string} value */
const term = (facet, value) => `${facet}:${/[\s":]/.test(value) ? `"${value.replace(/"/g, "")}"` : value}`;

/** @param {any} one */
const valuesOf = (one) => ({
  server: [one.kind === "run" ? one.server : ""],
  workload: [one.workload],
  host: [one.host],
  verdict: [one.standing || (one.unreadable ? "unreadable" : "")],
  tag: one.tags ?? [],
});

/** @param {import("./view.js").View} view */
export async function library(view) {
  view.head("Library");
  /** @type {any[]} */
  let rows = [];
  /** @type {any} */
  let answer = null;
  let sort = { key: "started", falls: true };
  let asked = new AbortController();
  let timer = 0;

  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: "Search: nginx standard tag:baseline",
    "aria-label": "Search runs",
    value: view.query.get("q") ?? "",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => view.attempt(() => load(0, true)),
  });
  const chips = el("div", { class: "chips" });
  // Results before filters where there is little room.
  const filters = el("details", { class: "filters", open: innerWidth > 700 }, el("summary", {}, "Filters"), chips);
  const count = el("p", { class: "note" });
  const compare = button("Compare", () => view.go(comparison(marks())));
  const clear = button("Clear marks", () => {
    for (const name of marks()) mark(name, false);
    draw();
  });
  const told = el("span", { class: "note" });
  const drawer = el("aside", { class: "drawer", "aria-label": "Notes", hidden: true });
  const list = el("div");
  const more = button("Show more", () => view.attempt(() => load(rows.length)));
  const trouble = el("div");
  put(
    view.body,
    el("div", { class: "search" }, search, el("div", { class: "actions" }, compare, clear, told)),
    filters,
    trouble,
    count,
    el("div", { class: "with-drawer" }, el("div", {}, list, more), drawer),
  );
  view.keys = {
    x: () => {
      const box = here()?.querySelector("input");
      box?.click();
    },
    c: () => {
      if (marks().length > 1) compare.click();
      else announce("mark two runs with x first");
    },
  };

  const here = () => document.activeElement?.closest("tr");

  /** @param {number} offset @param {boolean} [typing] */
  async function load(offset, typing) {
    asked.abort();
    const mine = (asked = new AbortController());
    const q = search.value.trim();
    const query = new URLSearchParams({
      q,
      offset: String(offset),
      limit: String(ROWS),
      sort: (sort.falls ? "-" : "") + sort.key,
    });
    const got = await view.get("/api/library?" + query);
    if (mine.signal.aborted) return;
    answer = got;
    rows = offset ? [...rows, ...got.rows] : got.rows;
    history.replaceState(history.state, "", q ? "/library?q=" + encodeURIComponent(q) : "/library");
    draw(typing);
    // Rows of a large directory come while it is read.
    clearTimeout(timer);
    if (got.unread && !view.signal.aborted)
      timer = setTimeout(() => {
        if (!view.signal.aborted && drawer.hidden && !list.contains(document.activeElement))
          view.attempt(() => load(0));
      }, 2000);
  }

  /** @param {boolean} [typing] */
  function draw(typing) {
    const names = marks();
    compare.disabled = names.length < 2;
    clear.hidden = !names.length;
    say(told, names.length ? `${counted(names.length, "run")} marked` : "mark two runs to compare them");
    put(
      trouble,
      answer.problem &&
        notice(
          "noisy",
          "This search cannot be read",
          el("p", {}, ...prose(answer.problem.message)),
          answer.problem.hint && el("p", { class: "note" }, ...prose(answer.problem.hint)),
        ),
    );
    const typed = search.value.trim();
    say(
      count,
      answer.total === 0
        ? ""
        : (typed ? `${number(answer.matched)} of ${counted(answer.total, "run")}` : counted(answer.total, "run")) +
            (answer.unread ? `; ${number(answer.unread)} are still being read` : ""),
    );
    more.hidden = rows.length >= answer.matched;
    drawChips();
    filters.hidden = !chips.hasChildNodes();
    if (answer.total === 0) {
      put(
        list,
        el(
          "div",
          { class: "empty" },
          el("p", {}, "No run is stored yet. The first one, in a terminal:"),
          el("pre", { tabindex: 0 }, "webstone run"),
          el("p", {}, "or ", link("/new", "here"), "."),
        ),
      );
      return;
    }
    if (!rows.length)
      return put(list, !answer.problem && el("p", { class: "empty" }, "No run has all of these words."));
    const sorts = (/** @type {string} */ key, /** @type {string} */ title, /** @type {boolean} */ falls) =>
      button(
        title + (key === sort.key ? (sort.falls ? " ▾" : " ▴") : ""),
        () => {
          sort = { key, falls: key === sort.key ? !sort.falls : falls };
          view
            .attempt(() => load(0))
            .then(() => /** @type {HTMLElement | null} */ (list.querySelector("button.sort.on"))?.focus());
        },
        { class: "sort" + (key === sort.key ? " on" : "") },
      );
    const heads = COLUMNS.map((one) => ({
      class: one.left ? "left" : "",
      sort: one.key === sort.key || one.below === sort.key ? (sort.falls ? "descending" : "ascending") : null,
      text: el(
        "span",
        { class: "sorts" },
        sorts(one.key, one.title, !one.left),
        one.below && sorts(one.below, one.below, one.below === "started"),
      ),
    }));
    put(
      list,
      table(
        "Stored runs",
        [unseen("Mark"), ...heads, { text: "Notes", class: "left" }],
        rows.slice(0, typing ? AT_ONCE : undefined).map(line),
        { class: "rows library" },
      ),
    );
    const body = list.querySelector("tbody");
    if (typing)
      setTimeout(() => {
        if (body?.isConnected) body.append(...rows.slice(AT_ONCE).map(line));
      });
  }

  /** @param {any} one */
  function line(one) {
    const box = el("input", {
      type: "checkbox",
      "aria-label": "Mark " + one.name,
      checked: marks().includes(one.name),
      onchange: () => {
        mark(one.name, box.checked);
        box.closest("tr")?.classList.toggle("chosen", box.checked);
        const names = marks();
        compare.disabled = names.length < 2;
        clear.hidden = !names.length;
        say(told, `${counted(names.length, "run")} marked`);
        announce(`${one.name} ${box.checked ? "marked" : "not marked any more"}`);
      },
    });
    box.disabled = Boolean(one.unreadable) || one.kind !== "run";
    const left = (/** @type {import("./dom.js").Child[]} */ ...what) => el("td", { class: "left" }, ...what);
    const place = id("run");
    const head = el(
      "th",
      { scope: "row", class: "left name", id: place },
      link(named("/run/", one.name), one.name),
      el("small", {}, instant(one.started).replace(" UTC", ""), one.kind === "run" ? "" : ", " + one.kind),
      // Its own column is far to the right on a phone.
      el("small", { class: "at-phone word " + (one.standing || "") }, one.verdict || one.state),
    );
    const note = button(
      one.note || one.tags?.length
        ? [one.note, ...(one.tags ?? []).map((/** @type {string} */ tag) => "#" + tag)].filter(Boolean).join(" ")
        : "Add",
      () => open(one),
      { class: "note-button", "aria-describedby": place },
    );
    const cells = one.unreadable
      ? [head, el("td", { class: "left bad", colspan: COLUMNS.length - 1 }, "cannot be read: " + one.unreadable)]
      : [
          head,
          left(one.server, el("small", {}, one.workload)),
          ...(one.kind === "duel"
            ? [el("td", { class: "left", colspan: 4 }, one.answer || "–")]
            : [
                el("td", { title: one.rate_unit }, figure(one.rate)),
                el("td", {}, one.at ?? "–"),
                el("td", {}, ms(one.p99_ms)),
                left(one.limit ?? "–"),
              ]),
          el("td", { class: one.errors ? "bad" : "" }, number(one.errors ?? 0)),
          el("td", {}, brief(one.duration_s)),
          left(
            el("span", { class: "word " + (one.standing || "") }, one.verdict || one.state),
            one.verdict && one.state && one.state !== "complete" && el("small", {}, one.state),
          ),
        ];
    return el(
      "tr",
      { class: box.hasAttribute("checked") ? "chosen" : "" },
      el("td", { class: "left" }, box),
      ...cells,
      left(note),
    );
  }

  function drawChips() {
    const typed = search.value.trim();
    put(
      chips,
      ...FACETS.flatMap(([facet, title]) => {
        /** @type {Map<string, number>} */
        const counts = new Map(Object.entries(answer.facets?.[facet] ?? {}));
        if (!answer.facets)
          for (const one of rows)
            for (const value of valuesOf(one)[/** @type {"server"} */ (facet)])
              if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
        const isOn = (/** @type {string} */ value) => (" " + typed + " ").includes(" " + term(facet, value) + " ");
        const shown = [...counts]
          .filter(([value]) => counts.size > 1 || isOn(value))
          .sort((a, b) => b[1] - a[1])
          .slice(0, CHIPS);
        return shown.length
          ? [
              el(
                "span",
                { class: "facet" },
                el("span", { class: "note" }, title),
                ...shown.map(([value]) =>
                  button(
                    value,
                    () => {
                      const words = " " + search.value.trim() + " ";
                      const own = " " + term(facet, value) + " ";
                      search.value = (words.includes(own) ? words.replace(own, " ") : words + own.trim()).trim();
                      view
                        .attempt(() => load(0))
                        .then(() =>
                          /** @type {HTMLElement | undefined} */ (
                            [...chips.querySelectorAll("button")].find((one) => one.textContent === value)
                          )?.focus(),
                        );
                    },
                    { class: "chip", "aria-pressed": String(isOn(value)) },
                  ),
                ),
              ),
            ]
          : [];
      }),
    );
  }

  /** The notes of a run, beside the table. @param {any} one */
  async function open(one) {
    const from = /** @type {HTMLElement | null} */ (document.activeElement);
    const close = () => {
      drawer.hidden = true;
      from?.focus();
    };
    drawer.hidden = false;
    put(drawer, el("h2", {}, one.name), el("p", {}, "…"));
    try {
      const run = await view.get(named("/api/runs/", one.name));
      const notes = new Notes(view, one.name, run.notes, (saved) => {
        one.note = (saved.text ?? "").split("\n")[0];
        one.tags = saved.tags;
        draw();
      });
      put(
        drawer,
        el("h2", {}, link(named("/run/", one.name), one.name)),
        notes.element,
        el(
          "div",
          { class: "actions" },
          button("Close", close),
          button(
            "Move to trash",
            () =>
              view.attempt(async () => {
                await view.post(named("/api/runs/", one.name, "/trash"));
                mark(one.name, false);
                rows = rows.filter((other) => other !== one);
                Object.assign(answer, { matched: answer.matched - 1, total: answer.total - 1 });
                draw();
                const undo = button("Restore", () =>
                  view.attempt(async () => {
                    await view.post(named("/api/trash/", one.name, "/restore"));
                    drawer.hidden = true;
                    await load(0);
                    announce(one.name + " restored");
                  }),
                );
                put(
                  drawer,
                  el("p", {}, one.name + " is in the ", link("/trash", "trash"), "."),
                  el("div", { class: "actions" }, undo, button("Close", close)),
                );
                undo.focus();
                announce(one.name + " moved to the trash");
              }),
            { class: "danger" },
          ),
        ),
      );
      drawer.onkeydown = (event) => {
        if (event.key === "Escape") close();
      };
      notes.text.focus();
    } catch (error) {
      if (!view.signal.aborted) put(drawer, failed(error), button("Close", close));
    }
  }

  await load(0);
}
