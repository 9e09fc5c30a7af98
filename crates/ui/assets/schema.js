// From the specification's schema to the fields of a form, and from what stands in them to a sparse specification. A new key of the
// specification is a new field here, without a word of it in this file.

import { words } from "./format.js";

/**
 * @typedef {object} Field
 * @property {string} key With its tables: `load.duration`.
 * @property {string} label
 * @property {string} help
 * @property {"text" | "number" | "boolean" | "choice" | "list" | "map" | "json" | "part"} kind
 * @property {{ value: string, about: string }[]} choices
 * @property {string} standard What holds where nothing is said; empty: the help says it.
 * @property {boolean} numbers Whether a list's items are numbers.
 * @property {boolean} essential
 */
/** @typedef {{ title: string, about: string, fields: Field[] }} Group */
/** @typedef {Record<string, any>} Schema */

// Groups of the form by the specification's tables; a table that stands nowhere comes last.
const GROUPS = [
  {
    title: "Target",
    about: "what is benchmarked: URLs, or a server that webstone starts",
    tables: ["target", "server", "server_config"],
  },
  { title: "Workload", about: "what is requested", tables: ["workload"] },
  { title: "Load", about: "how much, how long, how often", tables: ["load"] },
  { title: "Search", about: "the limit to be found", tables: ["find"], commands: ["find"] },
  { title: "Matrix", about: "what the series varies", tables: ["series"], commands: ["servers", "scale", "spice"] },
  { title: "Clients", about: "connections, HTTP, TLS, checks", tables: ["client"] },
  { title: "Generator", about: "this program's own CPUs and hosts", tables: ["generator", "generators"] },
  { title: "Disclosure", about: "what no program can read", tables: ["name", "disclosure"] },
];
// What is asked first in a group, in this order; the rest is folded.
const ESSENTIAL = `target server.software server.profile server.cpus workload load.clients load.rate load.duration
  load.iterations client.connections client.http client.parallel find.slo find.over find.from find.to series.servers series.profiles
  series.connections series.interfaces series.cpus generator.cpus generator.workers name disclosure`.split(/\s+/);

/** What a schema refers to, with what stands beside the reference. @param {Schema} part @param {Schema} whole @returns {Schema} */
function resolved(part, whole) {
  const options = part.anyOf?.filter((/** @type {Schema} */ one) => one.type !== "null");
  if (options?.length === 1) {
    const { anyOf: _, ...beside } = part;
    return { ...resolved(options[0], whole), ...beside, nullable: true };
  }
  if (!part.$ref) return part;
  const { $ref, ...beside } = part;
  return { ...resolved(whole.$defs[$ref.split("/").pop()] ?? {}, whole), ...beside };
}

/** @param {Schema} part @returns {string} */
const kindOf = (part) =>
  (Array.isArray(part.type) ? part.type.find((/** @type {string} */ one) => one !== "null") : part.type) ?? "";

/** @param {unknown} value */
function standard(value) {
  if (value === null || value === undefined || value === "") return "";
  if (Array.isArray(value)) return value.every((one) => typeof one !== "object") ? value.join(", ") : "";
  return typeof value === "object" ? "" : typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}

/** @param {Schema} part @returns {{ value: string, about: string }[]} */
function choicesOf(part) {
  if (part.enum)
    return part.enum
      .filter((/** @type {unknown} */ one) => one !== null)
      .map((/** @type {unknown} */ one) => ({ value: String(one), about: "" }));
  const all = part.oneOf ?? [];
  return all.every((/** @type {Schema} */ one) => "const" in one || one.enum)
    ? all.flatMap((/** @type {Schema} */ one) =>
        one.enum ? choicesOf(one) : [{ value: String(one.const), about: one.description ?? "" }],
      )
    : [];
}

/** @param {string} key @param {Schema} raw @param {Schema} whole @param {unknown} given What holds where the table says nothing. @returns {Field[]} */
function fieldsOf(key, raw, whole, given) {
  const part = resolved(raw, whole);
  const fallback = given !== undefined ? given : part.default;
  const choices = choicesOf(part);
  const type = kindOf(part);
  /** @type {Field} */
  const field = {
    key,
    label: words(key.split(".").pop() ?? key),
    help: part.description ?? "",
    kind: "text",
    choices,
    standard: standard(fallback),
    numbers: false,
    essential: ESSENTIAL.includes(key),
  };
  if (choices.length) return [{ ...field, kind: "choice" }];
  if (type === "boolean") return [{ ...field, kind: "boolean" }];
  if (type === "integer" || type === "number") return [{ ...field, kind: "number" }];
  if (type === "string") return [field];
  if (type === "array") {
    const item = resolved(part.items ?? {}, whole);
    const of = kindOf(item);
    const ways = choicesOf(item);
    if (ways.length || of === "string" || of === "integer" || of === "number") {
      return [{ ...field, kind: "list", choices: ways, numbers: !ways.length && of !== "string" }];
    }
    return [{ ...field, kind: "json" }];
  }
  if (type === "object" && part.properties) {
    const below = Object.entries(part.properties).flatMap(([name, one]) =>
      fieldsOf(
        key + "." + name,
        one,
        whole,
        fallback && typeof fallback === "object" ? /** @type {any} */ (fallback)[name] : undefined,
      ),
    );
    // A table that may be absent says something by being there.
    return part.nullable && key.includes(".") ? [{ ...field, kind: "part" }, ...below] : below;
  }
  if (type === "object" && kindOf(resolved(part.additionalProperties || {}, whole)) === "string")
    return [{ ...field, kind: "map" }];
  return [{ ...field, kind: "json" }];
}

