/** All runs, those of no session included, by how they stand. */

import { addressOf } from "./address.js";
import { el, newId, setText } from "./elements.js";
import { ago, extended, found, merged } from "./lists.js";
import { STATUS, many, spaced, span, spentWords } from "./words.js";

const STATUSES = [
  ["", "All"],
  ["running", "Not ended"],
  ["completed", "Completed"],
  ["partial", "Partial"],
  ["cancelled", "Stopped"],
  ["failed", "Failed"],
];
const PAGE = 50;
const MOST_PAGES = 20; // that one search looks at by itself

export class RunList {
  title = "Runs";
  #rows = [];
  #next = null;
  #items = new Map();
  #asked = 0;
  #loading = false;

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const id = newId("status");
    this.filter = el("select", { id }, ...STATUSES.map(([value, words]) => el("option", { value }, words)));
    this.filter.addEventListener("change", () => void this.#reload());
    const words = newId("words");
    this.words = el("input", { type: "search", id: words, placeholder: "Search runs", autocomplete: "off" });
    this.words.addEventListener("input", () => void this.#searched());
    this.list = el("ul.runs", { "aria-label": "Runs" });
    this.note = el("p.muted", { role: "status" });
    this.today = el("span.muted.small.today");
    this.more = el("button", { type: "button", hidden: true, onclick: () => void this.#more() }, "More");
    this.element = el(
      "div.page",
      null,
      el("div.row.toolbar", null, el("label", { for: id }, "Show"), this.filter, el("label.sr", { for: words }, "Search runs"),
        this.words, el("span.grow"), this.today),
      this.list,
      this.note,
      this.more,
    );
    this.seen = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && void this.#more());
    this.onLook = () => void this.#refresh();
  }

  async open() {
    this.shell.watch.addEventListener("look", this.onLook);
    this.seen.observe(this.more);
    await this.#refresh();
    await this.#showToday();
  }

  close() {
    this.shell.watch.removeEventListener("look", this.onLook);
    this.seen.disconnect();
  }

  async #reload() {
    this.#rows = [];
    this.#next = null;
    await this.#refresh();
  }

  async #refresh() {
    const page = await this.#ask("");
    if (!page) return;
    if (!this.#rows.length || !page.has_more) this.#next = page.next;
    this.#rows = merged(this.#rows, page.data, page.has_more);
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

  /** A page, or null if it could not be had or nobody wants it any more. */
  async #ask(behind) {
    this.#asked += 1;
    const [mine, status] = [this.#asked, this.filter.value];
    try {
      const only = status ? `&status=${status}` : "";
      const page = await this.shell.api.ask("GET", `/v1/runs?limit=${PAGE}${only}${behind}`);
      return mine === this.#asked || (behind && status === this.filter.value) ? page : null;
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      if (!problem.lost && problem.status !== 401) setText(this.note, problem.message);
      return null;
    }
  }

  /** What is searched for may stand on a later page: a few of them are looked at. */
  async #searched() {
    this.#draw();
    const wanted = this.words.value;
    for (let page = 0; page < MOST_PAGES && this.#next && this.words.value === wanted && !this.#loading; page += 1) {
      if (!wanted || this.list.children.length >= PAGE) return;
      await this.#more();
    }
  }

  #draw() {
    const now = this.shell.api.now();
    const kept = new Map();
    const items = found(this.#rows, this.words.value).map((row) => {
      const item = this.#items.get(row.id) ?? made(row);
      setText(item.status, STATUS[row.status] ?? spaced(row.status));
      item.status.dataset.status = row.status;
      setText(item.link, row.title || row.id);
      setText(item.spent, [lasted(row, now), row.route, spentWords(row.spent)].filter(Boolean).join(" · "));
      setText(item.when, ago(row.updated_at, now));
      kept.set(row.id, item);
      return item.element;
    });
    this.#items = kept;
    if (items.length !== this.list.children.length || items.some((item, at) => this.list.children[at] !== item)) {
      this.list.replaceChildren(...items);
    }
    setText(this.note, items.length ? "" : "There are no such runs.");
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
