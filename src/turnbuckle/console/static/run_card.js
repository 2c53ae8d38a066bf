// One run: the user's words, the run in time, what it said and did, and how it ended.
//
// Events go into the model at once. The page follows in the browser's own frames, so a burst of any size is one drawing
// and a page that nobody looks at draws nothing. What changed is asked of the model; nothing else is touched.

import { ChangesView } from "./changes_view.js";
import { menuButton } from "./dialogs.js";
import { el, setText } from "./elements.js";
import { ledgerView, usageWords } from "./ledger_view.js";
import { receiptView } from "./receipt.js";
import { ENDED, RunModel } from "./run_model.js";
import { NoticeSegment, RefusalSegment, SaidSegment, TextSegment, ThoughtSegment } from "./segments.js";
import { inputWords } from "./steps.js";
import { TimelineBox } from "./timeline_box.js";
import { ToolCard } from "./tool_card.js";
import { ToolGroup } from "./tool_group.js";
import { ToolGroups } from "./tool_groups.js";
import { STATUS, brokeWords, capital, didWords, span, waitingWords } from "./words.js";

const SOON = 700; // ms after which a run that says nothing is asked where it stands
const WATCHED = 120; // s; what is older was read, not watched
const CAME_TO_NOTHING = new Set(["failed", "partial"]);
const REST = 2; // times as long as a drawing took, until the next one: a long run that is read is drawn now and then
const LONGEST_REST = 300; // ms
const SILENT = 2; // s of waiting that are worth words in the head

export class RunCard {
  /** `again`: what can be tried where it came to nothing, as `{words, title, act}`, or with `choices` in place of `act`:
   * a function from the route that was asked last to the entries of a menu. */
  constructor({ api, run, session, compact = false, ended = () => {}, started = () => {}, again = [] }) {
    this._api = api;
    this._run = run;
    this._session = session;
    this._told = { ended, started };
    this._path = `/v1/runs/${encodeURIComponent(run)}`;
    this._follower = null;
    this._line = "connecting";
    this._opened = false;
    this._frame = this._clock = this._looking = this._resting = 0;
    this._restsUntil = 0;
    this._lostAt = null;
    this._now = () => this._lostAt ?? api.now();
    this._build(compact, again);
    this._begin();
  }

  _build(compact, again) {
    this.said = el("div.saidpart");
    this.status = el("span.status");
    this.elapsed = el("span.elapsed.muted");
    this.waiting = el("span.waitingon.muted");
    this.resume = el(
      "button.small.primary",
      { type: "button", hidden: true, onclick: () => void this._goOn() },
      "Go on",
    );
    this.openLink = el("a.small", { href: `#/r/${encodeURIComponent(this._run)}`, hidden: !this._session }, "Open run");
    this.problem = el("p.problem.small", { role: "alert", hidden: true });
    this.timeline = compact ? null : new TimelineBox(this._now);
    this.body = el("div.body");
    this.receipt = el("div.receiptpart");
    this.outcome = el("span.outcome", { hidden: true });
    this.usage = el("span.usage.muted.small");
    this.ledger = el("div.ledgerpart");
    this.changes = new ChangesView((...asked) => this._api.ask(...asked), this._path);
    this.again = el("div.again.row", { hidden: true });
    this.offer(again);
    this.spoken = el("p.sr", { role: "status" });
    const head = el("header.runhead", null, this.status, this.elapsed, this.waiting, el("span.grow"), this.resume);
    const foot = el("footer.runfoot", null, this.outcome, this.usage, el("span.grow"), this.openLink);
    this.element = el("article.run", { "data-run": this._run, "aria-label": "Run" });
    this.element.append(this.said, head, this.problem, ...(this.timeline ? [this.timeline.element] : []));
    this.element.append(this.body, this.receipt, foot, this.again, this.changes.element, this.ledger, this.spoken);
  }

  /** A new story, from its first event. */
  _begin() {
    this._model = new RunModel();
    this._views = new Map();
    this._groups = new ToolGroups();
    this._lines = new Map(); // of groups
    this._placed = 0; // segments that have their place on the page
    this._text = this._newest = null;
    this._fresh = false;
    this._settled = false;
    this._ledgerAsked = false;
    this.body.replaceChildren();
    this.said.replaceChildren();
    this._showHead();
  }

  // Following

  open() {
    if (this._opened) return;
    this._opened = true;
    if (this.timeline) this.timeline.open(this._model);
    this._visible = () => this._wake();
    document.addEventListener("visibilitychange", this._visible);
    if (!this._model.outcome) this._follow();
    this._schedule();
  }

  close() {
    if (!this._opened) return;
    this._opened = false;
    this._unfollow();
    for (const view of [...this._views.values(), ...this._lines.values()]) view.close();
    if (this.timeline) this.timeline.close();
    document.removeEventListener("visibilitychange", this._visible);
    cancelAnimationFrame(this._frame);
    clearTimeout(this._clock);
    clearTimeout(this._resting);
    this._frame = this._clock = this._resting = 0;
  }

