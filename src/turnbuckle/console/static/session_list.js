/** The list of sessions at the side: newest first, searched by words, with a dot where something runs, amber where it waits for
 * a person. */

import { addressOf } from "./address.js";
import { menuButton } from "./dialogs.js";
import { el, icon, newId, setText } from "./elements.js";
import { ago, extended, foundWords, markedPieces, merged } from "./lists.js";
import { sessionEntries } from "./session_actions.js";
import { inOrder } from "./words.js";

const PAUSE = 200; // ms without a key before a search is asked for
const PAGE = 30;
const LOOK = 50; // ms until what was drawn has been laid out

export class SessionList {
  #shown = [];
  #next = null;
  #items = new Map();
  #words = "";
  #timer = 0;
  #asked = 0;
  #loading = -1; // the search whose next page is on its way
  #seen = false; // whether the end of the list is in sight
  #known = false; // whether the server has said which there are

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const id = newId("search");
    this.field = el("input", { type: "search", id, placeholder: "Search sessions", autocomplete: "off" });
    this.field.maxLength = 500; // the server's own limit
    this.field.setAttribute("aria-keyshortcuts", "/");
    this.list = el("ul.sessions");
    this.note = el("p.small.muted.listnote", { role: "status" });
    this.end = el("div.end");
    this.nav = el("nav", { "aria-label": "Sessions" }, this.list, this.note, this.end);
    const search = el("div.search", null, el("label.sr", { for: id }, "Search sessions"), icon("search"), this.field);
    this.element = el("div.sessionpart", null, search, this.nav);
    this.field.addEventListener("input", () => this.#searchSoon());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.current = "";
  }

  start() {
    this.shell.watch.addEventListener("sessions", ({ detail }) => this.#take(detail));
    this.shell.watch.addEventListener("approvals", () => this.#draw());
    const look = (entries) => {
      this.#seen = entries[entries.length - 1].isIntersecting;
      if (this.#seen) void this.#more();
    };
    new IntersectionObserver(look, { root: this.nav, rootMargin: "200px" }).observe(this.end);
  }

  /** After a login everything may belong to somebody else. */
  clear() {
    this.#shown = [];
    this.#next = null;
    this.#known = false;
    this.#draw();
  }

  focusSearch() {
    this.field.focus();
    this.field.select();
  }

  /** @param {string} id the session that is open; empty if none is */
  setCurrent(id) {
    this.current = id;
    for (const [name, item] of this.#items) mark(item, name === id);
  }

  /** The session above (-1) or below (1) the open one. */
  neighbour(step) {
    const at = this.#shown.findIndex((one) => one.id === this.current);
    const next = at < 0 ? (step > 0 ? 0 : this.#shown.length - 1) : at + step;
    return this.#shown[next]?.id ?? "";
  }

  #take(page) {
    this.#known = true;
    if (this.#words) return;
    if (!this.#shown.length || !page.has_more) this.#next = page.next;
    this.#shown = merged(this.#shown, page.data, page.has_more);
    this.#draw();
  }

  /** What stands behind the end that is in sight, page after page: one of a search may hold few, or none. */
  async #more() {
    const mine = this.#asked;
    if (this.#loading === mine || !this.#next) return;
    this.#loading = mine;
    try {
      do {
        const page = await this.#page(`&after=${encodeURIComponent(this.#next)}`);
        if (mine !== this.#asked) return; // another search was asked for meanwhile
        this.#shown = extended(this.#shown, page.data);
        this.#next = page.next;
        this.#draw();
        await new Promise((done) => setTimeout(done, LOOK)); // until it is known whether the new end is in sight
      } while ((this.#seen || !this.#shown.length) && this.#next && mine === this.#asked);
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      setText(this.note, problem.message);
    } finally {
      if (this.#loading === mine) this.#loading = -1;
    }
  }

  #page(more = "") {
    const words = this.#words ? `&q=${encodeURIComponent(this.#words)}` : "";
    return this.shell.api.ask("GET", `/v1/sessions?limit=${PAGE}${words}${more}`);
  }

  #searchSoon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#search(), PAUSE);
  }

  async #search() {
    const words = this.field.value.trim();
    this.#asked += 1;
    const mine = this.#asked;
    if (!words) {
      this.#words = "";
      this.#shown = [];
      setText(this.note, "");
      this.#take(this.shell.watch.sessions);
      return;
    }
    const before = this.#words;
    this.#words = words;
    try {
      const found = await this.#page();
      if (mine !== this.#asked) return; // somebody typed on
      this.#shown = found.data;
      this.#next = found.next;
      this.#draw();
      if (this.#seen || !found.data.length) void this.#more();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      if (mine === this.#asked) this.#words = before;
      setText(this.note, problem.message);
    }
  }

  #key(event) {
    if (event.key === "Escape" && this.field.value) {
      event.stopPropagation();
      this.field.value = "";
      void this.#search();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.list.querySelector("a")?.focus();
    } else if (event.key === "Enter" && this.#shown.length && this.#words) {
      this.shell.go({ page: "session", id: this.#shown[0].id });
    }
  }

  #draw() {
    const now = this.shell.api.now();
    const kept = new Map();
    const items = this.#shown.map((row) => {
      const item = this.#items.get(row.id) ?? this.#made(row.id);
      this.#fill(item, row, now);
      kept.set(row.id, item);
      return item.element;
    });
    this.#items = kept;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    if (items.length !== this.list.children.length || items.some((item, at) => this.list.children[at] !== item)) {
      this.list.replaceChildren(...items);
      if (focused?.isConnected) focused.focus({ preventScroll: true });
    }
    if (this.#words) setText(this.note, foundWords(items.length, Boolean(this.#next)));
    else setText(this.note, items.length || !this.#known ? "" : "No sessions yet.");
  }

  #made(id) {
    const item = { row: null, title: el("span.title"), when: el("span.when"), dot: el("span.dot", { hidden: true }) };
    item.snippet = el("span.snippet", { hidden: true });
    item.state = el("span.sr");
    item.dot.append(item.state);
    const line = el("span.line", null, item.dot, item.title, item.when);
    item.link = el("a", { href: addressOf({ page: "session", id }) }, line, item.snippet);
    item.menu = menuButton("Session menu", () => sessionEntries(this.shell, item.row));
    item.element = el("li", { "data-session": id }, item.link, item.menu);
    mark(item, id === this.current);
    return item;
  }

  #fill(item, row, now) {
    item.row = row;
    setText(item.title, inOrder(row.title || row.id));
    setText(item.when, ago(row.updated_at, now));
    item.link.title = row.title || row.id;
    const label = `Menu of ${row.title || row.id}`;
    if (item.menu.getAttribute("aria-label") !== label) item.menu.setAttribute("aria-label", label);
    item.dot.hidden = !row.running;
    const waits = this.shell.watch.approvals.some((one) => one.run === row.running);
    item.dot.classList.toggle("waits", waits);
    setText(item.state, waits ? "waits for you" : "running");
    item.snippet.hidden = !row.snippet;
    if (!row.snippet) return;
    const pieces = markedPieces(row.snippet, this.#words || this.field.value);
    item.snippet.replaceChildren(...pieces.map(({ text, hit }) => (hit ? el("mark", null, text) : text)));
  }
}

function mark(item, open) {
  if (open) item.link.setAttribute("aria-current", "page");
  else item.link.removeAttribute("aria-current");
}
