// A run is set up: presets and the form on the left, what it comes to on the right. The form and the text of the testbed file are two
// sights of the same thing; whichever was changed last holds.

import { announce, button, el, link, notice, prose, put } from "./dom.js";
import { named } from "./api.js";
import { Form } from "./form.js";
import { Start, copier, facts, saver, typed } from "./plan.js";
import { flat } from "./schema.js";

/** Time after the last key until what was typed is checked, in milliseconds. */
const PAUSE = 400;
const DRAFT = "webstone-draft";

/** What this run is made from: a stored one, a draft of this tab, or nothing. @param {import("./view.js").View} view */
async function origin(view) {
  const from = view.query.get("from");
  if (from) {
    const run = await view.get(named("/api/runs/", from));
    return { command: run.command ?? "run", toml: run.spec_toml ?? "", from };
  }
  try {
    const draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "");
    return { command: String(draft.command), toml: String(draft.toml), from: null };
  } catch {
    return { command: "", toml: "", from: null };
  }
}

/** @param {import("./view.js").View} view */
export async function newRun(view) {
  const change = view.query.get("change");
  view.head(
    view.query.get("from")
      ? change === "aa"
        ? "A/A of a run"
        : change
          ? "A run with one change"
          : "Repeat a run"
      : "New run",
    "What will run, how long, and whether it will count.",
  );
  const [about, status, begun] = await Promise.all([view.get("/api/form"), view.get("/api/status"), origin(view)]);
  const names = about.commands.map((/** @type {any} */ one) => one.name);
  const [first] = about.presets;
  const isFresh = !begun.command;
  if (isFresh) Object.assign(begun, { command: first.command, toml: first.toml });
  let command = names.includes(begun.command) ? begun.command : names[0];
  /** @type {any} */
  let last = null;
  /** @type {Record<string, any>} */
  let base = {};
  /** @type {"form" | "text"} */
  let edited = "form";
  let timer = 0;
  let asked = 0;

  const form = new Form(about, () => later("form"));
  const kind = el(
    "fieldset",
    { class: "kinds" },
    el("legend", {}, "What to do"),
    ...about.commands.map((/** @type {any} */ one) =>
      el(
        "label",
        {},
        el("input", { type: "radio", name: "command", value: one.name, onchange: () => choose(one.name) }),
        el("span", {}, el("strong", {}, one.title), el("span", { class: "note" }, one.about)),
      ),
    ),
  );
  const presets = el(
    "details",
    { class: "group presets", open: isFresh },
    el("summary", {}, el("h2", {}, "Presets"), el("span", { class: "note" }, "a testbed to begin with")),
    el(
      "ul",
      {},
      ...about.presets.map((/** @type {any} */ one) =>
        el(
          "li",
          {},
          button(one.title, () => view.attempt(() => take(one.command, one.toml)), { class: "preset" }),
          el("p", { class: "note" }, one.about),
        ),
      ),
    ),
  );
  const text = el("textarea", {
    name: "testbed",
    rows: 14,
    spellcheck: "false",
    "aria-label": "Testbed file",
    autocomplete: "off",
    oninput: () => later("text"),
  });
  const editor = el(
    "details",
    { class: "testbed" },
    el("summary", {}, "Testbed file (edit as TOML)"),
    text,
    el(
      "p",
      { class: "note" },
      "The form follows, and the other way round. ",
      copier(() => text.value, "the testbed file"),
      " ",
      saver(() => text.value),
    ),
  );
  const line = el("code");
  const needsFile = el("span", {});
  const busy = el("p", { class: "note", hidden: true }, "checking …");
  const plan = el("div", { class: "plan-facts" });
  const trouble = el("div");
  const changes = el("div");
  const start = new Start(
    view,
    () => {
      if (!last || last.problem || last.edited !== edited || timer) {
        view.attempt(async () => {
          await verify();
          if (last?.problem) show(true);
          else await start.start(false);
        });
        return null;
      }
      return { command, toml: last.toml };
    },
    (answer) => {
      if (answer?.problem) {
        last = { ...answer, edited };
        show(true);
      }
    },
  );
  start.allow(status);
  const aside = el(
    "section",
    { class: "plan", "aria-label": "Plan" },
    el("h2", {}, "Plan"),
    busy,
    trouble,
    changes,
    plan,
    start.element,
    el(
      "div",
      { class: "line" },
      el(
        "p",
        { class: "note" },
        "The same in a terminal",
        needsFile,
        ": ",
        copier(() => line.textContent ?? "", "the command line"),
      ),
      el("pre", { tabindex: 0 }, line),
    ),
    editor,
    ...status.advice.map((/** @type {string} */ one) => el("p", { class: "note" }, ...prose(one))),
  );
  put(view.body, el("div", { class: "columns" }, el("div", { class: "left" }, kind, presets, form.element), aside));

  /** @param {"form" | "text"} what */
  function later(what) {
    edited = what;
    busy.hidden = false;
    clearTimeout(timer);
    timer = setTimeout(() => view.attempt(verify), PAUSE);
  }

  /** Another command: the same values, other groups. @param {string} name */
  function choose(name) {
    const spec = form.spec() ?? last?.spec ?? {};
    command = name;
    form.build(command, spec);
    edited = "form";
    view.attempt(verify);
  }

  /** A testbed is put into form and text. @param {string} name @param {string} toml */
  async function take(name, toml) {
    command = name;
    text.value = toml;
    edited = "text";
    await verify();
    form.build(command, last?.spec ?? {});
    show(false);
    announce("form filled");
  }

  async function verify() {
    clearTimeout(timer);
    timer = 0;
    const of = edited;
    const spec = of === "form" ? form.spec() : null;
    if (of === "form" && !spec) {
      last = {
        ...(last ?? { rules: [], warnings: [], toml: text.value, spec: {} }),
        plan: null,
        edited: of,
        problem: { key: null, line: null, message: "a field cannot be read", hint: "see the message at the field" },
      };
      return show(false);
    }
    const mine = ++asked;
    const answer = await view.post("/api/check", of === "form" ? { command, spec } : { command, toml: text.value });
    if (mine !== asked) return;
    last = { ...answer, edited: of };
    if (of === "form") text.value = answer.toml;
    else if (!answer.problem || Object.keys(answer.spec ?? {}).length) form.fill(answer.spec);
    sessionStorage.setItem(DRAFT, JSON.stringify({ command, toml: text.value }));
    show(false);
  }

  /** @param {boolean} moves Whether the focus goes to what is wrong. */
  function show(moves) {
    busy.hidden = true;
    for (const input of kind.querySelectorAll("input")) input.checked = input.value === command;
    for (const key of form.entries.keys()) if (last.edited === "text") form.mark(key, null);
    const problem = last.problem;
    const key = problem && form.find(problem.key);
    if (key) form.mark(key, problem.message, problem.hint);
    const where = problem?.line ? ` (line ${problem.line} of the testbed file)` : "";
    put(
      trouble,
      problem &&
        el(
          "div",
          { role: moves ? "alert" : null },
          notice(
            "invalid",
            "Not ready",
            el("p", {}, ...prose(problem.message), where),
            problem.hint && el("p", { class: "note" }, ...prose(problem.hint)),
            key &&
              el(
                "p",
                {},
                button("Go to the field", () => form.focus(key), { class: "small" }),
              ),
          ),
        ),
    );
    put(plan, ...facts(last, status));
    put(line, typed(last.command_line ?? []));
    put(needsFile, last.command_line?.includes("-f") && ", with the testbed file below");
    put(changes, begun.from && differing());
    if (!moves || !problem) return;
    if (key) return form.focus(key);
    editor.open = true;
    text.focus();
    if (problem.line) {
      const before = text.value
        .split("\n")
        .slice(0, problem.line - 1)
        .join("\n").length;
      text.setSelectionRange(before, before + (text.value.split("\n")[problem.line - 1]?.length ?? 0) + 1);
    }
  }

  function differing() {
    const [before, after] = [new Map(flat(base)), new Map(flat(last.spec ?? {}))];
    const keys = [...new Set([...before.keys(), ...after.keys()])].filter(
      (key) => key && before.get(key) !== after.get(key),
    );
    return el(
      "div",
      { class: "changes" },
      el(
        "p",
        {},
        "Against ",
        link(named("/run/", begun.from ?? ""), begun.from),
        keys.length ? ":" : ": nothing is changed.",
      ),
      keys.length > 0 &&
        el(
          "ul",
          {},
          ...keys.map((one) =>
            el("li", {}, el("code", {}, one), ` ${before.get(one) ?? "(default)"} → ${after.get(one) ?? "(default)"}`),
          ),
        ),
      keys.length > 1 &&
        change === "one" &&
        el(
          "p",
          { class: "note" },
          "With more than one change, a comparison cannot say which of them made the difference.",
        ),
    );
  }

  await take(command, begun.toml);
  base = structuredClone(last?.spec ?? {});
  if (begun.from && change === "aa") {
    // Two arms take turns, so that there is an even number of timed runs, and four at least.
    const iterations = Math.max(4, 2 * Math.ceil(Number(base.load?.iterations ?? 1) / 2));
    form.fill({ ...base, load: { ...base.load, aa: true, iterations } });
    edited = "form";
    await verify();
  } else {
    show(false);
  }
}