  _follow() {
    const told = { event: (name, data) => this._take(data), state: (word, detail) => this._state(word, detail) };
    this._follower = this._api.follow(this._run, this._model.last, told);
  }

  _unfollow() {
    if (this._follower) this._follower.close();
    this._follower = null;
    clearTimeout(this._looking);
  }

  _take(event) {
    const model = this._model;
    if (typeof event.at === "number") this._fresh = this._api.now() - event.at < WATCHED;
    const first = model.last === 0;
    model.take(event);
    if (model.stale) {
      this._startOver();
      return;
    }
    if (first && model.last) this._told.started(this._run);
    if (event.type === "run_ended") this._over();
    this._schedule();
  }

  _startOver() {
    this._unfollow();
    for (const view of this._views.values()) view.close();
    this._begin();
    if (this.timeline) {
      this.timeline.close();
      this.timeline.open(this._model);
    }
    this._follow();
  }

  _state(word, detail) {
    this._line = word;
    if (word === "lost") this._lostAt ??= Math.max(this._now(), this._model.at); // what happens since then is not known
    if (word === "open") this._lostAt = null;
    if (word === "open") {
      clearTimeout(this._looking);
      this._looking = setTimeout(() => void this._look(), SOON);
    }
    this._problem(word === "refused" ? detail : "");
    const isNone = word === "refused" && !this._model.last; // it does not connect any more, and has no story
    this.status.hidden = isNone;
    if (this.timeline) this.timeline.element.hidden = isNone;
    this._schedule();
  }

  /** Events do not tell of a run that waits for its turn, or that nobody drives; the run itself does. */
  async _look() {
    if (this._model.outcome || !this._follower) return;
    try {
      const view = await this._api.ask("GET", `${this._path}?brief=true`);
      if (view.last_event > this._model.last) return; // there is more to come
      this._model.queued = view.status === "queued";
      this._model.interrupted = view.status === "interrupted";
      this._schedule();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem; // the banner, the login or the stream say what is wrong
    }
  }

  _over() {
    clearTimeout(this._looking);
    this._told.ended(this._run, this._model.outcome);
    void this._askLedger();
  }

  // What a person does

  /** Ask the server to end the run, and show what that ended. By force the next message starts fresh. */
  async stop(force = false) {
    await this._do(async () => {
      const receipt = await this._api.ask("POST", `${this._path}/${force ? "stop" : "interrupt"}`);
      this.receipt.replaceChildren(receiptView(receipt));
      this._say(receipt.stopped ? "Stopped" : "Nothing was stopped");
    });
  }

  async _goOn() {
    this.resume.disabled = true;
    await this._do(async () => {
      await this._api.ask("POST", `${this._path}/resume`);
      this._model.interrupted = false;
      this._schedule();
    });
    this.resume.disabled = false;
  }

  /** What can be tried where it came to nothing, see `again` above. */
  offer(again) {
    this.again.replaceChildren(...again.map((one) => this._againButton(one)));
    if (this._model) this._schedule();
  }

  _againButton({ words, title, act, choices }) {
    if (!choices) return el("button.small", { type: "button", title, onclick: () => void this._again(act) }, words);
    const entries = () => choices(this._route).map((one) => ({ text: one.text, act: () => void this._again(one.act) }));
    return menuButton(title, entries, words);
  }

  /** The route that was asked last. */
  get _route() {
    return this._model.attempts[this._model.attempts.length - 1]?.route ?? "";
  }

  /** One click is enough, and a second one does nothing. */
  async _again(act) {
    for (const button of this.again.children) button.disabled = true;
    await this._do(act);
    for (const button of this.again.children) button.disabled = false;
  }

  async _do(act) {
    this._problem("");
    try {
      await act();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      this._problem(problem.message);
    }
  }

  _answer(approval, body) {
    return this._api.ask("POST", `${this._path}/approvals/${encodeURIComponent(approval.id)}`, body);
  }

  _problem(text) {
    setText(this.problem, text || "");
    this.problem.hidden = !text;
  }

  _say(text) {
    setText(this.spoken, text);
  }

  // Drawing

  /** Somebody looks again: clocks that stood still go on. */
  _wake() {
    if (document.hidden) return;
    for (const view of this._views.values()) view.update();
    this._schedule();
  }

  _schedule() {
    if (this._frame) return;
    const rest = this._model.outcome ? 0 : this._restsUntil - performance.now();
    if (rest <= 0) this._frame = requestAnimationFrame(() => this._draw());
    else if (!this._resting) this._resting = setTimeout(() => this._rested(), rest);
  }

  _rested() {
    this._resting = 0;
    this._schedule();
  }

  _draw() {
    const began = performance.now();
    setTimeout(() => this._drawn(began)); // behind what the browser does for it
    this._frame = 0;
    const model = this._model;
    this._showSaid();
    this._showSegments();
    if (model.outcome && !this._settled) {
      this._settled = true;
      for (const view of this._views.values()) view.update();
    }
    this._showHead();
    this._showEnd();
    if (this.timeline) this.timeline.update();
  }

  _drawn(began) {
    const now = performance.now();
    this._restsUntil = now + Math.min(REST * (now - began), LONGEST_REST);
  }

