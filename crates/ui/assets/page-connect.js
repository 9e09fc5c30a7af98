// The page of those who have no token: the address that `webstone ui` printed carries it.

import { button, el, failed, put } from "./dom.js";
import { connect } from "./api.js";

/** @param {import("./view.js").View} view */
export function connecting(view) {
  view.head("Connect", "Open the address that `webstone ui` printed in its terminal.".replace(/`/g, ""));
  const trouble = el("div");
  const field = el("input", {
    type: "text",
    name: "token",
    id: "token",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "http://127.0.0.1:PORT/#token=…",
    "aria-describedby": "token-note",
    onkeydown: (event) => {
      if (event.key === "Enter") open();
    },
  });
  const open = () => {
    if (connect(field.value))
      return view.go(view.query.get("to")?.startsWith("/") ? /** @type {string} */ (view.query.get("to")) : "/", true);
    field.setAttribute("aria-invalid", "true");
    put(
      trouble,
      failed({
        message: "this is no token of 64 hexadecimal digits",
        hint: "copy the whole line that `webstone ui` printed",
      }),
    );
    field.focus();
  };
  put(
    view.body,
    el(
      "div",
      { class: "field connect" },
      el("label", { for: "token" }, "Or paste it here"),
      field,
      el(
        "p",
        { class: "note", id: "token-note" },
        "Whoever has this address can start programs on this host: keep it to yourself. It is good until webstone ui ends.",
      ),
      trouble,
      el("div", { class: "actions" }, button("Connect", open, { class: "primary" })),
    ),
  );
}
