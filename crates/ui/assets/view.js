// What a page is shown in: its head, its requests, its end. Another page aborts everything that this one still waits for.

import { el, failed, put } from "./dom.js";
import { get, post } from "./api.js";

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
    return get(path, this.signal);
  }

  /** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
  post(path, body) {
    return post(path, body, this.signal);
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
