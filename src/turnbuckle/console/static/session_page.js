/**
 * One session: its runs in order, what waits, and the box to go on.
 *
 * What is shown follows from the server alone. Runs are read from the messages, from the newest back; a run has a card of
 * its own, which reads its events when it comes into view. When somebody changes the session only the end of the messages is read
 * again, unless it turns out that something before it has changed.
 */

import { inputOf } from "./attachments.js";
import { colour } from "./code_colours.js";
import { Composer } from "./composer.js";
import { el, icon, setText } from "./elements.js";
import { grouped, preceded, waiting } from "./lists.js";
import { markdown } from "./markdown.js";
import { menuButton } from "./dialogs.js";
import { storeOf } from "./outbox.js";
import { RunCard } from "./run_card.js";
import { againEntries, goOnLetter, retryRun, sessionEntries } from "./session_actions.js";
import { many, spentWords } from "./words.js";

const PAGE = 100;
const AT_ONCE = 40; // cards that are made at once; earlier ones when somebody wants them
const NEWEST = 3; // cards at the end that are read at once; the others when they come into view
const NEAR = 48; // px from the end that still count as the end

export class SessionPage {
  #view = null;
  #blocks = [];
  #before = null; // where the messages before the first block are; null if there are none
  #shownFrom = Infinity;
  #begun = []; // runs that this tab began: {run, after}; answers to commands are in no list of the server
  #words = new Map(); // what this tab said, by the run that answers it
  #cards = new Map();
  #shared = new Map();
  #atEnd = true;
  #lastTop = 0;
  #loading = null;
  #again = false;
  #closed = false;

