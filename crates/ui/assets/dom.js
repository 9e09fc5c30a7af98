// Elements are made here and nowhere else: text becomes text nodes, attributes are set one by one, and no address leaves this
// origin. What comes from records is hostile; nothing of it is ever read as markup.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

// Control characters and those that turn the direction of text: shown by their number, so that a name cannot look like another.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** @param {unknown} text Text of somebody else. */
export function shown(text) {
  return String(text).replace(HIDDEN, (c) => "\\u{" + c.charCodeAt(0).toString(16) + "}");
}

/** @param {Element} element @param {Attributes} attributes @param {Child[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name.startsWith("on") || name === "style" || name === "srcdoc")
      throw new Error(name + " is no attribute here");
    else if (name === "value" && "value" in element) element.value = value;
    else if ((name === "href" || name === "src") && new URL(String(value), location.href).origin !== location.origin)
      continue;
    else element.setAttribute(name, value === true ? "" : shown(value));
  }
  put(element, ...children);
  return element;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag @param {Attributes} [attributes] @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  return /** @type {any} */ (fill(document.createElement(tag), attributes, children));
}

/** @param {string} tag @param {Attributes} [attributes] @param {...Child} children @returns {SVGElement} */
export function svg(tag, attributes = {}, ...children) {
  return /** @type {any} */ (fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children));
}

/** Replaces what is in an element. @param {Element} element @param {...Child} children */
export function put(element, ...children) {
  element.replaceChildren(
    ...children
      .filter((one) => one !== null && one !== undefined && one !== false)
      .map((one) => (one instanceof Node ? one : document.createTextNode(shown(one)))),
  );
}

/** Sets a text where it is another. @param {Element} element @param {string} text */
export function say(element, text) {
  const safe = shown(text);
  if (element.textContent !== safe) element.textContent = safe;
}

/** A link within the front. @param {string} href @param {...Child} children */
export function link(href, ...children) {
  return el("a", { href }, ...children);
}

/** @param {string} text @param {(event: Event) => void} does @param {Attributes} [attributes] */
export function button(text, does, attributes = {}) {
  return el("button", { type: "button", onclick: does, ...attributes }, text);
}

/** What has parts in `backticks`. @param {string} text @returns {Child[]} */
export function prose(text) {
  const parts = text.replace(/\[(`[^`]+`)\]/g, "$1").split("`");
  return parts.map((part, n) => (n % 2 ? el("code", {}, part) : part));
}

/**
 * A table that a keyboard can scroll.
 * @param {string} caption @param {(Child | { text: Child, class?: string, sort?: string | null })[]} heads @param {Child[]} rows Rows, as elements.
 * @param {Attributes} [attributes]
 */
export function table(caption, heads, rows, attributes = {}) {
  const head = (/** @type {any} */ one) => {
    const told = one !== null && typeof one === "object" && !(one instanceof Node) ? one : { text: one };
    return el("th", { scope: "col", class: told.class, "aria-sort": told.sort }, told.text);
  };
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      attributes,
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...heads.map(head))),
      el("tbody", {}, ...rows),
    ),
  );
}

/** A column's head that is read out and not shown. @param {string} text */
export const unseen = (text) => ({ text: el("span", { class: "hidden" }, text), class: "left" });

/** @param {Child[]} cells The first heads the row. @param {Attributes} [attributes] */
export function row(cells, attributes = {}) {
  const cell = (/** @type {Child} */ one, /** @type {number} */ n) => {
    if (one instanceof HTMLTableCellElement) return one;
    return n ? el("td", {}, one) : el("th", { scope: "row", class: "left" }, one);
  };
  return el("tr", attributes, ...cells.map(cell));
}

/** Tells those who cannot see. @param {string} text */
export function announce(text) {
  const said = document.getElementById("said");
  if (said) say(said, text);
}

/** Something that the reader has to know. @param {"valid" | "noisy" | "inconclusive" | "invalid" | ""} kind @param {string} title @param {...Child} more */
export function notice(kind, title, ...more) {
  return el("div", { class: "verdict " + kind }, el("p", { class: "standing" }, el("strong", {}, title)), ...more);
}

/** What failed, and what to do about it. @param {any} error */
export function failed(error) {
  const hint = error?.hint ? el("p", {}, ...prose(error.hint)) : null;
  return el("div", { role: "alert" }, notice("invalid", error?.message ?? String(error), hint));
}

let ids = 0;
/** An identifier that no other element has. @param {string} [what] */
export const id = (what = "id") => `${what}-${++ids}`;
