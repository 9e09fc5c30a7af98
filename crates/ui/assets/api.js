// The front's own interface. Each request carries the token; it came in the fragment of the address, which no server sees, and
// stays in this tab. There is no cookie: servers under test are other ports of this host and would be sent it too.

const KEY = "webstone-token";

/** An answer that is no success, or none. */
export class ApiError extends Error {
  /** @param {string} message @param {number} status @param {string | null} hint @param {any} body */
  constructor(message, status, hint = null, body = null) {
    super(message);
    Object.assign(this, { status, hint, body });
    /** @type {number} 0: there was no answer. */
    this.status = status;
    this.hint = hint;
    this.body = body;
  }
}

/** Whether a token is known. */
export const connected = () => sessionStorage.getItem(KEY) !== null;

/** Takes the token of an address as `webstone ui` prints it, or the token alone. @param {string} text */
export function connect(text) {
  const found = /(?:^|token=)([0-9a-f]{64})$/i.exec(text.trim());
  if (found) sessionStorage.setItem(KEY, found[1].toLowerCase());
  return found !== null;
}

/** @param {string} path @param {RequestInit} options @returns {Promise<Response>} */
async function ask(path, options) {
  const headers = { Authorization: "Bearer " + sessionStorage.getItem(KEY), ...options.headers };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(
      "webstone ui does not answer",
      0,
      "see in its terminal whether it still runs; start it again if not",
    );
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  if (answer.status === 401) dispatchEvent(new CustomEvent("unconnected"));
  const message = body?.error ?? body?.problem?.message ?? `the front answered ${answer.status}`;
  throw new ApiError(message, answer.status, body?.hint ?? body?.problem?.hint ?? null, body);
}

/** @param {Response} answer */
const parsed = async (answer) => (answer.status === 204 ? null : answer.json());

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export const get = async (path, signal) => parsed(await ask(path, { signal }));

/** @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export const post = async (path, body = {}, signal) =>
  parsed(
    await ask(path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
      signal,
    }),
  );

/** The lines of a stream, each a JSON object, as they come. @param {string} path @param {AbortSignal} signal */
export async function* lines(path, signal) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ ((await ask(path, { signal })).body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

/** The address of something that has a name. @param {string} before @param {string} name @param {string} [after] */
export const named = (before, name, after = "") => before + encodeURIComponent(name) + after;
