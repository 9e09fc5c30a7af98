// Keys. None of them does anything while something is typed, nor with Ctrl, Alt or Meta.

import { button, el } from "./dom.js";

const HELP = [
  ["?", "this list"],
  ["n", "new run"],
  ["l", "library"],
  ["/", "search the library"],
  ["j", "next row"],
  ["k", "row before"],
  ["Enter", "open the row"],
  ["x", "mark the row"],
  ["c", "compare what is marked"],
  ["Esc", "close"],
];

const dialog = el(
  "dialog",
  { id: "help", "aria-labelledby": "help-title" },
  el("h2", { id: "help-title" }, "Keys"),
  el("dl", {}, ...HELP.map(([key, what]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)))),
  button("Close", () => dialog.close()),
);

export function help() {
  if (!dialog.isConnected) document.body.append(dialog);
  if (!dialog.open) dialog.showModal();
}

/** Moves the focus to the next row that has a link. @param {number} by */
function walk(by) {
  const rows = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll("table.rows tbody tr th a")]);
  const at = rows.findIndex((one) => one.closest("tr") === document.activeElement?.closest("tr"));
  rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
}

/** @param {() => import("./view.js").View | null} view @param {(path: string) => void} go */
export function listen(view, go) {
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const types =
      target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox], [type=radio])");
    if (types || event.ctrlKey || event.altKey || event.metaKey || dialog.open) return;
    const search = () => {
      const field = document.getElementById("search");
      if (field) field.focus();
      else go("/library?focus=search");
    };
    /** @type {Record<string, (() => void) | undefined>} */
    const keys = {
      "?": help,
      n: () => go("/new"),
      l: () => go("/library"),
      "/": search,
      j: () => walk(1),
      k: () => walk(-1),
      ...view()?.keys,
    };
    const does = keys[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });
  document.getElementById("keys-button")?.addEventListener("click", help);
}
