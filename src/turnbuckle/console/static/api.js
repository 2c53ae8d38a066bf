/**
 * Everything the console says to the server goes through here.
 *
 * `ask` is one question and one answer. `follow` reads the events of a run and comes back by itself whenever it is cut
 * off, behind the last event that it has. Both notice when the server cannot be reached and when it can again, and
 * both notice when a key is needed. The key goes into a header and never into an address.
 *
 * It tells as events: `lost` and `back` (the connection), `login` (a key is needed; detail: the server's sentence),
 * `changed` (this page changed something; detail: {method, path}), `noticed` (a run that is followed reached a point
 * that others care about; detail: {run, name}).
 */

import { EventSplitter } from "./event_stream.js";
import { ServerClock } from "./server_clock.js";

const PATIENCE = 60_000; // ms for one answer; a stop, the slowest of them, is answered within five seconds
const FIRST_WAIT = 500; // ms before the first try to come back
const LONGEST_WAIT = 10_000;
const SILENT = 75_000; // ms; the server speaks every 15 to 30 seconds, so a stream that is silent for so long is dead
const HIDDEN = 60_000; // ms in the background after which a stream is let go: a browser has only six for one server
const LATELY = 30; // s; only what happened so lately is news to the other parts of the page
const NOTED = new Set(["run_started", "run_ended", "approval_asked", "approval_answered", "user_spoke"]);

/** The server said no, or could not be reached (status 0). The message is a sentence for a person. */
export class ApiProblem extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string, param?: string, retryAfter?: number|null}} [more]
   */
  constructor(message, { status = 0, code = "", param = "", retryAfter = null } = {}) {
    super(message);
    this.name = "ApiProblem";
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfter = retryAfter;
  }

  /** Nobody knows whether the server got it. */
  get lost() {
    return this.status === 0;
  }
}

/** What the server wrote as an error, as a problem. @param {{status: number, headers: Headers}} response */
export function problemOf(response, body) {
  const error = body && typeof body === "object" && body.error ? body.error : {};
  const message = error.message || `the server answered with status ${response.status}`;
  const after = Number.parseFloat(response.headers.get("retry-after") ?? "");
  return new ApiProblem(sentence(message), {
    status: response.status,
    code: error.code ?? "",
    param: error.param ?? "",
    retryAfter: Number.isFinite(after) ? after : null,
  });
}

