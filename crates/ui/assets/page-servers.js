// The matrix of a series: servers with their profiles, and what else is varied. It writes a testbed's [series] and starts
// `webstone servers`; everything else stays as the form of a new run has it.

import { el, id, link, notice, prose, put, table } from "./dom.js";
import { Start, copier, facts, saver, typed } from "./plan.js";

const PAUSE = 400;
const PROFILES = ["stock", "tuned"];

/** Values of an enumeration of the schema. @param {any} schema @param {string} name @returns {{ value: string, about: string }[]} */
function values(schema, name) {
  const of = schema.$defs?.[name] ?? {};
  return (
    of.enum?.map((/** @type {string} */ value) => ({ value, about: "" })) ??
    of.oneOf?.flatMap((/** @type {any} */ one) =>
      (one.enum ?? [one.const]).map((/** @type {string} */ value) => ({ value, about: one.description ?? "" })),
    ) ??
    []
  );
}

/** @param {import("./view.js").View} view */
export async function servers(view) {
  view.head("Servers", "A matrix of servers and settings: interleaved, compared, ranked in groups.");
  const [about, status] = await Promise.all([view.get("/api/form"), view.get("/api/status")]);
  /** @type {any} */
  let last = null;
  let timer = 0;
  let asked = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => view.attempt(verify), PAUSE);
  };
  const boxes = /** @type {Map<string, HTMLInputElement[]>} */ (new Map());

  /** @param {string} key @param {string} value @param {string} label @param {boolean} disabled @param {boolean} checked */
  function box(key, value, label, disabled = false, checked = false) {
    const one = el("input", { type: "checkbox", value, "aria-label": label, disabled, checked, onchange: later });
    boxes.set(key, [...(boxes.get(key) ?? []), one]);
    return one;
  }

  /** @param {string} key @param {string} title @param {{ value: string, about: string }[]} all @param {string} note */
  function axis(key, title, all, note) {
    return (
      all.length > 0 &&
      el(
        "fieldset",
        { class: "axis-of" },
        el("legend", {}, title),
        ...all.map((one) =>
          el(
            "label",
            { title: one.about },
            box(key, one.value, `${title}: ${one.value}`, false, one.value === "keep-alive"),
            one.value,
          ),
        ),
        el("p", { class: "note" }, note),
      )
    );
  }

  const profiles = (/** @type {any} */ one) => one.profile_names ?? (one.name === "reference" ? ["stock"] : PROFILES);
  const line = (/** @type {any} */ one) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "left" }, one.name),
      ...PROFILES.map((profile, n) =>
        el(
          "td",
          { class: "center" },
          profiles(one).includes(profile) &&
            box(
              "servers",
              n ? `${one.name}:${profile}` : one.name,
              `${one.name}, ${profile}`,
              !one.installed,
              one.installed && n === 0 && ["reference", "nginx"].includes(one.name),
            ),
        ),
      ),
      el(
        "td",
        { class: "note" },
        one.installed ??
          el("span", {}, "not installed", one.hint ? ": " : "", ...prose(one.hint ? "`" + one.hint + "`" : "")),
      ),
    );
  const counts = [];
  for (let n = 1; n <= status.cpus; n *= 2) counts.push({ value: String(n), about: "" });
  const input = (
    /** @type {string} */ key,
    /** @type {string} */ label,
    /** @type {string} */ placeholder,
    /** @type {any[]} */ known = [],
    value = "",
  ) => {
    const name = id("setting");
    const control = el("input", {
      id: name,
      name: key,
      value,
      placeholder,
      autocomplete: "off",
      spellcheck: "false",
      list: known.length ? name + "-l" : null,
      oninput: later,
    });
    settings.push(control);
    return el(
      "div",
      { class: "field" },
      el("label", { for: name }, label, " ", el("code", {}, key)),
      control,
      known.length > 0 &&
        el("datalist", { id: name + "-l" }, ...known.map((one) => el("option", { value: one.name }, one.about))),
    );
  };
  /** @type {HTMLInputElement[]} */
  const settings = [];
  const left = el(
    "div",
    { class: "left" },
    table(
      "Servers",
      [
        { text: "Server", class: "left" },
        ...PROFILES.map((text) => ({ text, class: "center" })),
        { text: "Installed", class: "left" },
      ],
      about.servers.map(line),
      { class: "matrix" },
    ),
    el(
      "div",
      { class: "axes" },
      axis("connections", "Connections", values(about.schema, "ConnectionPolicy"), "None chosen: per-request."),
      axis("interfaces", "Interfaces", values(about.schema, "Delivery"), "None chosen: files only."),
      axis("caching", "Caching", values(about.schema, "Caching"), "None chosen: as the profile says."),
      axis("cpus", "Server CPUs", counts, "None chosen: set at the start."),
    ),
    el(
      "div",
      { class: "fields" },
      input("workload", "Workload", "standard", about.workloads),
      input("load.clients", "Clients", "5,10,20,40"),
      input("load.duration", "Duration", "6s"),
      input("load.iterations", "Rounds", "1", [], "3"),
    ),
  );
  const line_code = el("code");
  const text = el("pre", { tabindex: 0 });
  const plan = el("div");
  const trouble = el("div");
  const start = new Start(
    view,
    () => {
      if (!last || timer) {
        view.attempt(async () => {
          await verify();
          if (last && !last.problem) await start.start(false);
        });
        return null;
      }
      return last.problem ? null : { command: "servers", toml: last.toml };
    },
    (answer) => {
      if (answer?.problem) {
        last = answer;
        show();
      }
    },
  );
  start.allow(status);
  const form = link("/new", "Open in the form");
  form.addEventListener("click", () =>
    sessionStorage.setItem("webstone-draft", JSON.stringify({ command: "servers", toml: last?.toml ?? "" })),
  );
  put(
    view.body,
    el(
      "div",
      { class: "columns" },
      left,
      el(
        "section",
        { class: "plan", "aria-label": "Plan" },
        el("h2", {}, "Plan"),
        trouble,
        plan,
        start.element,
        el("p", {}, form),
        el(
          "details",
          { class: "testbed" },
          el("summary", {}, "Testbed file"),
          text,
          copier(() => text.textContent ?? "", "the testbed file"),
          " ",
          saver(() => text.textContent ?? ""),
        ),
        el("pre", { tabindex: 0 }, line_code),
        el(
          "p",
          { class: "note" },
          about.calibration
            ? "This host's load generator can do, at best: " + about.calibration + "."
            : "What this host's load generator can do is not known yet: ",
          !about.calibration && el("code", {}, "webstone calibrate"),
          !about.calibration && " measures it.",
        ),
        ...status.advice.map((/** @type {string} */ one) => el("p", { class: "note" }, ...prose(one))),
      ),
    ),
  );

  function spec() {
    /** @type {Record<string, any>} */
    const series = {};
    for (const [key, all] of boxes) {
      const chosen = all.filter((one) => one.checked).map((one) => (key === "cpus" ? Number(one.value) : one.value));
      if (chosen.length) series[key] = chosen;
    }
    /** @type {Record<string, any>} */
    const whole = { series, load: {} };
    for (const { name, value } of settings) {
      const said = value.trim();
      if (!said) continue;
      const [table_name, key] = name.split(".");
      if (key) whole[table_name][key] = key === "iterations" && Number.isFinite(Number(said)) ? Number(said) : said;
      else whole[table_name] = said;
    }
    if (!Object.keys(whole.load).length) delete whole.load;
    return whole;
  }

  async function verify() {
    clearTimeout(timer);
    timer = 0;
    const mine = ++asked;
    const answer = await view.post("/api/check", { command: "servers", spec: spec() });
    if (mine !== asked) return;
    last = answer;
    show();
  }

  function show() {
    const { problem } = last;
    put(
      trouble,
      problem &&
        notice(
          "invalid",
          "Not ready",
          el("p", {}, ...prose(problem.message)),
          problem.hint && el("p", { class: "note" }, ...prose(problem.hint)),
        ),
    );
    put(plan, ...facts(last, status));
    put(text, last.toml);
    put(line_code, typed(last.command_line ?? []));
    start.button.disabled = Boolean(problem) || status.read_only;
  }

  await verify();
}
