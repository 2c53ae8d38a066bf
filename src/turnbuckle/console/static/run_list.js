/** All runs, those of no session included. The server finds them: by how they stand, by route, by words and by day. */

import { addressOf } from "./address.js";
import { routesOf } from "./composer.js";
import { el, newId, setText } from "./elements.js";
import { ago, extended, merged } from "./lists.js";
import { STATUS, inOrder, many, spaced, span, spentWords } from "./words.js";

const STATUSES = [
  ["", "All"],
  ["running", "Not ended"],
  ["completed", "Completed"],
  ["partial", "Partial"],
  ["cancelled", "Stopped"],
  ["failed", "Failed"],
];
const SINCE = [
  ["", "Any time"],
  ["1", "Last day"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
];
const DAY = 86_400;
const PAGE = 50;
const MOST_PAGES = 20; // that one search looks at by itself; each looks at up to 1,000 runs
const TYPING = 250; // ms of rest after which words are searched for

export class RunList {
  title = "Runs";
  #rows = [];
  #next = null;
  #items = new Map();
  #asked = 0;
  #missing = []; // names of nodes that did not answer
  #loading = false;
  #typing = 0;

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const routes = routesOf(shell.settings.models);
    this.status = this.#choice("Show", STATUSES);
    this.route = this.#choice("Route", [["", "Any route"], ...routes.map((name) => [name, name])]);
    this.since = this.#choice("Begun", SINCE);
    const words = newId("words");
    this.words = el("input", { type: "search", id: words, placeholder: "Search runs", autocomplete: "off" });
    this.words.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => void this.#reload(), TYPING);
    });
    this.list = el("ul.runs", { "aria-label": "Runs" });
    this.note = el("p.muted", { role: "status" });
    this.today = el("span.muted.small.today");
    this.more = el("button", { type: "button", hidden: true, onclick: () => void this.#more() }, "More");
    const choices = [this.status, ...(routes.length > 1 ? [this.route] : []), this.since];
    const search = el("span.picker.grow", null, el("label.sr", { for: words }, "Search runs"), this.words);
    this.element = el(
      "div.page",
      null,
      el("div.row.toolbar", null, ...choices.map((one) => one.parentNode), search, this.today),
      this.list,
      this.note,
      this.more,
    );
    this.seen = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && void this.#more());
    this.onLook = () => void this.#refresh();
  }

  #choice(label, options) {
    const id = newId("choice");
    const select = el("select", { id }, ...options.map(([value, words]) => el("option", { value }, words)));
    select.addEventListener("change", () => void this.#reload());
    el("span.picker", null, el("label.small.muted", { for: id }, label), select);
    return select;
  }

  async open() {
    this.shell.watch.addEventListener("look", this.onLook);
    this.seen.observe(this.more);
    await this.#refresh();
    await this.#showToday();
  }

  close() {
    clearTimeout(this.#typing);
    this.shell.watch.removeEventListener("look", this.onLook);
    this.seen.disconnect();
  }

  async #reload() {
    this.#rows = [];
    this.#next = null;
    await this.#refresh();
    await this.#searchOn();
  }

  async #refresh() {
    const page = await this.#ask("");
    if (!page) return;
    if (!this.#rows.length || !page.has_more) this.#next = page.next;
    this.#rows = merged(this.#rows, page.data, page.has_more, Boolean(this.words.value.trim()));
    this.#draw();
  }

  async #showToday() {
    try {
      const [day] = (await this.shell.api.ask("GET", "/v1/usage?days=1")).days;
      if (day) setText(this.today, `Today (UTC): ${many(day.runs, "run")}, ${spentWords(day.spent) || "no tokens"}`);
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
    }
  }

  async #more() {
    if (this.#loading || !this.#next) return;
    this.#loading = true;
    const page = await this.#ask(`&after=${encodeURIComponent(this.#next)}`);
    this.#loading = false;
    if (!page) return;
    this.#rows = extended(this.#rows, page.data);
    this.#next = page.next;
    this.#draw();
  }

  /** A page looks at a bounded number of runs, so what is searched for may stand on a later one. */
  async #searchOn() {
    const wanted = this.#query();
    for (let page = 0; page < MOST_PAGES && this.#next && !this.#loading; page += 1) {
      if (this.#query() !== wanted || this.#rows.length) return;
      await this.#more();
    }
  }

  #query() {
    const wanted = new URLSearchParams({ limit: PAGE });
    if (this.status.value) wanted.set("status", this.status.value);
    if (this.route.value) wanted.set("route", this.route.value);
    if (this.since.value) wanted.set("since", Math.floor(this.shell.api.now() / DAY + 1 - this.since.value) * DAY);
    if (this.words.value.trim()) wanted.set("q", this.words.value.trim());
    return wanted.toString();
  }

  /** A page, or null if it could not be had or nobody wants it any more. */
  async #ask(behind) {
    this.#asked += 1;
    const [mine, query] = [this.#asked, this.#query()];
    try {
      const page = await this.shell.api.ask("GET", `/v1/runs?${query}${behind}`);
      if (mine !== this.#asked && !(behind && query === this.#query())) return null;
      this.#missing = page.missing_nodes ?? [];
      return page;
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      if (!problem.lost && problem.status !== 401) setText(this.note, problem.message);
      return null;
    }
  }

  #draw() {
    const now = this.shell.api.now();
    const kept = new Map();
    const items = this.#rows.map((row) => {
      const item = this.#items.get(row.id) ?? made(row);
      setText(item.status, STATUS[row.status] ?? spaced(row.status));
      item.status.dataset.status = row.status;
      setText(item.link, inOrder(row.title || row.id));
      setText(item.spent, [lasted(row, now), row.route, spentWords(row.spent)].filter(Boolean).join(" · "));
      setText(item.when, ago(row.updated_at, now));
      kept.set(row.id, item);
      return item.element;
    });
    this.#items = kept;
    if (items.length !== this.list.children.length || items.some((item, at) => this.list.children[at] !== item)) {
      this.list.replaceChildren(...items);
    }
    const unknown = `How the runs at ${this.#missing.join(", ")} stand is not known: no answer.`;
    const none = items.length ? "" : this.#next ? "Searching older runs…" : "No runs match.";
    setText(this.note, this.#missing.length ? unknown : none);
    this.more.hidden = !this.#next;
  }
}

function lasted(row, now) {
  const isOver = ["completed", "partial", "cancelled", "failed"].includes(row.status);
  return row.status === "queued" ? "" : span((isOver ? row.updated_at : now) - row.created_at);
}

function made(row) {
  const link = el("a", { href: addressOf({ page: "run", id: row.id }) });
  const item = { status: el("span.status"), link, spent: el("span.spent.muted.small") };
  item.when = el("span.when.muted.small");
  const session = row.session && el("a.small.of", { href: addressOf({ page: "session", id: row.session }) }, "session");
  item.element = el("li", { "data-run": row.id }, item.status, item.link, session, item.spent, item.when);
  return item;
}
