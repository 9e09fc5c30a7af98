// What a page is shown in: its head, its requests, its end. Another page aborts everything that this one still waits for.

import { el, failed, put } from "./dom.js";
import { get, post } from "./api.js";

/** Time after which a page says what it waits for, in milliseconds. */
const SILENCE = 500;
/** What a request is for, by the beginning of its path. @type {[string, string][]} */
const WAITED = [
  ["/api/library", "the list of runs"],
  ["/api/history", "the history"],
  ["/api/compare", "the comparison: both records are read"],
  ["/api/runs/", "the run: its record is read"],
  ["/api/runs", "the run to start"],
  ["/api/form", "the form"],
  ["/api/check", "the plan"],
  ["/api/trash", "the trash"],
  ["/api/live", "the runs that are on"],
];

/** A page on the screen. */
export class View {
  /**
   * @param {string[]} parameters What the address names. @param {URLSearchParams} query
   * @param {(path: string, replaces?: boolean) => void} go Opens another page.
   */
  constructor(parameters, query, go) {
    this.parameters = parameters;
    this.query = query;
    this.go = go;
    this.over = new AbortController();
    this.signal = this.over.signal;
    this.title = el("h1", { tabindex: -1 });
    this.sub = el("p", { class: "sub" });
    this.trouble = el("div");
    this.waits = el("p", { class: "note waits", role: "status", hidden: true });
    /** What is waited for. @type {string[]} */
    this.waited = [];
    this.body = el("div", { class: "page" });
    /** Once it has its name. @type {Promise<void>} */
    this.named = new Promise((done) => {
      this.isNamed = done;
    });
    /** Keys of this page besides those of all. @type {Record<string, () => void>} */
    this.keys = {};
  }

  /** Names the page. @param {string} title @param {...import("./dom.js").Child} sub */
  head(title, ...sub) {
    put(this.title, title);
    put(this.sub, ...sub);
    this.sub.hidden = !sub.some(Boolean);
    this.isNamed?.();
    document.title = this.title.textContent + " – webstone";
  }

  /** Does something that may fail, and says so above everything else. @param {() => unknown} work */
  async attempt(work) {
    try {
      await work();
      put(this.trouble);
    } catch (error) {
      this.isNamed?.();
      if (!this.signal.aborted && /** @type {Error} */ (error).name !== "AbortError") put(this.trouble, failed(error));
    }
  }

  /** @param {string} path @returns {Promise<any>} */
  get(path) {
    return this.wait(path, get(path, this.signal));
  }

  /** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  post(path, body) {
    return this.wait(path, post(path, body, this.signal));
  }

  /** Says what is waited for, if it takes long. @param {string} path @param {Promise<any>} answer */
  async wait(path, answer) {
    const what = WAITED.find(([start]) => path.startsWith(start))?.[1] ?? "the server";
    const show = () => {
      this.waits.hidden = !this.waited.length;
      put(this.waits, this.waited.length > 0 && `Waiting for ${this.waited[this.waited.length - 1]} …`);
    };
    const timer = setTimeout(() => {
      this.waited.push(what);
      show();
    }, SILENCE);
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
      const at = this.waited.indexOf(what);
      if (at >= 0) this.waited.splice(at, 1);
      show();
    }
  }
}

/** A report, in an origin of its own that can reach neither these pages nor the token; it is told which theme is chosen here. @param {string} url @param {string} title */
export function framed(url, title) {
  const tell = () => frame.contentWindow?.postMessage(document.documentElement.dataset.theme ?? "", "*");
  const frame = el("iframe", { class: "report", sandbox: "allow-scripts", src: url, title, onload: tell });
  const themed = () => {
    if (frame.isConnected) tell();
    else removeEventListener("themed", themed);
  };
  addEventListener("themed", themed);
  return frame;
}
