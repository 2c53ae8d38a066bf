// One run as a page shows it: a fold over the events of `GET /v1/runs/{id}/events`, in their order.
//
// Pure: no page, no clock, no request. `take` an event; it costs the same however long the run is: pieces are appended
// to lists and never joined here. What changed since the last look is in `drain()`. Events that were taken before are
// ignored, so a reader may come back at any point. A `reset` says that events were merged since: then `stale` is set,
// and the run is to be read again from its first event.
//
// `segments` is what a reader sees, from the top down: texts, thoughts, calls, notices, what the user said meanwhile.
// `spans` is the same story in time, for the timeline and the list of steps: each has a kind, a start, and an end once
// it is over. Times are the server's, and never run backwards here.

import { CallFold } from "./call_fold.js";
import { Paragraphs } from "./paragraphs.js";
import { Waiting } from "./waiting.js";
import { count } from "./words.js";

export const ENDED = new Set(["completed", "partial", "cancelled", "failed"]);
const PHASES = { text: "text", refusal: "text", reasoning: "reasoning", call_args: "arguments" };
const QUIET = 1.0; // seconds; a longer silence between two pieces is seen as a gap, a shorter one is how models talk
const MOST_PHASES = 400; // in one attempt; behind that the last one grows, so that a page never draws thousands

export class RunFold {
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
    this.outcome = null;
    this.stopAsked = null;
    this.interrupted = false;
    this.queued = false;
    this.stale = false;
    this.totals = { input: 0, output: 0, cost: null, asks: 0, recoveries: 0 };
    this.calls = new CallFold(
      (tool) => this.#show(tool),
      (tool) => this._changed.add(tool),
    );
    this._waiting = new Waiting();
    this._changed = new Set();
    this._answer = [];
    this._paragraphs = new Paragraphs();
    this._text = null; // the text that further words belong to
    this._thought = null;
    this._attempt = null;
    this._broke = null; // the decision that the next request follows from
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

