// The form that is made of the specification's schema: its controls, what stands in them, and errors at their fields.

import { el, id, prose, put } from "./dom.js";
import { groups, read, set, value, written } from "./schema.js";

/** @typedef {import("./schema.js").Field} Field */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control */

/** A form over a specification. */
export class Form {
  /** @param {any} about What `/api/form` answered. @param {() => void} changed Called when something was typed or chosen. */
  constructor(about, changed) {
    this.about = about;
    this.changed = changed;
    this.element = el("div", { class: "form" });
    /** @type {Map<string, { field: Field, control: Control, error: HTMLElement }>} */
    this.entries = new Map();
    /** What the form has no control for is kept as it came. @type {Record<string, any>} */
    this.kept = {};
  }

  /** Builds the form of a command, with what stands in it now. @param {string} command @param {Record<string, any>} spec */
  build(command, spec) {
    const opened = new Set(
      [...this.element.querySelectorAll("details[open]")].map((one) => one.getAttribute("data-group")),
    );
    const first = !this.entries.size;
    this.entries.clear();
    const built = groups(this.about.schema, command);
    put(
      this.element,
      ...built.map((group) => {
        const controls = group.fields.map((field) => ({ field, element: this.control(field) }));
        const some = controls.filter((one) => one.field.essential).map((one) => one.element);
        const rest = controls.filter((one) => !one.field.essential).map((one) => one.element);
        const more =
          rest.length > 0 &&
          el(
            "details",
            { class: "more", "data-group": group.title + " more", open: opened.has(group.title + " more") },
            el(
              "summary",
              {},
              `${some.length ? "More: " : ""}${rest.length} ${rest.length === 1 ? "setting" : "settings"}`,
            ),
            el("div", { class: "fields" }, ...rest),
          );
        const open = first
          ? ["Target", "Workload", "Load", "Search", "Matrix"].includes(group.title)
          : opened.has(group.title);
        return el(
          "details",
          {
            class: "group",
            "data-group": group.title,
            open: open || (!first && ["Search", "Matrix"].includes(group.title)),
          },
          el("summary", {}, el("h2", {}, group.title), el("span", { class: "note" }, group.about)),
          el("div", { class: "fields" }, ...some),
          more,
        );
      }),
    );
    this.fill(spec);
  }

  /** @param {Field} field */
  control(field) {
    const name = id("field");
    const error = el("p", { class: "wrong", id: name + "-e", hidden: true });
    const common = {
      id: name,
      "aria-describedby": `${name}-h ${name}-e`,
      name: field.key,
      oninput: () => this.changed(),
      autocomplete: "off",
      spellcheck: "false",
    };
    const none = field.standard ? `default: ${field.standard}` : "default";
    /** @type {Control} */
    let control;
    let lists = null;
    if (field.kind === "choice" || field.kind === "boolean" || field.kind === "part") {
      const ways =
        field.kind === "choice"
          ? field.choices.map((one) => one.value)
          : field.kind === "part"
            ? ["yes"]
            : ["yes", "no"];
      control = el(
        "select",
        common,
        el("option", { value: "" }, field.kind === "part" ? "default: no" : none),
        ...ways.map((way) => el("option", { value: way }, this.installed(field, way))),
      );
    } else if (["list", "map", "json"].includes(field.kind)) {
      control = el("textarea", { ...common, rows: 2, placeholder: field.standard.replace(/, /g, "\n") });
    } else {
      const known = field.key.endsWith("workload") ? this.about.workloads : null;
      if (known)
        lists = el(
          "datalist",
          { id: name + "-l" },
          ...known.map((/** @type {any} */ one) => el("option", { value: one.name }, one.about)),
        );
      control = el("input", {
        ...common,
        type: "text",
        inputmode: field.kind === "number" ? "decimal" : null,
        placeholder: field.standard,
        list: known ? name + "-l" : null,
      });
    }
    this.entries.set(field.key, { field, control, error });
    return el(
      "div",
      { class: "field" },
      el("label", { for: name }, field.label, " ", el("code", {}, field.key)),
      control,
      lists,
      error,
      el("div", { class: "note", id: name + "-h" }, ...this.help(field)),
    );
  }

