// The calls of a run: what the model asked for, as it arrives and as it goes. Part of `RunFold`, and pure like it.
//
// One piece of work is one card, however often its call was cut: a `finish_call` that brings the rest of a draft
// belongs to the card of the call that it finishes. Calls are found by their id within their attempt; models that give
// no id, or the same one twice, are renamed by the server, so then the next call of that name is taken.

import { count, firstCharacters } from "./words.js";

const FINISH_CALL = "finish_call";

export class CallFold {
  constructor(show, touch) {
    this.all = []; // every card, in the order of its beginning
    this.drafts = new Map(); // by id, also the closed ones
    this.approvals = new Map();
    this.started = 0;
    this.asksRest = null; // the draft whose rest the model is asked for
    this._show = show;
    this._touch = touch;
    this._ofAttempt = []; // {tool, block, id, joins} of the attempt that is under way
    this._byBlock = new Map();
    this._nameless = new Map();
  }

  // As the model says them

  asked() {
    this._ofAttempt = [];
    this._byBlock.clear();
    this._nameless.clear();
  }

  began(event, at, attempt) {
    if (!event.name) {
      this._nameless.set(event.block, event.call_id);
      return;
    }
    this.#open(event.block, event.call_id, event.name, at, attempt);
  }

  named(event, at, attempt) {
    const known = this._byBlock.get(event.block);
    if (!known) {
      this.#open(event.block, event.call_id || this._nameless.get(event.block) || "", event.name, at, attempt);
      return;
    }
    known.id = event.call_id || known.id;
    if (!known.joins && event.name) known.tool.name = event.name;
    this._touch(known.tool);
  }

  /** More argument text; the card that it belongs to. */
  grew(event, at, attempt) {
    const known =
      this._byBlock.get(event.block) || this.#open(event.block, this._nameless.get(event.block) || "", "", at, attempt);
    const many = count(event.text);
    const part = known.tool.parts[known.tool.parts.length - 1];
    part.pieces.push(event.text);
    part.characters += many;
    known.tool.characters += many;
    this._touch(known.tool);
    return known.tool;
  }

  rewritten(event, at, attempt) {
    const known = this._byBlock.get(event.block) || this.#open(event.block, "", "", at, attempt);
    const part = known.tool.parts[known.tool.parts.length - 1];
    known.tool.characters += count(event.arguments) - part.characters;
    part.pieces = [event.arguments];
    part.characters = count(event.arguments);
    part.rewritten += 1;
    this._touch(known.tool);
  }

  /** The name of the call that this block is. */
  nameOf(block) {
    const known = this._byBlock.get(block);
    return known ? known.tool.name || "a call" : "a call";
  }

  /** The reply is whole: its calls may run. */
  arrived() {
    for (const { tool } of this._ofAttempt) this.#state(tool, "arriving", "ready");
  }

  /** The reply was cut: none of its calls runs. What was kept as a draft already says so. */
  broke() {
    for (const { tool, joins } of this._ofAttempt) {
      this.#state(tool, "arriving", joins ? "draft" : "dropped");
      this.#state(tool, "ready", joins ? "draft" : "dropped");
    }
  }