  get pending() {
    return [...this.calls.approvals.values()].filter((one) => one.verdict === "pending");
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

  waitingOn(now) {
    return this.outcome || this.interrupted ? null : this._waiting.on(now);
  }

  // Taking events

  /** True if the event was new. */
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
      this.stale = event.seq > this.last;
      return false;
    }
    if (!(event.seq > this.last)) return false;
    const before = this.at;
    this.last = event.seq;
    this.at = Math.max(event.at, before);
    this.interrupted = false;
    this._waiting.take(event, this.at);
    const act = ACTS[event.type];
    if (act) act.call(this, event, this.at, before);
    return true;
  }

  _started(event, at) {
    this.startedAt = at;
    this.run = event.run;
    this.session = event.session;
    this.model = event.model || "";
    this.input = event.input;
    this.leftOut = event.left_out || 0;
    if (event.notice) this._notice(event.notice, "quiet", at);
  }

  _asked(event, at) {
    this._endWait(at);
    const broke = this._broke;
    this._broke = null;
    const attempt = {
      number: event.attempt,
      route: event.route,
      model: event.model,
      why: event.why,
      stream: event.stream,
      usage: null,
      characters: 0,
      thought: 0,
      finish: "",
      failure: null,
      decided: null,
      after: broke,
      spoke: false,
    };
    this._attempt = attempt;
    this.attempts.push(attempt);
    this.totals.asks += 1;
    if (!this.model) this.model = event.model;
    attempt.span = this._span("model", at, { attempt, phases: [], heardAt: null, merged: false });
    if (broke) broke.span.next = attempt.span;
    if (!broke) this._text = null; // behind a break further words belong to the same text
    this._thought = null;
    this._paragraphs.asked(event);
    this.calls.asked();
  }

  _streamed(event, at) {
    const attempt = this._attempt;
    if (!attempt) return;
    if (event.merged) attempt.span.merged = true;
    for (const one of event.events) {
      const act = SAID[one.type];
      if (act) act.call(this, one, at, attempt);
    }
  }

  _decided(event, at) {
    const attempt = this._attempt;
    this.calls.broke();
    this.totals.recoveries += event.decision.type === "give_up" ? 0 : 1;
    const decision = event.decision;
    const then = decision.then || decision;
    this.calls.asksRest = then.type === "finish_draft" ? then.draft : null;
    const span = this._span("recovery", at, { event, from: attempt ? attempt.span : null, next: null });
    span.end = at;
    this._broke = { event, span };
    if (attempt) {
      attempt.decided = event;
      attempt.span.end ??= at;
    }
    if (event.notice) this._notice(event.notice, decision.type === "give_up" ? "bad" : "recovery", at);
    if (decision.after > 0) this._wait = this._span("wait", at, { event, seconds: decision.after });
  }

  _toolStarted(event, at) {
    this._paragraphs.part();
    const tool = this.calls.start(event, at);
    tool.span = this._span("tool", at, { tool });
  }

  _toolFinished(event, at) {
    this._paragraphs.part();
    const tool = this.calls.finish(event, at);
    if (!tool) return;
    if (tool.span) tool.span.end ??= at;
    else if (tool.startedAt === null) tool.span = this._mark("tool", at, { tool }); // it never started
  }

  _approvalAsked(event, at) {
    const approval = this.calls.ask(event, at);
    approval.span = this._span("approval", at, { approval });
  }

  _approvalAnswered(event, at) {
    const approval = this.calls.answer(event, at);
    if (approval) approval.span.end = at;
  }

  _handed(event, at) {
    this.calls.handOver(event.calls, at);
    this._mark("handed", at, { calls: event.calls });
  }

  _spoke(event, at) {
    this._text = null;
    this.#show({ kind: "said", input: event.input, at });
    this._mark("said", at, { input: event.input });
  }

  _leftBy(event, at) {
    this._halt(at);
    this._left = this._span("interrupted", at, { why: event.why, crash: false });
    this._notice(`Let go of: ${event.why}. It is kept, and can be resumed.`, "quiet", at);
  }

  _claimed(event, at, before) {
    this._halt(before);
    const span = this._left || this._span("interrupted", before, { why: "", crash: true });
    span.end = at;
    this._left = null;
    this._notice(`taken up again after ${span.crash ? "its process died" : "a restart"}`, "recovery", at);
  }

  _stopWanted(event, at) {
    this._notice("stopping", "quiet", at);
    if (this.stopAsked) return;
    this.stopAsked = { by: event.by, at };
    this._mark("stop", at, { by: event.by });
  }

  _ended(event, at) {
    this._endWait(at);
    this._halt(at);
    for (const approval of this.pending) this.calls.answer({ approval: approval.id, verdict: "withdrawn" }, at);
    this.calls.broke();
    this.outcome = event.outcome;
    this.endedAt = at;
    this._left = null;
    this._mark("end", at, { outcome: event.outcome });
  }

  // What the model says

  _content(one, at, attempt, kind) {
    const many = count(one.text);
    attempt.characters += many;
    if (kind === "reasoning") attempt.thought += many;
    this._phase(attempt.span, kind, at, many, kind === "arguments" ? this.calls.nameOf(one.block) : "");
  }

  _textDelta(one, at, attempt) {
    this._content(one, at, attempt, "text");
    this._thought = null;
    const between = this._paragraphs.words(attempt.number, one);
    if (!this._text || between) {
      this._text = { kind: "text", pieces: [], attempt: attempt.number };
      this.#show(this._text);
    }
    this._text.pieces.push(one.text);
    this._changed.add(this._text);
    this._answer.push(between, one.text);
    attempt.spoke = true;
  }

  _reasoningDelta(one, at, attempt) {
    this._content(one, at, attempt, "reasoning");
    if (!this._thought) {
      this._thought = { kind: "reasoning", pieces: [], characters: 0, attempt: attempt.number };
      const text = this._text;
      this.#show(this._thought);
      if (attempt.after && !attempt.spoke) this._text = text; // a text that goes on behind a break stays one text
    }
    if (one.text) this._paragraphs.thought(attempt.number, one.block);
    this._thought.pieces.push(one.text);
    this._thought.characters += one.text.length;
    this._changed.add(this._thought);
  }

  _refusalDelta(one, at, attempt) {
    this._content(one, at, attempt, "text");
    const last = this.segments[this.segments.length - 1];
    const refusal = last && last.kind === "refusal" ? last : { kind: "refusal", pieces: [] };
    if (refusal !== last) this.#show(refusal);
    refusal.pieces.push(one.text);
    this._changed.add(refusal);
    this._answer.push(this._paragraphs.words(attempt.number, one), one.text);
  }

  _usage(one, at, attempt) {
    const before = attempt.usage || { input: 0, output: 0, cost: null };
    const { input, output, cost } = one.usage;
    this.totals.input += (input || 0) - (before.input || 0);
    this.totals.output += (output || 0) - (before.output || 0);
    if (typeof cost === "number") this.totals.cost = (this.totals.cost || 0) + cost - (before.cost || 0);
    attempt.usage = one.usage;
  }

  _lastWord(one, at, attempt) {
    const span = attempt.span;
    span.end ??= at;
    this._thought = null;
    if (one.type === "ended") {
      this.calls.arrived();
      return;
    }
    attempt.failure = one.failure;
    const quietSince = span.heardAt ?? span.start;
    if (one.failure.kind === "stalled" && span.end > quietSince) {
      const stall = this._span("stall", quietSince, { attempt, failure: one.failure });
      stall.end = span.end;
    }
  }

  // Spans

  _span(kind, start, facts) {
    const span = { kind, start, end: null, ...facts };
    this.spans.push(span);
    return span;
  }

  _mark(kind, at, facts) {
    const span = this._span(kind, at, facts);
    span.end = at;
    return span;
  }

  _phase(span, kind, at, many, name) {
    span.heardAt = at;
    const last = span.phases[span.phases.length - 1];
    const goesOn = last && last.kind === kind && last.name === name && at - last.end <= QUIET;
    if (goesOn || (last && span.phases.length >= MOST_PHASES)) {
      last.end = at;
      last.characters += many;
    } else {
      span.phases.push({ kind, name, start: at, end: at, characters: many });
    }
  }

  /** Whatever is under way is over, without having said so. */
  _halt(at) {
    if (this._attempt) this._attempt.span.end ??= at;
    for (const tool of this.calls.all) if (tool.span) tool.span.end ??= at;
    for (const approval of this.outcome ? [] : this.pending) if (approval.span.end === null) approval.span.halted = at;
  }

  _endWait(at) {
    if (this._wait) this._wait.end ??= at;
    this._wait = null;
  }

  _notice(text, tone, at) {
    const notice = { kind: "notice", text, tone, at };
    this.notices.push(notice);
    const goesOn = this._text;
    this.#show(notice);
    this._text = goesOn;
  }

  #show(segment) {
    if (segment.kind !== "text") this._text = null;
    this.segments.push(segment);
    this._changed.add(segment);
  }
}

