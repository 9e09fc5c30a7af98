// The front: which page an address is, how one comes to another, and what all have in common.

import { announce, el, put, say } from "./dom.js";
import { connect, connected, get } from "./api.js";
import { listen } from "./keys.js";
import { View } from "./view.js";

// A page's script comes when it is opened.
/** @type {[RegExp, () => Promise<(view: View) => unknown>][]} */
const PAGES = [
  [/^\/(?:library)?$/, async () => (await import("./page-library.js")).library],
  [/^\/new$/, async () => (await import("./page-new.js")).newRun],
  [/^\/live$/, async () => (await import("./page-live.js")).live],
  [/^\/live\/([^/]+)$/, async () => (await import("./page-live.js")).liveRun],
  [/^\/run\/([^/]+)$/, async () => (await import("./page-run.js")).run],
  [/^\/compare$/, async () => (await import("./page-compare.js")).compare],
  [/^\/servers$/, async () => (await import("./page-servers.js")).servers],
  [/^\/history$/, async () => (await import("./page-history.js")).past],
  [/^\/trash$/, async () => (await import("./page-trash.js")).trash],
  [/^\/connect$/, async () => (await import("./page-connect.js")).connecting],
];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
/** @type {View | null} */
let view = null;
/** The address that is shown. */
let here = "";

/** @param {string} path @param {boolean} [replaces] */
function go(path, replaces = false) {
  const to = new URL(path, location.href);
  if (to.origin !== location.origin) return;
  history[replaces ? "replaceState" : "pushState"](null, "", to);
  show(true);
}

/** @param {View} now */
function missing(now) {
  now.head("Not found");
  put(now.body, el("p", {}, "There is no such page: ", el("code", {}, location.pathname)));
}

/** Shows the page of the address. @param {boolean} moves Whether the focus goes to its title. */
async function show(moves) {
  view?.over.abort();
  if (!connected() && location.pathname !== "/connect") {
    history.replaceState(null, "", "/connect?to=" + encodeURIComponent(location.pathname + location.search));
  }
  here = location.pathname + location.search;
  const found = PAGES.map(([pattern, page]) => ({ page, match: pattern.exec(location.pathname) })).find(
    (one) => one.match,
  );
  const decoded = (/** @type {string} */ part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  const now = new View((found?.match ?? []).slice(1).map(decoded), new URLSearchParams(location.search), go);
  view = now;
  put(main, now.title, now.sub, now.trouble, now.waits, now.body);
  for (const link of document.querySelectorAll("nav a")) {
    const href = link.getAttribute("href") ?? "";
    const isHere =
      location.pathname === href ||
      location.pathname.startsWith(href + "/") ||
      (href === "/library" && location.pathname === "/");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const shown = now.attempt(async () => {
    const draw = found ? await found.page() : missing;
    if (!now.signal.aborted) await draw(now);
  });
  if (moves) scrollTo(0, 0);
  await now.named;
  if (moves && view === now) now.title.focus();
  await shown;
  if (now.query.get("focus") === "search" && view === now) document.getElementById("search")?.focus();
}

/** Takes a token out of the address, where nobody looks over a shoulder. */
function tokenOfAddress() {
  if (!location.hash.startsWith("#token=")) return false;
  const taken = connect(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  return taken;
}

async function begin() {
  try {
    const status = await get("/api/status");
    say(
      /** @type {HTMLElement} */ (document.getElementById("host")),
      "on " + status.host + (status.read_only ? ", for looking only" : ""),
    );
    say(
      /** @type {HTMLElement} */ (document.getElementById("about")),
      `webstone ${status.version.replace(/^webstone /, "")}; runs in ${status.runs_dir}`,
    );
  } catch {
    /* the page says so itself */
  }
}

document.addEventListener("click", (event) => {
  const link = /** @type {HTMLElement} */ (event.target).closest?.("a");
  const isPlain =
    event.button === 0 &&
    !event.ctrlKey &&
    !event.metaKey &&
    !event.shiftKey &&
    !event.altKey &&
    !event.defaultPrevented;
  if (!link || !isPlain || link.target || link.origin !== location.origin || link.getAttribute("href")?.startsWith("#"))
    return;
  event.preventDefault();
  go(link.href);
});
// A step to a fragment of the same page, as the skip link makes, is none to another page.
addEventListener("popstate", () => {
  if (location.pathname + location.search !== here) show(true);
});
addEventListener("hashchange", () => {
  if (tokenOfAddress()) {
    begin();
    go("/", true);
  }
});
addEventListener("unconnected", () => {
  if (location.pathname === "/connect") return;
  announce("not connected");
  go("/connect?to=" + encodeURIComponent(location.pathname + location.search), true);
});
listen(() => view, go);
tokenOfAddress();
if (connected()) begin();
show(false);