/** The server's words as a sentence: a capital in front, a full stop behind. */
export function sentence(words) {
  const text = String(words).trim();
  if (!text) return "";
  const first = /^[a-z]+[ ,:;']/.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return /[.!?:`]$/.test(first) ? first : `${first}.`;
}

/** How long to wait before try number `count`, in ms. `chance` from 0 to 1 keeps many pages from coming all at once. */
export function waitBefore(count, chance) {
  return Math.min(FIRST_WAIT * 2 ** Math.min(count, 10), LONGEST_WAIT) * (0.75 + chance / 4);
}

/** A name that nobody else makes. `crypto.randomUUID` exists only where the connection is trusted. */
export function newName(prefix = "") {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Api extends EventTarget {
  #probing = false;
  #lost = false;

  /** @param {string} key the API key, empty if there is none */
  constructor(key = "") {
    super();
    this.key = key;
    this.clock = new ServerClock();
    /** A key is needed, and there is no good one yet. */
    this.locked = false;
  }

  /** The server's time in seconds, as well as it is known. */
  now() {
    return this.clock.now(Date.now() / 1000);
  }

  get isLost() {
    return this.#lost;
  }

  /**
   * JSON in, JSON out. Throws ApiProblem.
   * @param {string} method @param {string} path @param {any} [body] @param {Record<string, string>} [headers]
   */
  async ask(method, path, body, headers = {}) {
    const response = await this.#fetch(method, path, body, headers);
    const value = await this.#read(response);
    if (!response.ok) throw this.#refused(problemOf(response, value));
    if (method !== "GET") this.#tell("changed", { method, path });
    return value;
  }

  /** All of a list, page after page; the nodes that it knows nothing of are put into `missing`. Throws ApiProblem.
   * @param {string} path @param {Set<string>} [missing] @returns {Promise<any[]>} */
  async every(path, missing = new Set()) {
    const rows = [];
    let page = await this.ask("GET", path);
    const note = () => page.missing_nodes?.forEach((name) => missing.add(name));
    for (note(); page.next; note()) {
      rows.push(...page.data);
      page = await this.ask("GET", `${path}${path.includes("?") ? "&" : "?"}after=${encodeURIComponent(page.next)}`);
    }
    return [...rows, ...page.data];
  }

  /** A whole answer as it is, for saving. Throws ApiProblem. @returns {Promise<Blob>} */
  async download(path) {
    const response = await this.#fetch("GET", path);
    if (!response.ok) throw this.#refused(problemOf(response, await this.#read(response)));
    try {
      return await response.blob();
    } catch {
      throw this.lost();
    }
  }

  /**
   * Read a run's events after `after`, for as long as it takes. `state` is told 'connecting', 'open', 'lost', and at
   * last 'ended', or 'refused' with the server's sentence.
   * @param {string} run @param {number} after
   * @param {object} told
   * @param {(name: string, data: any, id: number) => void} told.event
   * @param {(word: string, detail?: string) => void} told.state
   */
  follow(run, after, told) {
    const follower = new Follower(this, run, after, told);
    follower.start();
    return { close: () => follower.close() };
  }

  /** The headers that say who asks. */
  headers(more = {}) {
    return this.key ? { ...more, authorization: `Bearer ${this.key}` } : more;
  }

  /** The server could not be reached. Says so once, and looks for it until it answers. */
  lost() {
    if (!this.#lost) {
      this.#lost = true;
      this.#tell("lost");
    }
    if (!this.#probing) void this.#probe();
    return new ApiProblem("The server cannot be reached.", { code: "connection_lost" });
  }

  /** The server answered. */
  found() {
    if (!this.#lost) return;
    this.#lost = false;
    this.#tell("back");
  }

  needKey(message) {
    this.locked = true;
    this.#tell("login", message);
  }

  noticed(run, name, at) {
    if (NOTED.has(name) && at > this.now() - LATELY) this.#tell("noticed", { run, name });
  }

  async #fetch(method, path, body, headers = {}) {
    const sent = this.headers(headers);
    if (body !== undefined) sent["content-type"] ??= "application/json";
    const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    try {
      const signal = AbortSignal.timeout(PATIENCE);
      const response = await fetch(path, { method, headers: sent, body: text, signal, cache: "no-store" });
      this.clock.dated(response.headers.get("date"), Date.now() / 1000);
      this.found();
      return response;
    } catch {
      throw this.lost();
    }
  }

  async #read(response) {
    let text;
    try {
      text = await response.text();
    } catch {
      throw this.lost();
    }
    try {
      return text ? JSON.parse(text) : null;
    } catch {
      return null; // an answer of something that stands in between
    }
  }

  #refused(problem) {
    if (problem.status === 401) this.needKey(problem.message);
    return problem;
  }

  async #probe() {
    this.#probing = true;
    for (let count = 0; this.#lost; count += 1) {
      await wakeful(waitBefore(count, Math.random()));
      if (document.visibilityState === "hidden") await shown();
      try {
        await fetch("/healthz", { signal: AbortSignal.timeout(LONGEST_WAIT), cache: "no-store" });
        this.found();
      } catch {
        continue;
      }
    }
    this.#probing = false;
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** One reader of one run. */
class Follower {
  #closed = false;
  #ended = false;
  #tries = 0;
  #heard = 0;
  #cut = null;

  constructor(api, run, after, told) {
    this.api = api;
    this.run = run;
    this.after = after;
    this.told = told;
  }

  start() {
    this.#go().catch((error) => {
      this.close();
      reportError(error); // a mistake in this page, not in the connection
    });
  }

  close() {
    this.#closed = true;
    this.#cut?.abort();
  }

  async #go() {
    while (!this.#closed) {
      this.told.state("connecting");
      const why = await this.#once();
      if (this.#closed) return;
      if (this.#ended) return this.told.state("ended");
      if (why.refused) return this.told.state("refused", why.refused);
      if (why.hidden) {
        await shown();
        continue;
      }
      this.told.state("lost", "Connection lost, trying again.");
      const wait = Math.max(waitBefore(this.#tries, Math.random()), (why.after ?? 0) * 1000);
      this.#tries += 1;
      await wakeful(wait, this.api);
    }
  }

  /** One connection, until it ends. */
  async #once() {
    const cut = (this.#cut = new AbortController());
    this.#heard = Date.now();
    const watching = watched(cut, () => Date.now() - this.#heard);
    try {
      let response;
      try {
        const address = `/v1/runs/${encodeURIComponent(this.run)}/events?told=true&joined=true&after=${this.after}`;
        response = await fetch(address, { headers: this.api.headers(), signal: cut.signal, cache: "no-store" });
      } catch {
        return this.#broken(watching);
      }
      this.api.clock.dated(response.headers?.get("date") ?? null, Date.now() / 1000);
      this.api.found();
      if (!response.ok) return await this.#refusal(response);
      this.told.state("open");
      return await this.#read(response.body, watching);
    } finally {
      watching.over();
      cut.abort();
    }
  }

  async #read(body, watching) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const splitter = new EventSplitter();
    for (;;) {
      let piece;
      try {
        piece = await reader.read();
      } catch {
        return this.#broken(watching);
      }
      if (piece.done || this.#closed) return {};
      this.#heard = Date.now();
      for (const { name, data, id } of splitter.feed(decoder.decode(piece.value, { stream: true }))) {
        this.#take(name, JSON.parse(data), Number(id));
        if (this.#closed) return {};
      }
    }
  }

  #take(name, data, id) {
    this.#tries = 0;
    const own = name !== "heartbeat" && name !== "interrupted"; // those two are told, and are no events of the run
    if (own && id) this.after = id;
    if (name === "run_ended") this.#ended = true;
    if (typeof data.at === "number") this.api.clock.heard(data.at, Date.now() / 1000);
    this.told.event(name, data, own ? id : 0);
    if (own) this.api.noticed(this.run, name, data.at ?? 0);
  }

  #broken(watching) {
    if (watching.hidden) return { hidden: true };
    if (!this.#closed && !watching.silent) this.api.lost();
    return {};
  }

  async #refusal(response) {
    let body = null;
    try {
      body = JSON.parse(await response.text());
    } catch {
      // not the server's own answer: its status is told
    }
    const problem = problemOf(response, body);
    if (problem.status === 401) this.api.needKey(problem.message);
    if (problem.status >= 500 || problem.status === 429) return { after: problem.retryAfter };
    if (problem.status === 400 && this.after && body?.error?.param === "after") {
      // The run ends in front of what was told here: its last words are lost. What is left is read again.
      this.after = 0;
      this.told.event("reset", { type: "reset", seq: 0, after: 0 }, 0);
      return {};
    }
    return { refused: problem.message };
  }
}

/** Cuts a stream that is dead, or that nobody has looked at for a while. */
function watched(cut, silence) {
  const found = { hidden: false, silent: false, over: () => {} };
  let hide = 0;
  const look = () => {
    clearTimeout(hide);
    if (document.visibilityState === "hidden") {
      hide = setTimeout(() => {
        found.hidden = true;
        cut.abort();
      }, HIDDEN);
    } else if (silence() > SILENT) {
      found.silent = true;
      cut.abort();
    }
  };
  const timer = setInterval(look, SILENT / 3);
  document.addEventListener("visibilitychange", look);
  look();
  found.over = () => {
    clearInterval(timer);
    clearTimeout(hide);
    document.removeEventListener("visibilitychange", look);
  };
  return found;
}

/** Wait, but no longer than until the network, the reader or the server is back. */
function wakeful(ms, api = null) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      document.removeEventListener("visibilitychange", seen);
      api?.removeEventListener("back", done);
      resolve();
    };
    const seen = () => document.visibilityState === "visible" && done();
    const timer = setTimeout(done, ms);
    window.addEventListener("online", done);
    document.addEventListener("visibilitychange", seen);
    api?.addEventListener("back", done);
  });
}

/** Until somebody looks at the page. */
function shown() {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState !== "visible") return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}