/** The form of a command. @param {Schema} schema @param {string} command @returns {Group[]} */
export function groups(schema, command) {
  const known = new Set(GROUPS.flatMap((group) => group.tables));
  const others = Object.keys(schema.properties).filter((name) => !known.has(name));
  const all = [...GROUPS, ...(others.length ? [{ title: "More", about: "", tables: others }] : [])];
  return all
    .filter((group) => !("commands" in group) || group.commands?.includes(command))
    .map((group) => ({
      title: group.title,
      about: group.about,
      fields: group.tables
        .filter((name) => schema.properties[name])
        .flatMap((name) => fieldsOf(name, schema.properties[name], schema, undefined))
        .sort((a, b) =>
          a.essential && b.essential
            ? ESSENTIAL.indexOf(a.key) - ESSENTIAL.indexOf(b.key)
            : Number(b.essential) - Number(a.essential),
        ),
    }));
}

/** @param {Record<string, any>} spec @param {string} key @returns {any} */
export const value = (spec, key) => key.split(".").reduce((part, name) => part?.[name], /** @type {any} */ (spec));

/** @param {Record<string, any>} spec @param {string} key @param {unknown} what */
export function set(spec, key, what) {
  const names = key.split(".");
  const last = /** @type {string} */ (names.pop());
  let part = spec;
  for (const name of names) part = part[name] ??= {};
  if (part[last] === undefined || typeof what !== "object" || Array.isArray(what)) part[last] = what;
}

/** A value as it stands in its control. @param {Field} field @param {any} given @returns {string} */
export function written(field, given) {
  if (given === undefined || given === null) return "";
  switch (field.kind) {
    case "boolean":
      return given ? "yes" : "no";
    case "part":
      return "yes";
    case "list":
      return (Array.isArray(given) ? given : [given]).join("\n");
    case "map":
      return Object.entries(given)
        .map(([name, text]) => `${name} = ${text}`)
        .join("\n");
    case "json":
      return JSON.stringify(given, null, 1);
    default:
      return Array.isArray(given) ? given.join(",") : String(given);
  }
}

/**
 * What a control says; undefined: nothing.
 * @param {Field} field @param {string} text @returns {unknown}
 * @throws {Error} If it cannot be read.
 */
export function read(field, text) {
  const trimmed = text.trim();
  if (!trimmed) return undefined;
  const numeric = (/** @type {string} */ one) => (Number.isFinite(Number(one)) ? Number(one) : one);
  const rows = () =>
    trimmed
      .split("\n")
      .map((one) => one.trim())
      .filter(Boolean);
  switch (field.kind) {
    case "boolean":
      return trimmed === "yes";
    case "part":
      return {};
    case "number":
      return numeric(trimmed);
    case "list":
      return rows().map((one) => (field.numbers ? numeric(one) : one));
    case "map":
      return Object.fromEntries(
        rows().map((one) => {
          const at = one.indexOf("=");
          if (at < 1) throw new Error(`\`${one}\` is not written as name = value`);
          return [one.slice(0, at).trim(), one.slice(at + 1).trim()];
        }),
      );
    case "json":
      try {
        return JSON.parse(trimmed);
      } catch (error) {
        throw new Error("this is not JSON: " + /** @type {Error} */ (error).message);
      }
    default:
      return field.kind === "text" ? text.replace(/\r/g, "") : trimmed;
  }
}

/** Every value of a specification by its key. @param {any} part @param {string} [key] @returns {[string, string][]} */
export function flat(part, key = "") {
  if (part !== null && typeof part === "object" && !Array.isArray(part) && (Object.keys(part).length || !key)) {
    return Object.entries(part).flatMap(([name, one]) => flat(one, key ? key + "." + name : name));
  }
  return [[key, typeof part === "string" ? part : JSON.stringify(part)]];
}