  /** @param {import("./main.js").Shell} shell @param {string} id */
  constructor(shell, id) {
    this.shell = shell;
    this.id = id;
    this.path = `/v1/sessions/${encodeURIComponent(id)}`;
    this.title = id;
    this.menu = menuButton("Session menu", () => sessionEntries(shell, { id, title: this.#view?.title ?? "" }));
    this.#build();
    this.#listen();
  }

  get headActions() {
    return [this.menu];
  }

  #build() {
    this.earlier = el("button.plain.earlier", { type: "button", hidden: true }, "Earlier messages");
    this.column = el("div.column");
    this.waitingList = el("ol.waiting", { "aria-label": "What waits for its turn", hidden: true });
    this.problem = el("p.problem", { role: "alert", hidden: true });
    this.empty = el("p.muted.empty", { hidden: true }, "Nothing was said here yet.");
    this.total = el("p.small.muted.total", { hidden: true });
    const parts = [this.earlier, this.empty, this.column, this.total, this.waitingList];
    this.inner = el("div.inner", null, this.problem, ...parts);
    this.scroller = el("div.scroller", { role: "region", "aria-label": "Conversation", tabindex: "0" }, this.inner);
    this.newest = el("button.newest", { type: "button", hidden: true }, icon("down"), "Newest");
    this.composer = new Composer({
      outbox: this.shell.outbox,
      session: this.id,
      models: this.shell.settings.models,
      store: storeOf("localStorage"),
      send: (letter) => this.#send(letter),
      stop: (force) => this.#stop(force),
    });
    const foot = el("div.foot", null, el("div", null, this.newest, this.composer.element));
    this.element = el("div.session", null, this.scroller, foot);
  }

  #listen() {
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.newest.addEventListener("click", () => this.#toEnd());
    this.earlier.addEventListener("click", () => void this.#showEarlier());
    this.sizes = new ResizeObserver(() => this.#resized());
    const near = { root: this.scroller, rootMargin: "400px 0px" };
    this.sight = new IntersectionObserver((entries) => this.#seen(entries), near);
    this.onSessions = ({ detail }) => void this.#compare(detail.data);
    this.onChanged = ({ detail }) => this.#changed(detail);
    this.onBack = () => void this.#comeBack();
  }

  async open() {
    const { watch, api } = this.shell;
    watch.addEventListener("sessions", this.onSessions);
    watch.addEventListener("changed", this.onChanged);
    api.addEventListener("back", this.onBack);
    this.sizes.observe(this.inner);
    this.sizes.observe(this.scroller);
    if (this.shell.isWide) this.composer.focus();
    await this.composer.resume(); // a session that is new is made by its first message
    if (!this.#closed) await this.refresh();
  }

  close() {
    this.#closed = true;
    const { watch, api } = this.shell;
    watch.removeEventListener("sessions", this.onSessions);
    watch.removeEventListener("changed", this.onChanged);
    api.removeEventListener("back", this.onBack);
    this.sizes.disconnect();
    this.sight.disconnect();
    for (const card of this.#cards.values()) card.close();
  }

  /** Bring everything up to date. One at a time; whoever comes meanwhile is served by the next. */
  refresh() {
    if (this.#loading) {
      this.#again = true;
      return this.#loading;
    }
    this.#loading = this.#refreshAll().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  async #refreshAll() {
    do {
      this.#again = false;
      try {
        await this.#load();
        this.problem.hidden = true;
      } catch (problem) {
        if (problem.name !== "ApiProblem") throw problem;
        this.#failed(problem);
        return;
      }
    } while (this.#again && !this.#closed);
  }

  async #load() {
    const { api } = this.shell;
    const view = await api.ask("GET", this.path);
    const blocks = async () => (this.#view && (await this.#tail())) || this.#end();
    const [inbox, said] = await Promise.all([api.every(`${this.path}/inbox`), blocks()]);
    if (this.#closed) return;
    this.#view = view;
    this.#blocks = said;
    this.#draw();
    this.#drawWaiting(inbox);
    this.#setRunning(view.running);
    this.shell.setTitle(this, view.title || view.id);
    await this.#showTotal();
  }

  /** What all runs have used together. A single one says it itself, and one under way changes it. */
  async #showTotal() {
    if (this.running || this.#blocks.length < 2) {
      this.total.hidden = true;
      return;
    }
    const { runs, spent } = await this.shell.api.ask("GET", `${this.path}/usage`);
    const words = spentWords(spent);
    setText(this.total, words ? `This session: ${many(runs, "run")}, ${words}` : "");
    this.total.hidden = !words;
  }

  /** What was said since the last known run began, behind what is known; null if that is not so any more. */
  async #tail() {
    const last = this.#blocks[this.#blocks.length - 1];
    const before = this.#blocks[this.#blocks.length - 2];
    if (!before) return null;
    let place = before.messages[before.messages.length - 1].id;
    const messages = [];
    for (let more = true; more; ) {
      const page = await this.#page("asc", place);
      messages.push(...page.data);
      more = page.has_more;
      place = page.next;
    }
    const fresh = grouped(messages);
    return fresh.length && fresh[0].run === last.run ? [...this.#blocks.slice(0, -1), ...fresh] : null;
  }

  /** The end of the session, and as much before it as was shown. */
  async #end() {
    const enough = Math.max(AT_ONCE, this.#blocks.length - this.#shownFrom);
    let blocks = [];
    let before = null;
    do {
      const page = await this.#page("desc", before);
      blocks = preceded(page.data, blocks);
      before = page.next;
    } while (before && blocks.length < enough);
    this.#before = before;
    this.#shownFrom = Math.max(0, blocks.length - enough);
    return blocks;
  }

  #page(order, place) {
    const behind = place ? `&after=${encodeURIComponent(place)}` : "";
    return this.shell.api.ask("GET", `${this.path}/messages?order=${order}&limit=${PAGE}${behind}`);
  }

  #failed(problem) {
    if (problem.lost || problem.status === 401) return; // the banner or the login say so
    if (problem.status === 404) {
      const isNew = this.shell.outbox.letter(this.id) !== null; // its first message was refused, and says so
      this.#gone(isNew ? "" : this.#view ? "This session was deleted." : problem.message);
      return;
    }
    setText(this.problem, problem.message);
    this.problem.hidden = false;
  }

  /** There is no such session, or not any more; its next message would make a new one of that name. */
  #gone(sentence) {
    setText(this.problem, sentence);
    this.problem.hidden = !sentence;
    this.#view = null; // nothing is asked for any more
    this.#blocks = [];
    for (const card of this.#cards.values()) card.close();
    this.#cards.clear();
    this.column.replaceChildren();
    this.composer.setRunning(false);
  }

  // What is shown

  #draw() {
    const known = new Set(this.#blocks.map((block) => block.run));
    this.#begun = this.#begun.filter((one) => !known.has(one.run));
    const first = Math.max(0, Math.min(this.#shownFrom, this.#blocks.length - AT_ONCE));
    this.#shownFrom = first;
    this.earlier.hidden = first === 0 && !this.#before;
    const nodes = [];
    const left = new Set(this.#begun);
    for (const block of this.#blocks.slice(first)) {
      nodes.push(block.own ? this.#card(block.run) : this.#sharedPart(block));
      for (const one of this.#begun) if (one.after === block.run && left.delete(one)) nodes.push(this.#card(one.run));
    }
    for (const one of left) nodes.push(this.#card(one.run));
    this.#place(nodes);
    for (const node of nodes.slice(-NEWEST)) this.#read(node);
    this.empty.hidden = nodes.length > 0;
  }

  /** Nodes that stay are not touched, so that nothing in them loses its place. */
  #place(nodes) {
    const wanted = new Set(nodes);
    for (const [run, card] of this.#cards) {
      if (wanted.has(card.element)) continue;
      card.close();
      this.sight.unobserve(card.element);
      card.element.remove();
      this.#cards.delete(run);
    }
    for (const child of [...this.column.children]) if (!wanted.has(child)) child.remove();
    nodes.forEach((node, at) => {
      const there = this.column.children[at] ?? null;
      if (there !== node) this.column.insertBefore(node, there);
    });
  }

  #card(run) {
    let card = this.#cards.get(run);
    if (!card) {
      card = new RunCard({
        api: this.shell.api,
        run,
        session: this.id,
        ended: () => this.#ended(run),
        again: againEntries(
          this.shell.settings.models,
          () => this.#send(goOnLetter(run)),
          (route) => this.#retry(run, route),
        ),
      });
      card.element.classList.add("unread");
      this.#cards.set(run, card);
      this.sight.observe(card.element);
    }
    return card.element;
  }

  #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.#read(target);
    }
  }

  /** Let a card read its run. */
  #read(element) {
    const card = this.#cards.get(element.dataset.run);
    if (!card || !element.classList.contains("unread")) return;
    this.sight.unobserve(element);
    element.classList.remove("unread");
    card.open();
  }

  #sharedPart(block) {
    const known = this.#shared.get(block.first);
    if (known) return known;
    const said = block.messages.filter((one) => one.text).map((one) => {
      const who = one.role === "user" ? "You" : one.role === "assistant" ? "Answer" : "Tool";
      const words = one.role === "assistant" ? markdown(one.text, document, colour) : el("p.words", null, one.text);
      return el("li", { "data-role": one.role }, el("strong.small.muted", null, who), words);
    });
    const part = el("section.shared", { "aria-label": "Shared with the session it was forked from" });
    const about = el("p.small.muted", null, "Shared with the session that this one was forked from");
    part.append(about, el("ol", null, ...said));
    this.#shared.set(block.first, part);
    return part;
  }

  #drawWaiting(inbox) {
    const begun = new Set([...this.#cards.keys(), ...this.#blocks.map((block) => block.run), this.#view?.running]);
    const rows = waiting(inbox, begun).map(({ run, text }) => this.#waitingRow(run, text));
    this.waitingList.hidden = !rows.length;
    this.waitingList.replaceChildren(...rows);
  }

  #waitingRow(run, text) {
    const act = () => void this.#endRun(run);
    const words = el("span.words", null, text || this.#words.get(run) || "A message without text");
    const back = el("button.small", { type: "button", onclick: act }, "Take back");
    return el("li", null, el("span.small.muted", null, "Waits for its turn"), words, back);
  }

  async #showEarlier() {
    if (this.#shownFrom < AT_ONCE && this.#before) await this.#loadEarlier();
    const before = this.scroller.scrollHeight;
    this.#shownFrom = Math.max(0, this.#shownFrom - AT_ONCE);
    this.#draw();
    this.scroller.scrollTop += this.scroller.scrollHeight - before;
  }

  async #loadEarlier() {
    await this.#loading; // what is loaded there is put together again
    const place = this.#before;
    try {
      const page = await this.#page("desc", place);
      if (this.#closed || this.#before !== place) return;
      const count = this.#blocks.length;
      this.#blocks = preceded(page.data, this.#blocks);
      this.#before = page.next;
      this.#shownFrom += this.#blocks.length - count;
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      this.#failed(problem);
    }
  }

  // Saying and stopping

  async #send(letter) {
    const body = { input: inputOf(letter.text, letter.files), ask_first: true };
    if (letter.model) body.model = letter.model;
    if (letter.busy) body.busy = letter.busy;
    const line = await this.shell.api.ask("POST", `${this.path}/messages`, body, { "idempotency-key": letter.key });
    this.#words.set(line.id, letter.text);
    this.#atEnd = true;
    if (line.status !== "queued" && !this.#cards.has(line.id)) {
      this.#begun.push({ run: line.id, after: this.#blocks[this.#blocks.length - 1]?.run ?? "" });
      this.#draw();
      if (line.status === "running") this.#setRunning(line.id);
    }
    this.#toEnd();
    void this.refresh();
  }

  async #retry(run, route = "") {
    if ((await retryRun(this.shell, this.path, run, route)) && route) this.composer.choose(route);
    this.#atEnd = true;
    void this.refresh();
  }

  async #stop(force) {
    const run = this.running;
    const card = run && this.#cards.get(run);
    if (card) await card.stop(force);
    else if (run) await this.#endRun(run, force);
  }

  #endRun(run, force = false) {
    const path = `/v1/runs/${encodeURIComponent(run)}/${force ? "stop" : "interrupt"}`;
    return this.shell.perform(() => this.shell.api.ask("POST", path));
  }

  #setRunning(run) {
    this.running = run ?? "";
    this.composer.setRunning(Boolean(run));
  }

  #ended(run) {
    if (this.running !== run) return;
    this.#setRunning("");
    void this.refresh(); // what waited begins now
  }

  // What others do

  async #compare(rows) {
    const known = this.#view;
    if (!known || this.#loading) return;
    try {
      const row = rows.find((one) => one.id === this.id) ?? (await this.shell.api.ask("GET", this.path));
      const same = ["updated_at", "running", "title"].every((name) => row[name] === known[name]);
      if (!same && !this.#closed) await this.refresh();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      this.#failed(problem);
    }
  }

  #changed({ session, run, noticed, deleted }) {
    if (!this.#view) return;
    if (deleted && session === this.id) {
      this.#gone("This session was deleted.");
      return;
    }
    if (session === this.id || (run && this.#cards.has(run) && !noticed)) void this.refresh();
  }

  async #comeBack() {
    await this.composer.resume();
    await this.refresh();
  }

  // Scrolling

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const near = scrollHeight - scrollTop - clientHeight < NEAR;
    if (near) this.#atEnd = true;
    else if (scrollTop < this.#lastTop - 1) this.#atEnd = false; // only a reader goes up
    this.#lastTop = scrollTop;
    this.newest.hidden = this.#atEnd || near;
  }

  #resized() {
    const gutter = this.scroller.offsetWidth - this.scroller.clientWidth;
    if (gutter !== this.gutter) {
      this.gutter = gutter;
      this.element.style.setProperty("--gutter", `${gutter}px`);
    }
    if (this.#atEnd) this.#toEnd();
    else this.#scrolled();
  }

  #toEnd() {
    this.#atEnd = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#lastTop = this.scroller.scrollTop;
    this.newest.hidden = true;
  }
}
