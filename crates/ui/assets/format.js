// Numbers, times and words as the reports have them.

/** `40,894`. @param {number} value @param {number} [decimals] */
export function number(value, decimals = 0) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** Three significant digits and no more decimals than they need: `0.873`, `12.6`, `40,894`. @param {number | null | undefined} value */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  return number(value, size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

/** Three significant digits as the terminal writes them: `0.50`, `12.6`, `40,894`. @param {number} value */
export const short = (value) => (value === 0 ? "0" : number(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0));

/** Milliseconds with their unit, as the terminal writes them. @param {number | null | undefined} value */
export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000
    ? short(value / 1000) + " s"
    : value > 0 && value < 1
      ? short(value * 1000) + " µs"
      : short(value) + " ms";
}

/** `+3.2 %`. @param {number} value */
export const percent = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(1) + " %";

/** A span of time, rounded as one would say it. @param {number} seconds */
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min" + (s < 600 && s % 60 ? ` ${s % 60} s` : "");
  const minutes = Math.round(s / 60);
  return Math.floor(minutes / 60) + " h" + (minutes % 60 ? ` ${minutes % 60} min` : "");
}

/** A span in one unit, for columns. @param {number | null | undefined} seconds */
export const brief = (seconds) =>
  seconds === null || seconds === undefined
    ? "–"
    : seconds < 60
      ? Math.round(seconds) + " s"
      : seconds < 3600
        ? (seconds / 60).toFixed(1) + " min"
        : (seconds / 3600).toFixed(1) + " h";

/** @param {number} bytes */
export function size(bytes) {
  for (const [unit, of] of /** @type {[string, number][]} */ ([
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ])) {
    if (bytes >= of) return `${(bytes / of).toFixed(1)} ${unit}`;
  }
  return bytes + " bytes";
}

/** An instant as reports write it, in UTC. @param {string | null | undefined} text RFC 3339. */
export function instant(text) {
  const at = text ? new Date(text) : null;
  if (!at || Number.isNaN(+at)) return text ?? "";
  return at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

/** The time of day where the reader is. @param {Date} at */
export const clock = (at) => at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** `1 level`, `4 levels`. @param {number} count @param {string} one */
export const counted = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

/** A key's name in words. @param {string} name */
export function words(name) {
  const said = name
    .replace(/_/g, " ")
    .replace(/\b(tls|cpu|http2?|slo|sni|alpn)(s?)\b/g, (_, word, s) => word.toUpperCase() + s);
  return said[0].toUpperCase() + said.slice(1);
}