  /** @param {Field} field @param {string} way */
  installed(field, way) {
    const server =
      field.key === "server.software" && this.about.servers.find((/** @type {any} */ one) => one.name === way);
    return server && !server.installed ? way + " (not installed)" : way;
  }

  /** @param {Field} field */
  help(field) {
    const form = { list: "One per line.", map: "One name = value per line.", json: "As JSON." }[
      /** @type {string} */ (field.kind)
    ];
    const ways = field.choices.some((one) => one.about);
    const short =
      field.choices.length && field.kind === "list" && !ways
        ? "`" + field.choices.map((one) => one.value).join("`, `") + "`."
        : "";
    return [
      el("p", {}, ...prose([field.help, form, short].filter(Boolean).join(" "))),
      ways &&
        el(
          "details",
          { class: "ways" },
          el("summary", {}, "Values"),
          el(
            "dl",
            {},
            ...field.choices.flatMap((one) => [
              el("dt", {}, el("code", {}, one.value)),
              el("dd", {}, ...prose(one.about)),
            ]),
          ),
        ),
    ];
  }

  /** Shows a specification. @param {Record<string, any>} spec */
  fill(spec) {
    this.kept = structuredClone(spec);
    for (const { field, control } of this.entries.values()) {
      const text = written(field, value(spec, field.key));
      const unknown =
        control instanceof HTMLSelectElement && text && ![...control.options].some((one) => one.value === text);
      if (unknown) control.append(el("option", { value: text }, text));
      if (control.value !== text) control.value = text;
      if (control instanceof HTMLTextAreaElement) control.rows = Math.min(12, Math.max(2, text.split("\n").length));
      if (text)
        for (
          let fold = control.closest("details");
          fold && !field.essential;
          fold = fold.parentElement?.closest("details") ?? null
        )
          fold.open = true;
    }
  }

  /** What was said and nothing else; null where a control cannot be read, which is then told at its place. */
  spec() {
    /** @type {Record<string, any>} */
    const spec = {};
    // Tables of other commands stay as they came.
    for (const [name, part] of Object.entries(this.kept)) {
      if (![...this.entries.keys()].some((key) => key === name || key.startsWith(name + "."))) spec[name] = part;
    }
    let wrong = false;
    for (const [key, { field, control }] of this.entries) {
      try {
        const said = read(field, control.value);
        if (said !== undefined) set(spec, key, said);
        this.mark(key, null);
      } catch (error) {
        wrong = true;
        this.mark(key, /** @type {Error} */ (error).message);
      }
    }
    return wrong ? null : spec;
  }

  /** Tells an error at its field. @param {string} key @param {string | null} message @param {string | null} [hint] */
  mark(key, message, hint = null) {
    const entry = this.entries.get(key);
    if (!entry) return false;
    entry.error.hidden = !message;
    if (message) entry.control.setAttribute("aria-invalid", "true");
    else entry.control.removeAttribute("aria-invalid");
    put(entry.error, ...prose(message ?? ""), hint && el("span", {}, " ", ...prose(hint)));
    return true;
  }

  /** The control of a key, or of a table's first key. @param {string | null} key */
  find(key) {
    if (!key) return null;
    const all = [...this.entries.keys()];
    const name =
      all.find((one) => one === key) ??
      all.find((one) => one.startsWith(key + ".")) ??
      all.find((one) => key.startsWith(one + "."));
    return name ?? null;
  }

  /** Moves the focus there. @param {string} key */
  focus(key) {
    const control = this.entries.get(key)?.control;
    for (let fold = control?.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null)
      fold.open = true;
    control?.focus();
    control?.scrollIntoView({ block: "center" });
  }
}
