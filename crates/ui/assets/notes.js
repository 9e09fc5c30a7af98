// Notes and tags of a run. They stand beside the record, which stays as it was signed.

import { announce, button, el, failed, id, put, say } from "./dom.js";
import { named } from "./api.js";
import { clock } from "./format.js";

/** A small form for them. */
export class Notes {
  /** @param {import("./view.js").View} view @param {string} name @param {any} notes @param {(notes: any) => void} saved */
  constructor(view, name, notes, saved) {
    const [text, tags] = [id("notes"), id("tags")];
    this.text = el("textarea", { id: text, name: "notes", rows: 4, value: notes?.text ?? "" });
    this.tags = el("input", {
      id: tags,
      name: "tags",
      type: "text",
      value: (notes?.tags ?? []).join(" "),
      autocomplete: "off",
    });
    const told = el("span", { class: "note" });
    const trouble = el("div");
    const save = button("Save", async () => {
      put(trouble);
      try {
        const now = await view.post(named("/api/runs/", name, "/notes"), {
          text: this.text.value,
          tags: this.tags.value.split(/[\s,]+/).filter(Boolean),
        });
        say(told, "Saved " + clock(new Date()));
        announce("notes saved");
        saved(now ?? {});
      } catch (error) {
        if (!view.signal.aborted) put(trouble, failed(error));
      }
    });
    this.element = el(
      "div",
      { class: "notes" },
      el("label", { for: text }, "Notes"),
      this.text,
      el("label", { for: tags }, "Tags ", el("span", { class: "note" }, "separated by spaces")),
      this.tags,
      el("div", { class: "actions" }, save, told),
      trouble,
    );
  }
}
