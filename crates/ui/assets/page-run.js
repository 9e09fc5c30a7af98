// A stored run: the verdict first, then its report, which is rendered anew and shown in an origin of its own.

import { announce, button, el, failed, link, notice, prose, put, table, row } from "./dom.js";
import { named } from "./api.js";
import { comparison, mark, marks } from "./marks.js";
import { Notes } from "./notes.js";
import { framed } from "./view.js";
import { copier } from "./plan.js";
import { figure, instant, ms, size, span } from "./format.js";

/** @param {import("./view.js").View} view */
export async function run(view) {
  const name = view.parameters[0];
  view.head(name);
  const status = view.get("/api/status");
  const stored = await view.get(named("/api/runs/", name));
  const { verdict, notes } = stored;
  const one = stored.row ?? { name };
  const isRun = (one.kind ?? "run") === "run";
  view.head(
    name,
    [one.workload, one.server && (isRun ? "on " + one.server : one.server)].filter(Boolean).join(isRun ? " " : ", "),
    one.started ? "; " + instant(one.started) : "",
    one.duration_s ? "; " + span(one.duration_s) : "",
  );
  const unreadable = one.unreadable ?? stored.unreadable;
  if (unreadable) {
    put(
      view.body,
      el(
        "div",
        { role: "alert" },
        notice(
          "invalid",
          "This record cannot be read",
          el("p", {}, ...prose(unreadable)),
          stored.hint && el("p", { class: "note" }, ...prose(stored.hint)),
        ),
      ),
      files(stored),
      remove(),
    );
    return;
  }
  const isSeries = one.kind === "series";
  const states = /** @type {Record<string, string>} */ ({
    partial: "The record is partial: levels may be missing.",
    interrupted: "The run was interrupted: levels may be missing.",
    running: "The run is still on.",
    failed: "The run failed: levels may be missing.",
  });
  const said = el(
    "section",
    { class: `verdict ${one.standing || verdict?.standing || ""}`, "aria-label": "Verdict" },
    el(
      "p",
      { class: "standing" },
      el("strong", {}, verdict?.word ?? (one.verdict || (isSeries ? "Series" : one.state))),
      " ",
      ...prose(verdict?.sentences?.[0] ?? ""),
    ),
    states[one.state] && el("p", {}, states[one.state]),
    stored.missing?.length > 0 && el("p", {}, `Not measured to their end: ${stored.missing.join(", ")}.`),
    (verdict?.sentences?.length ?? 0) > 1 &&
      el("ul", {}, ...verdict.sentences.slice(1).map((/** @type {string} */ text) => el("li", {}, ...prose(text)))),
    one.rate !== null &&
      one.rate !== undefined &&
      el(
        "p",
        {},
        one.rate_unit === "SLO kept at"
          ? `SLO kept at ${one.at}`
          : `Peak: ${figure(one.rate)} ${one.rate_unit ?? "requests/s"}` + (one.at ? ` at ${one.at}` : ""),
        one.p99_ms ? `, p99 ${ms(one.p99_ms)}` : "",
        ".",
      ),
  );
  const others = marks().filter((other) => other !== name);
  const marked = button(
    marks().includes(name) ? "Marked" : "Mark to compare",
    () => {
      mark(name, !marks().includes(name));
      marked.textContent = marks().includes(name) ? "Marked" : "Mark to compare";
      marked.setAttribute("aria-pressed", String(marks().includes(name)));
      announce(marks().includes(name) ? "marked" : "not marked any more");
    },
    { "aria-pressed": String(marks().includes(name)) },
  );
  const from = (/** @type {string} */ rest) => "/new?from=" + encodeURIComponent(name) + rest;
  const done = el("div", { "aria-live": "polite" });
  const does = el(
    "div",
    { class: "actions" },
    isRun &&
      (others.length
        ? link(comparison([...others, name]), "Compare with ", others.length === 1 ? others[0] : "the marked runs")
        : marked),
    ...(typeof stored.spec_toml === "string"
      ? [link(from(""), "Repeat"), link(from("&change=one"), "One change"), link(from("&change=aa"), "A/A")]
      : []),
    isRun && link("/history?name=" + encodeURIComponent(name), "History"),
    stored.missing?.length > 0 && again(),
    work("Verify", "verify", "Verified"),
    allowed("Archive", "archive", "Archived"),
    one.kind !== "duel" && allowed("Certify", "certify", "Certified"),
  );
  const rights = el("p", { class: "note" });
  status.then(
    (now) =>
      put(
        rights,
        !now.read_only &&
          !now.commands_allowed &&
          el(
            "span",
            {},
            "Archive and Certify write files: start the front with ",
            el("code", {}, "--allow-commands"),
            ", or in a terminal: ",
            el("code", {}, "webstone archive " + name),
          ),
      ),
    () => {},
  );
  const report = el(
    "section",
    { class: "framed", "aria-label": "Report" },
    el("p", { class: "note" }, "The report is being rendered …"),
  );
  const beside = new Notes(view, name, notes, () => {});
  put(
    view.body,
    said,
    does,
    rights,
    done,
    report,
    el("section", {}, el("h2", {}, "Notes and tags"), beside.element),
    el(
      "details",
      { class: "group" },
      el("summary", {}, el("h2", {}, "Testbed and files"), el("span", { class: "note" }, stored.directory)),
      stored.spec_toml &&
        el(
          "p",
          {},
          "What was asked for, as a testbed file: ",
          copier(() => stored.spec_toml, "the testbed file"),
        ),
      stored.spec_toml === "" && el("p", {}, "What was asked for are the defaults of a testbed file."),
      stored.spec_toml && el("pre", { tabindex: 0 }, stored.spec_toml),
      files(stored),
      remove(),
    ),
  );

  /** Makes what is missing of a series. */
  function again() {
    const pressed = button("Resume", async () => {
      pressed.disabled = true;
      try {
        const { id } = await view.post(named("/api/runs/", name, "/resume"));
        view.go(named("/live/", String(id)));
      } catch (error) {
        pressed.disabled = false;
        if (!view.signal.aborted) put(done, failed(error));
      }
    });
    status.then(
      (now) => {
        pressed.disabled = now.read_only;
      },
      () => {},
    );
    return pressed;
  }

  /** Something that the program does with the run. @param {string} title @param {string} what @param {string} past @param {import("./dom.js").Attributes} [attributes] */
  function work(title, what, past, attributes = {}) {
    const pressed = button(
      title,
      async () => {
        pressed.disabled = true;
        put(done, el("p", { class: "note" }, "…"));
        try {
          const got = await view.post(named("/api/runs/", name, "/" + what));
          const all = (got?.lines ?? []).map((/** @type {any} */ line) =>
            typeof line === "string" ? { ok: got.ok, text: line } : line,
          );
          put(
            done,
            notice(
              got?.ok === false ? "invalid" : "valid",
              got?.ok === false ? title + " failed" : past,
              got?.path && el("p", {}, el("code", {}, got.path), got.bytes ? ` (${size(got.bytes)})` : ""),
              all.length > 0 &&
                el(
                  "ul",
                  { class: "lines" },
                  ...all.map((/** @type {any} */ line) =>
                    el("li", { class: line.ok === false ? "bad" : "" }, line.text),
                  ),
                ),
            ),
          );
        } catch (error) {
          if (!view.signal.aborted) put(done, failed(error));
        } finally {
          pressed.disabled = false;
        }
      },
      attributes,
    );
    return pressed;
  }

  /** The same where the front was started with the right to. @param {string} title @param {string} what @param {string} past */
  function allowed(title, what, past) {
    const pressed = work(title, what, past);
    status.then(
      (now) => {
        if (now.commands_allowed && !now.read_only) return;
        pressed.disabled = true;
        pressed.title = now.read_only ? "this front is for looking only" : "needs webstone ui --allow-commands";
      },
      () => {},
    );
    return pressed;
  }

  function remove() {
    return el(
      "div",
      { class: "actions" },
      button(
        "Move to trash",
        () =>
          view.attempt(async () => {
            await view.post(named("/api/runs/", name, "/trash"));
            mark(name, false);
            announce(name + " moved to the trash");
            view.go("/trash");
          }),
        { class: "danger" },
      ),
    );
  }

  try {
    const { url } = await view.post(named("/api/runs/", name, "/page"));
    put(report, framed(url, "Report of " + name));
  } catch (error) {
    if (!view.signal.aborted) put(report, failed(error));
  }
}

/** @param {any} stored */
const files = (stored) =>
  stored.files?.length > 0 &&
  table(
    "Files",
    [{ text: "File", class: "left" }, "Size"],
    stored.files.map((/** @type {any} */ one) => row([one.name, size(one.bytes)])),
  );
