/**
 * What changes on the server while the page is open, from wherever: this page, another tab, another client.
 *
 * Tabs of one browser tell each other. What other clients do is seen by asking every few seconds, only while somebody
 * looks, and only if nothing has told in the meantime. In the background only what waits for a person is asked for, and
 * seldom, for the mark in the title.
 *
 * It tells as events: `sessions` (detail: a page of the list), `approvals` (detail: what waits), `changed` (detail:
 * {session, run, deleted}, what a tab did; either id may be empty), `look` (whoever shows anything else may look now).
 */

const EVERY = 4000; // ms between two looks
const SOON = 120; // ms in which several reasons to look become one
const SELDOM = 30_000; // ms, in the background
const PAGE = 30;
const CHANNEL = "turnbuckle";

export class Watch extends EventTarget {
  #timer = 0;
  #looking = false;
  #again = false;
  #channel = null;

  /** @param {import("./api.js").Api} api */
  constructor(api) {
    super();
    this.api = api;
    this.approvals = [];
    this.missing = [];
    this.sessions = { data: [], has_more: false, next: null };
  }

  start() {
    this.api.addEventListener("changed", ({ detail }) => this.#changedHere(detail));
    this.api.addEventListener("noticed", ({ detail }) => this.#tell({ session: "", run: detail.run, noticed: true }));
    this.api.addEventListener("back", () => this.soon());
    document.addEventListener("visibilitychange", () => this.#wait(document.hidden ? SELDOM : SOON));
    window.addEventListener("pageshow", (event) => event.persisted && this.soon());
    if ("BroadcastChannel" in window) {
      this.#channel = new BroadcastChannel(CHANNEL);
      this.#channel.addEventListener("message", ({ data }) => this.#heard(data));
    }
    return this.look();
  }

  /** Look at once, or as soon as the look that is under way is over. */
  async look() {
    if (this.#looking) {
      this.#again = true;
      return;
    }
    this.#looking = true;
    clearTimeout(this.#timer);
    try {
      await this.#ask();
    } finally {
      this.#looking = false;
      const soon = this.#again;
      this.#again = false;
      this.#wait(soon ? SOON : document.hidden ? SELDOM : EVERY);
    }
  }

  soon() {
    this.#wait(SOON);
  }

  /** What was seen with another key is nobody's business now. */
  clear() {
    this.approvals = [];
    this.missing = [];
    this.sessions = { data: [], has_more: false, next: null };
    this.#emit("approvals", this.approvals);
  }

  #wait(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.look(), ms);
  }

  async #ask() {
    if (this.api.isLost || this.api.locked) return;
    try {
      if (!document.hidden) {
        this.sessions = await this.api.ask("GET", `/v1/sessions?limit=${PAGE}`);
        this.#emit("sessions", this.sessions);
      }
      const missing = new Set();
      this.approvals = await this.api.every("/v1/approvals", missing);
      this.missing = [...missing].sort();
      this.#emit("approvals", this.approvals);
      if (!document.hidden) this.#emit("look");
    } catch (problem) {
      if (!(problem.name === "ApiProblem")) throw problem; // the banner or the login say what is wrong
    }
  }

  #changedHere({ method, path }) {
    const [, kind, name, rest] = /^\/v1\/(sessions|runs)(?:\/([^/?]+))?(.*)/.exec(path) ?? [];
    const id = name ? decodeURIComponent(name) : "";
    const deleted = method === "DELETE" && !rest;
    this.#tell({ session: kind === "sessions" ? id : "", run: kind === "runs" ? id : "", deleted });
  }

  #tell(change) {
    this.#channel?.postMessage(change);
    this.#heard(change);
  }

  #heard(change) {
    if (typeof change !== "object" || change === null) return;
    this.#emit("changed", change);
    this.soon();
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
