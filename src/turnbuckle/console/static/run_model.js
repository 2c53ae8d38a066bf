// One run as the page draws it, from what the server tells of it: `GET /v1/runs/{id}/events?told=true`.
//
// Pure: no page, no clock, no request. `take` an event; it costs the same however long the run is: pieces are appended
// to lists and never joined here. What changed since the last look is in `drain()`. Events that were taken before are
// ignored, so a reader may come back at any point. A `reset` says that events were merged or lost since: then `stale`
// is set, and the run is to be read again from its first event.
//
// What a run means is decided by the server alone: where a paragraph begins, which card a call belongs to, what is
// waited for. `segments` is what a reader sees, from the top down: texts, thoughts, calls, notices, what the user said
// meanwhile. `spans` is the same in time, for the timeline and the list of steps: each has a kind, a start, and an end
// once it is over. Times are the server's, and never run backwards here.

import { CallCards } from "./call_cards.js";
import { count, whole } from "./words.js";

export const ENDED = new Set(["completed", "partial", "cancelled", "failed"]);
const QUIET = 1.0; // seconds; a longer silence between two pieces is seen as a gap, a shorter one is how models talk
const MOST_PHASES = 400; // in one attempt; behind that the last one grows, so that a page never draws thousands
const DECLINED = "the model declined"; // the server's words for it
const TONES = { break: "recovery", restarted: "recovery", crashed: "recovery", given_up: "bad" };

export class RunModel {
  constructor() {
    this.last = 0;
    this.at = 0; // the time of the newest event
    this.startedAt = 0;
    this.endedAt = null;
    this.run = "";
    this.session = "";
    this.model = "";
    this.input = [];
    this.leftOut = 0;
    this.segments = [];
    this.attempts = [];
    this.spans = [];
    this.notices = [];
    this.context = null; // how full the model's window is, once it was asked
    this.outcome = null;
    this.stopAsked = null;
    this.interrupted = false;
    this.queued = false;
    this.stale = false;
    this.most = { money: null, tokens: null }; // what the run may use
    this.totals = { input: 0, output: 0, cached: 0, cost: null, unpriced: 0, asks: 0, recoveries: 0 };
    this.calls = new CallCards(
      (tool) => this.#show(tool),
      (tool) => this._changed.add(tool),
    );
    this._waits = null;
    this._heardAt = 0;
    this._growing = null; // the card whose arguments were heard last
    this._changed = new Set();
    this._answer = [];
    this._text = null; // the text that further words belong to
    this._thought = null;
    this._attempt = null;
    this._broke = null; // what the next request follows from
    this._wait = null;
    this._left = null;
  }

  // What is to be shown

  get status() {
    if (this.outcome) return this.outcome.kind;
    if (!this.last) return this.queued ? "queued" : "connecting";
    if (this.pending.length) return "waiting_for_approval";
    return this.interrupted || this._left !== null ? "interrupted" : "running";
  }

  get tools() {
    return this.calls.all;
  }

  get drafts() {
    return this.calls.drafts;
  }

  get approvals() {
    return this.calls.approvals;
  }

  /** How many files its file tools have changed. */
  get changedFiles() {
    const changes = this.calls.all.flatMap((tool) => tool.outcome?.changes ?? []);
    return new Set(changes.map((change) => change.path)).size;
  }

  get pending() {
    return [...this.calls.approvals.values()].filter((approval) => approval.verdict === "pending");
  }

  /** Whether more words may still be put into this text. */
  isOpen(segment) {
    return this._text === segment;
  }

  /** What the model said so far, as `GET /v1/runs/{id}` tells it. */
  get output() {
    return this._answer.join("");
  }

  /** Segments that changed since the last call. */
  drain() {
    const changed = [...this._changed];
    this._changed.clear();
    return changed;
  }

  /** What is waited for at this time: `{kind, detail, since}`, or null. */
  waitingOn(now) {
    const on = this._waits;
    if (!on || this.outcome || this.interrupted) return null;
    const { kind, detail, since = this._heardAt, pause = 0 } = on;
    if (pause) return { kind, detail: `next try in ${Math.round(Math.max(since + pause - now, 0))} s`, since };
    if (kind !== "provider" || !this._growing) return { kind, detail, since };
    return { kind, detail: `${detail}, ${whole(this._growing.characters)} characters`, since };
  }

  /** Take an event; true if it was new. */
  take(event) {
    if (event.type === "heartbeat") {
      this.queued = !this.last;
      return false;
    }
    if (event.type === "interrupted") {
      this.interrupted = !this.outcome;
      return true;
    }
    if (event.type === "reset") {
      this.stale = event.seq > this.last || event.after < this.last;
      return false;
    }
    if (!(event.seq > this.last)) return false;
    const before = this.at;
    this.last = event.seq;
    this.at = Math.max(event.at, before);
    this.interrupted = false;
    if (event.merged && this._attempt) this._attempt.span.merged = true;
    this._from = event.from ?? this.at; // several pieces may be one event
    for (const told of event.told) RunModel.#acts[told.type]?.call(this, told, this.at, before);
    return true;
  }