  #open(block, id, name, at, attempt) {
    const draft = name === FINISH_CALL ? this.#draftToFinish() : null;
    const tool = draft ? draft.card : this.#card(name, at, attempt);
    tool.parts.push({ attempt, pieces: [], characters: 0, rewritten: 0, rest: draft !== null });
    tool.state = "arriving";
    tool.callId = "";
    const known = { tool, id, joins: draft !== null };
    this._ofAttempt.push(known);
    this._byBlock.set(block, known);
    this._touch(tool);
    return known;
  }

  #card(name, at, attempt) {
    const tool = {
      kind: "tool",
      name,
      callId: "", // once the server has said by which id it goes on
      attempt,
      state: "arriving",
      parts: [], // what arrived of its arguments, one entry per attempt
      characters: 0,
      arguments: null, // exact, once it may start
      draft: null,
      approval: null,
      handed: null,
      output: [],
      outcome: null,
      notes: [],
      beganAt: at,
      startedAt: null,
      endedAt: null,
      runs: 0,
    };
    this.all.push(tool);
    this._show(tool);
    return tool;
  }

  /** A call that nobody saw arrive under this id: the server made two of one, or events before it are not known. */
  #unannounced(id, name, at) {
    const tool = this.#card(name, at, 0);
    tool.callId = id;
    this._ofAttempt.push({ tool, id, joins: false });
    return tool;
  }

  #draftToFinish() {
    const taken = (draft) => this._ofAttempt.some((known) => known.tool === draft.card);
    const asked = this.drafts.get(this.asksRest);
    if (asked && !asked.how && asked.card && !taken(asked)) return asked;
    for (const draft of this.drafts.values()) {
      if (!draft.how && draft.card && !taken(draft)) return draft; // a run has few drafts
    }
    return null;
  }

  #state(tool, from, to) {
    if (tool.state !== from) return;
    tool.state = to;
    this._touch(tool);
  }

  // Drafts

  kept(event, at) {
    const found = event.draft;
    const last = this._ofAttempt[this._ofAttempt.length - 1];
    const card = last ? last.tool : this.#unannounced("", found.tool, at);
    const draft = {
      id: found.id,
      tool: found.tool,
      argument: found.argument,
      settled: found.settled,
      closed: found.closed,
      pieces: [found.text],
      characters: count(found.text),
      sizes: [count(found.text)],
      how: "",
      card,
    };
    this.drafts.set(found.id, draft);
    card.draft = draft;
    card.state = "draft";
    this._touch(card);
  }

  grown(event) {
    const draft = this.drafts.get(event.draft);
    if (!draft) return;
    while (draft.pieces.length && draft.characters > event.kept) {
      const size = draft.sizes.pop();
      const piece = draft.pieces.pop();
      draft.characters -= size;
      if (draft.characters < event.kept) this.#append(draft, firstCharacters(piece, event.kept - draft.characters));
    }
    this.#append(draft, event.added);
    if (draft.card) this._touch(draft.card);
  }

  #append(draft, text) {
    const many = count(text);
    draft.pieces.push(text);
    draft.sizes.push(many);
    draft.characters += many;
  }

  closed(event) {
    const draft = this.drafts.get(event.draft);
    if (!draft) return;
    draft.how = event.how;
    if (event.how === "superseded" && draft.card) this.#state(draft.card, "draft", "superseded");
  }

  get openDrafts() {
    return [...this.drafts.values()].filter((draft) => !draft.how);
  }

  // As they run

  start(event, at) {
    const tool = this.#found(event.call_id, event.name) || this.#unannounced(event.call_id, event.name, at);
    tool.name = event.name;
    tool.arguments = event.arguments;
    tool.callId = event.call_id;
    tool.startedAt = at;
    tool.endedAt = null;
    tool.state = "running";
    tool.runs += 1;
    this.started += 1;
    this._touch(tool);
    return tool;
  }

  said(event) {
    const tool = this.#found(event.call_id, "");
    if (!tool) return null;
    tool.output.push(event.text);
    this._touch(tool);
    return tool;
  }

  finish(event, at) {
    const found = this.#found(event.call_id, event.name);
    if (event.name === FINISH_CALL && found && found.draft) {
      // The turn itself answered: the draft has grown, or the join was refused.
      found.notes.push(event.outcome.text);
      found.state = "draft";
      this._touch(found);
      return null;
    }
    const tool = found || this.#unannounced(event.call_id, event.name, at);
    tool.outcome = event.outcome;
    tool.endedAt = at;
    tool.state = event.outcome.status;
    this._touch(tool);
    return tool;
  }

  ask(event, at) {
    const tool = this.#found(event.call_id, event.name) || this.#unannounced(event.call_id, event.name, at);
    const approval = {
      id: event.approval,
      tool,
      question: event.question || "",
      isQuestion: event.kind === "question",
      arguments: event.arguments,
      expires: event.expires ?? null,
      askedAt: at,
      verdict: "pending",
      by: "",
      text: "",
      answeredAt: null,
    };
    tool.approval = approval;
    tool.arguments = tool.arguments || event.arguments;
    if (tool.name === FINISH_CALL || !tool.name) tool.name = event.name;
    this.approvals.set(approval.id, approval);
    this._touch(tool);
    return approval;
  }

  answer(event, at) {
    const approval = this.approvals.get(event.approval);
    if (!approval || approval.verdict !== "pending") return null;
    approval.verdict = event.verdict;
    approval.by = event.by || "";
    approval.text = event.text || "";
    approval.answeredAt = at;
    this._touch(approval.tool);
    return approval;
  }

  handOver(calls, at) {
    for (const call of calls) {
      const tool = this.#found(call.inner, call.name) || this.#unannounced(call.inner, call.name, at);
      tool.name = call.name;
      tool.handed = call;
      tool.state = "handed";
      this._touch(tool);
    }
  }

  #found(id, name) {
    const ofAttempt = this._ofAttempt;
    const known =
      ofAttempt.find((one) => one.tool.callId === id && id) ||
      ofAttempt.find((one) => one.id === id && id && !one.tool.callId) ||
      ofAttempt.find((one) => name && one.tool.name === name && !one.tool.callId && one.tool.state === "ready");
    if (!known) return null;
    known.tool.callId = id || known.tool.callId;
    return known.tool;
  }
}