  _showSaid() {
    const model = this._model;
    if (!model.last || this.said.firstChild) return;
    this.said.append(new SaidSegment(model, model.leftOut).element);
    this.element.setAttribute("aria-label", `Run: ${inputWords(model.input) || this._run}`);
  }

  _showSegments() {
    const { segments, outcome } = this._model;
    for (const segment of this._model.drain()) this._views.get(segment)?.update();
    for (const group of this._groups.take(segments, outcome !== null)) this._gather(group);
    for (; this._placed < segments.length; this._placed += 1) this._place(segments[this._placed]);
  }

  /** Calls that are over move into one line, which stands where the first of them stood. */
  _gather(group) {
    let line = this._lines.get(group);
    if (!line) {
      line = new ToolGroup(group, (segment) => this._viewOf(segment, false));
      this._lines.set(group, line);
      this._views.get(group.members[0])?.element.before(line.element);
    }
    for (; line.gathered < group.inside; line.gathered += 1) {
      const view = this._views.get(group.members[line.gathered]);
      if (!view) continue; // it has no place of its own yet
      view.close();
      view.element.remove();
      this._views.delete(group.members[line.gathered]);
    }
    line.update();
  }

  _place(segment) {
    const group = this._groups.of(segment);
    if (group) {
      const { element } = this._lines.get(group);
      if (!element.parentNode) this.body.append(element);
      return;
    }
    const view = this._viewOf(segment, this._fresh);
    if (this._text) this._text.update(); // the text before it may be over now
    this._text = segment.kind === "text" ? view : null;
    this._newest?.fold?.();
    this._newest = view;
    this._views.set(segment, view);
    this.body.append(view.element);
  }

  _viewOf(segment, fresh) {
    const model = this._model;
    switch (segment.kind) {
      case "text":
        return new TextSegment(segment, (one) => !model.outcome && model.isOpen(one));
      case "reasoning":
        return new ThoughtSegment(segment);
      case "refusal":
        return new RefusalSegment(segment);
      case "tool":
        return new ToolCard(segment, {
          answer: (approval, body) => this._answer(approval, body),
          save: (draft) => this._api.ask("POST", `${this._path}/drafts/${encodeURIComponent(draft.id)}/save`, {}),
          now: this._now,
          over: () => model.outcome !== null,
          fresh,
        });
      case "said":
        return new SaidSegment(segment);
      default:
        return new NoticeSegment(segment);
    }
  }

  _showHead() {
    const model = this._model;
    const { status } = model;
    const now = Math.max(this._now(), model.at);
    if (this.element.dataset.status !== status) {
      this.element.dataset.status = status;
      setText(this.status, STATUS[status] || status);
      if (status !== "connecting" && this._fresh) this._say(this._statusWords(status));
    }
    setText(this.elapsed, model.last ? span((model.endedAt ?? now) - model.startedAt) : "");
    setText(this.waiting, this._waitingWords(now));
    this.resume.hidden = !model.interrupted;
    const live = model.last > 0 && !model.outcome;
    clearTimeout(this._clock);
    this._clock = live && !document.hidden && this._follower ? setTimeout(() => this._showHead(), 1000) : 0;
  }

  _statusWords(status) {
    const [asked] = this._model.pending;
    const what = status === "waiting_for_approval" && asked ? `: ${asked.question || asked.tool.name}` : "";
    return `${STATUS[status] || status}${what}`;
  }

  _waitingWords(now) {
    const model = this._model;
    if (this._lostAt !== null) return "Connection lost, reconnecting…";
    if (model.outcome || !model.last) return "";
    if (model.interrupted) return "No process is running it. It is saved and can be resumed.";
    const on = model.waitingOn(now);
    if (!on || now - on.since < SILENT) {
      const broke = model.attempts.length > 1 ? model.attempts[model.attempts.length - 1].after : null;
      return broke ? capital(`${brokeWords(broke.event)}, ${didWords(broke.event.decision)}`) : "";
    }
    return capital(`${waitingWords(on)}, ${span(now - on.since)}`);
  }

  _showEnd() {
    const model = this._model;
    setText(this.usage, model.last ? usageWords(model) : "");
    const told = model.outcome;
    this.outcome.hidden = !told;
    this.again.hidden = !CAME_TO_NOTHING.has(told?.kind) || !this.again.firstChild;
    if (!told) return;
    this.changes.show(model.changedFiles);
    this.outcome.dataset.outcome = told.kind;
    const why = told.why && told.why !== "stopped" ? `: ${told.why}` : "";
    setText(this.outcome, `${STATUS[told.kind]} after ${span(model.endedAt - model.startedAt)}${why}`);
  }

  async _askLedger() {
    if (this._ledgerAsked || !ENDED.has(this._model.status)) return;
    this._ledgerAsked = true;
    if (!this._model.totals.recoveries && this._model.outcome.kind === "completed") return; // nothing can be in it
    try {
      const view = ledgerView(await this._api.ask("GET", `${this._path}/ledger`));
      this.ledger.replaceChildren(...(view ? [view] : []));
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem; // the story is whole without it
    }
  }
}