  // What the model says

  #heard(kind, text, at, card = null) {
    this._heardAt = at;
    this._growing = card;
    const attempt = this._attempt;
    if (!attempt) return;
    const many = count(text);
    attempt.characters += many;
    if (kind === "reasoning") attempt.thought += many;
    this.#phase(attempt.span, kind, at, many, card ? card.name || "a call" : "");
  }

  _words({ text, gap = 0, refusal = false }, at) {
    const words = gap ? text.slice(gap) : text;
    this.#heard("text", words, at);
    this._answer.push(text);
    this._thought = null;
    const last = refusal ? this.segments[this.segments.length - 1] : this._text;
    let segment = refusal && last?.kind !== "refusal" ? null : last;
    if (!segment) {
      segment = { kind: refusal ? "refusal" : "text", pieces: [], attempt: this._attempt?.number };
      this.#show(segment);
      if (!refusal) this._text = segment;
    }
    segment.pieces.push(words);
    this._changed.add(segment);
  }

  _reasoning({ text }, at) {
    this.#heard("reasoning", text, at);
    if (!this._thought) {
      this._thought = { kind: "reasoning", pieces: [], characters: 0, attempt: this._attempt?.number };
      this.#show(this._thought);
    }
    this._thought.pieces.push(text);
    this._thought.characters += text.length;
    this._changed.add(this._thought);
  }

  _called(told, at) {
    this.#endWait(at);
    const { attempt: number, route, model, why, stream = true } = told;
    const after = this._broke;
    this._broke = null;
    const attempt = { number, route, model, why, stream, after, parts: [] };
    this.most = { money: told.max_money ?? null, tokens: told.max_tokens ?? null };
    if (why !== "compact") this.context = { used: told.expected || 0, window: told.window || null };
    Object.assign(attempt, { usage: null, cost: null, characters: 0, thought: 0, finish: "", failure: null, decided: null });
    this._attempt = attempt;
    this.attempts.push(attempt);
    this.totals.asks += 1;
    if (!this.model) this.model = model;
    attempt.span = this.#span("model", at, { attempt, phases: [], heardAt: null, merged: false });
    if (after) after.span.next = attempt.span;
    this._thought = null;
  }

  _replyOver({ finish = "", failure = null, cost = null }, at) {
    this._thought = null;
    const attempt = this._attempt;
    if (!attempt) return;
    const { span } = attempt;
    span.end ??= at;
    Object.assign(attempt, { finish, failure, cost });
    if (cost !== null) this.totals.cost = (this.totals.cost || 0) + cost;
    else if (attempt.usage) this.totals.unpriced += 1;
    const quietSince = span.heardAt ?? span.start;
    if (failure?.kind === "stalled" && span.end > quietSince) {
      const stall = this.#span("stall", quietSince, { attempt, failure });
      stall.end = span.end;
    }
  }

  _broken(told, at) {
    const attempt = this._attempt;
    const { decision } = told;
    this.totals.recoveries += decision.type === "give_up" ? 0 : 1;
    const span = this.#mark("recovery", at, { event: told, from: attempt ? attempt.span : null, next: null, kept: told.gained || 0 });
    if (decision.draft) span.kept = this.calls.drafts.get(decision.draft)?.characters ?? span.kept;
    this._broke = { event: told, span };
    if (attempt) {
      attempt.decided = told;
      attempt.span.end ??= at;
    }
    if (decision.after > 0) this._wait = this.#span("wait", at, { event: told, seconds: decision.after });
  }

  _usage({ usage }) {
    const attempt = this._attempt;
    if (!attempt) return;
    const before = attempt.usage || { input: 0, output: 0, cached: 0 };
    const { input, output, cached } = usage;
    this.totals.input += (input || 0) - (before.input || 0);
    this.totals.output += (output || 0) - (before.output || 0);
    this.totals.cached += (cached || 0) - (before.cached || 0);
    attempt.usage = usage;
    if (attempt.why !== "compact" && input && this.context) this.context.used = input + (output || 0);
  }

  // What else happens

  _begun(told, at) {
    this.startedAt = at;
    this.run = told.run;
    this.session = told.session;
    this.model = told.model || "";
    this.input = told.input;
    this.leftOut = told.left_out || 0;
  }

  _ended(told, at) {
    this.#endWait(at);
    this.#halt(at);
    for (const approval of this.pending) this.calls.answered({ approval: approval.id, verdict: "withdrawn" }, at);
    this.outcome = told.end;
    this.endedAt = at;
    this.#settle(told.spent);
    this.#toldByTheEnd(told.end.why || "");
    this._left = null;
    this.#mark("end", at, { outcome: told.end });
  }

  /** What the whole run has used: of a reply that was cut nobody counts the tokens, and the server estimates them. */
  #settle(spent) {
    if (!spent) return; // an older server wrote it
    const { input_tokens: input = 0, output_tokens: output = 0, cached_tokens: cached = 0 } = spent;
    const { cost = null, unpriced_calls: unpriced = 0 } = spent;
    Object.assign(this.totals, { input, output, cached, cost, unpriced });
  }

  /** Why it came to nothing is said once. The end says it, so what said it before stands back. */
  #toldByTheEnd(why) {
    for (const segment of this.segments.slice(-2)) {
      const { kind } = segment;
      const repeats = kind === "refusal" ? why === DECLINED : kind === "notice" && segment.tone === "bad" && segment.text.endsWith(why);
      if (!why || !repeats) continue;
      segment.isTold = true;
      this._changed.add(segment);
    }
  }

  _toolEnded(told, at) {
    const tool = this.calls.ended(told, at);
    if (!tool) return;
    if (tool.span) tool.span.end ??= at;
    else if (tool.startedAt === null) tool.span = this.#mark("tool", at, { tool }); // it never started
  }

  _notice({ text, about = "break", detail = "" }, at, before) {
    const notice = { kind: "notice", text, tone: TONES[about] || "quiet", at };
    if (about === "compaction" && detail) notice.summary = detail;
    this.notices.push(notice);
    this.#show(notice);
    if (about === "left") {
      this.#halt(at);
      this._left = this.#span("interrupted", at, { why: detail, crash: false });
    } else if (about === "restarted" || about === "crashed") {
      this.#halt(before);
      const span = this._left || this.#span("interrupted", before, { why: "", crash: true });
      span.end = at;
      this._left = null;
    } else if (about === "stop" && !this.stopAsked) {
      this.stopAsked = { by: detail, at };
      this.#mark("stop", at, { by: detail });
    }
  }

  // Spans

  #span(kind, start, facts) {
    const span = { kind, start, end: null, ...facts };
    this.spans.push(span);
    return span;
  }

  #mark(kind, at, facts) {
    const span = this.#span(kind, at, facts);
    span.end = at;
    return span;
  }

  #phase(span, kind, at, many, name) {
    span.heardAt = at;
    const last = span.phases[span.phases.length - 1];
    const goesOn = last && last.kind === kind && last.name === name && this._from - last.end <= QUIET;
    if (goesOn || (last && span.phases.length >= MOST_PHASES)) {
      last.end = at;
      last.characters += many;
    } else {
      span.phases.push({ kind, name, start: Math.min(this._from, at), end: at, characters: many });
    }
  }

  /** Whatever is under way is over, without having said so. */
  #halt(at) {
    if (this._attempt) this._attempt.span.end ??= at;
    for (const tool of this.calls.all) if (tool.span) tool.span.end ??= at;
    for (const approval of this.outcome ? [] : this.pending) if (approval.span.end === null) approval.span.halted = at;
  }

  #endWait(at) {
    if (this._wait) this._wait.end ??= at;
    this._wait = null;
  }

  /** A text goes on behind thoughts and notices; it is over where anything else is shown. */
  #show(segment) {
    if (segment.kind !== "notice" && segment.kind !== "reasoning") this._text = null;
    this.segments.push(segment);
    this._changed.add(segment);
  }

  static #acts = {
    run_begun: this.prototype._begun,
    model_called: this.prototype._called,
    text: this.prototype._words,
    paragraph() {
      this._text = null;
    },
    reasoning: this.prototype._reasoning,
    reply_over: this.prototype._replyOver,
    usage: this.prototype._usage,
    broke: this.prototype._broken,
    notice: this.prototype._notice,
    waiting(told) {
      this._waits = told.kind ? told : null;
    },
    call_arriving(told, at) {
      const part = this.calls.arriving(told, at);
      if (this._attempt) this._attempt.parts.push(part);
    },
    call_grown(told, at) {
      const card = this.calls.grown(told);
      this.#heard("arguments", told.text, at, card);
    },
    call_moved(told) {
      this.calls.moved(told);
    },
    draft(told, at) {
      const { id, characters } = this.calls.draft(told, at);
      if (this._broke?.event.decision.draft === id) this._broke.span.kept = characters;
    },
    tool_begun(told, at) {
      const tool = this.calls.begun(told, at);
      tool.span = this.#span("tool", at, { tool });
    },
    tool_printed(told) {
      this.calls.printed(told);
    },
    tool_ended: this.prototype._toolEnded,
    question_asked(told, at) {
      const approval = this.calls.asked(told, at);
      approval.span = this.#span("approval", at, { approval });
    },
    question_answered(told, at) {
      const approval = this.calls.answered(told, at);
      if (approval) approval.span.end = at;
    },
    handed_over(told, at) {
      this.calls.handed(told, at);
      this.#mark("handed", at, { calls: told.calls });
    },
    user_said({ input }, at) {
      this.#show({ kind: "said", input, at });
      this.#mark("said", at, { input });
    },
    run_over: this.prototype._ended,
  };
}