const ACTS = {
  run_started: RunFold.prototype._started,
  run_claimed: RunFold.prototype._claimed,
  model_asked: RunFold.prototype._asked,
  streamed: RunFold.prototype._streamed,
  decided: RunFold.prototype._decided,
  draft_kept(event, at) {
    this.calls.kept(event, at);
  },
  noticed(event, at) {
    this._notice(event.notice, "quiet", at);
  },
  draft_grown(event) {
    this.calls.grown(event);
  },
  draft_closed(event) {
    this.calls.closed(event);
  },
  calls_held() {}, // the note to the model and the starts that follow tell it
  user_spoke: RunFold.prototype._spoke,
  tool_started: RunFold.prototype._toolStarted,
  tool_said(event) {
    this.calls.said(event);
  },
  tool_finished: RunFold.prototype._toolFinished,
  approval_asked: RunFold.prototype._approvalAsked,
  approval_answered: RunFold.prototype._approvalAnswered,
  calls_handed_over: RunFold.prototype._handed,
  run_left: RunFold.prototype._leftBy,
  stop_asked: RunFold.prototype._stopWanted,
  run_ended: RunFold.prototype._ended,
};

const SAID = {
  text: RunFold.prototype._textDelta,
  reasoning: RunFold.prototype._reasoningDelta,
  refusal: RunFold.prototype._refusalDelta,
  call_started(one, at, attempt) {
    this.calls.began(one, at, attempt.number);
  },
  call_named(one, at, attempt) {
    this.calls.named(one, at, attempt.number);
  },
  call_args(one, at, attempt) {
    this.calls.grew(one, at, attempt.number);
    this._content(one, at, attempt, PHASES.call_args);
  },
  call_rewritten(one, at, attempt) {
    this.calls.rewritten(one, at, attempt.number);
  },
  state(one, at, attempt) {
    if (one.data.type === "reasoning") this._paragraphs.thought(attempt.number, one.block);
  },
  usage: RunFold.prototype._usage,
  finish(one, at, attempt) {
    attempt.finish = one.finish;
  },
  ended: RunFold.prototype._lastWord,
  cut: RunFold.prototype._lastWord,
};
