// What a filled form comes to, beside it: what will run, how long, on which CPUs, whether it will count; and the start.

import { announce, button, el, failed, link, notice, prose, put } from "./dom.js";
import { named } from "./api.js";
import { clock, counted, span } from "./format.js";

/** Copies a text, and says so. @param {() => string} text @param {string} what */
export const copier = (text, what) =>
  button(
    "Copy",
    async (event) => {
      const pressed = /** @type {HTMLButtonElement} */ (event.currentTarget);
      await navigator.clipboard.writeText(text());
      pressed.textContent = "Copied";
      announce(what + " copied");
    },
    { class: "small", "aria-label": "Copy " + what },
  );

/** Saves a testbed file. @param {() => string} text */
export const saver = (text) =>
  button(
    "Save",
    () => {
      const href = URL.createObjectURL(new Blob([text()], { type: "application/toml" }));
      const to = el("a", { href, download: "testbed.toml" });
      to.click();
      setTimeout(() => URL.revokeObjectURL(href), 1000);
    },
    { class: "small", "aria-label": "Save the testbed file" },
  );

/** A command line as it is typed in a shell. @param {string[]} words */
export const typed = (words) =>
  words.map((one) => (/^[\w@%+=:,./-]+$/.test(one) ? one : "'" + one.replace(/'/g, "'\\''") + "'")).join(" ");

/** The facts of a plan, and its rules. @param {any} checked What `/api/check` answered. @param {any} status */
export function facts(checked, status) {
  const { plan, rules, warnings } = checked;
  if (!plan) return [];
  const fact = (/** @type {string} */ name, /** @type {import("./dom.js").Child[]} */ ...what) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, ...what));
  const levels =
    plan.levels.length > 8 ? [...plan.levels.slice(0, 7), `… (${counted(plan.levels.length, "level")})`] : plan.levels;
  const unmet = rules.filter((/** @type {any} */ rule) => rule.standing !== "met");
  const list =
    rules.length > 0 &&
    el(
      "details",
      { class: "rules" },
      el(
        "summary",
        {},
        unmet.length
          ? `${rules.length - unmet.length} of ${rules.length} run rules met`
          : `all ${rules.length} run rules met, as far as they can be foreseen`,
      ),
      el(
        "ul",
        {},
        ...rules.map((/** @type {any} */ rule) =>
          el(
            "li",
            {},
            el(
              "strong",
              { class: rule.standing === "met" ? "good" : rule.standing === "not met" ? "bad" : "soft" },
              rule.standing,
            ),
            " ",
            ...prose(rule.name),
            rule.why ? ": " : "",
            ...prose(rule.why ?? ""),
          ),
        ),
      ),
    );
  return [
    el("p", { class: "sentence" }, plan.sentence),
    el(
      "dl",
      { class: "facts" },
      levels.length > 0 && fact("Levels", levels.join(", ")),
      fact(
        "Time",
        plan.seconds === null
          ? "depends on the answers"
          : `${span(plan.seconds)}, until about ${clock(new Date(Date.now() + plan.seconds * 1000))}`,
      ),
      fact("Server CPUs", plan.server_cpus || "chosen at the start"),
      fact(
        "Generator CPUs",
        plan.generator_cpus || `chosen at the start${status ? ` (this host has ${status.cpus})` : ""}`,
      ),
    ),
    list,
    warnings.length > 0 &&
      el("ul", { class: "warnings" }, ...warnings.map((/** @type {string} */ text) => el("li", {}, ...prose(text)))),
  ];
}

/** Starts what was checked, or says why not. */
export class Start {
  /** @param {import("./view.js").View} view @param {() => { command: string, toml: string } | null} what @param {(answer: any) => void} refused A problem of the testbed. */
  constructor(view, what, refused) {
    this.view = view;
    this.what = what;
    this.refused = refused;
    this.button = button("Start", () => this.start(false), { class: "primary" });
    this.told = el("div");
    this.element = el("div", { class: "start" }, this.button, this.told);
  }

  /** @param {any} status */
  allow(status) {
    if (!status.read_only) return;
    this.button.disabled = true;
    put(
      this.told,
      el("p", { class: "note" }, "This front is for looking only; `webstone ui` without --read-only can start runs."),
    );
  }

  /** @param {boolean} queue */
  async start(queue) {
    const what = this.what();
    if (!what) return;
    this.button.disabled = true;
    put(this.told);
    try {
      const begun = await this.view.post("/api/runs", { ...what, queue });
      if (begun.id && !begun.queued) return this.view.go(named("/live/", String(begun.id)));
      put(
        this.told,
        notice(
          "valid",
          "Queued",
          el("p", {}, "It starts when the run that is on has ended. ", link("/live", "What is on")),
        ),
      );
      announce("queued");
    } catch (/** @type {any} */ error) {
      if (this.view.signal.aborted) return;
      if (error.status === 422) {
        this.refused(error.body);
      } else if (error.status === 409) {
        put(
          this.told,
          el(
            "div",
            { role: "alert" },
            notice(
              "noisy",
              "Another run is on",
              el("p", {}, ...prose(error.message + ".")),
              el(
                "p",
                { class: "actions" },
                button("Start when it has ended", () => this.start(true)),
                link("/live", "Show it"),
              ),
            ),
          ),
        );
      } else {
        put(this.told, failed(error));
      }
    } finally {
      this.button.disabled = false;
    }
  }
}
