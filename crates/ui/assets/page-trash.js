// Runs that were taken out of the library. They stay on disk until somebody removes them there.

import { announce, button, el, put, row, table, unseen } from "./dom.js";
import { named } from "./api.js";
import { instant } from "./format.js";

/** @param {import("./view.js").View} view */
export async function trash(view) {
  view.head("Trash", "Removed from the library, still on disk.");
  let { rows } = await view.get("/api/trash");
  const draw = () =>
    put(
      view.body,
      rows.length
        ? table(
            "Removed runs",
            [{ text: "Run", class: "left" }, { text: "Removed", class: "left" }, unseen("Restore")],
            rows.map((/** @type {any} */ one) =>
              row([
                one.name,
                el("td", { class: "left" }, instant(one.removed) || "–"),
                button(
                  "Restore",
                  () =>
                    view.attempt(async () => {
                      await view.post(named("/api/trash/", one.name, "/restore"));
                      rows = rows.filter((/** @type {any} */ other) => other !== one);
                      draw();
                      view.title.focus();
                      announce(one.name + " restored");
                    }),
                  { class: "small", "aria-label": "Restore " + one.name },
                ),
              ]),
            ),
            { class: "rows" },
          )
        : el("p", { class: "empty" }, "The trash is empty."),
    );
  draw();
}
