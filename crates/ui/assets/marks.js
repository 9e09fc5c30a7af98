// Runs that are marked to be compared; they stay marked from page to page of this tab.

const KEY = "webstone-marks";

/** @type {Set<string>} */
const marked = new Set(
  (() => {
    try {
      return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    } catch {
      return [];
    }
  })(),
);

/** Their names, in the order in which they were marked. */
export const marks = () => [...marked];

/** @param {string} name @param {boolean} is */
export function mark(name, is) {
  if (is) marked.add(name);
  else marked.delete(name);
  sessionStorage.setItem(KEY, JSON.stringify([...marked]));
}

/** The address of their comparison; the first is the baseline. @param {string[]} names */
export const comparison = (names) => "/compare?" + names.map((name) => "run=" + encodeURIComponent(name)).join("&");
