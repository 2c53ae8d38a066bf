// The calls of a run as cards: what the server tells of each, by its number. Part of `RunModel`, and pure like it.

import { count, firstCharacters } from "./words.js";

export class CallCards {
  constructor(show, touch) {
    this.all = []; // every card, in the order of its beginning
    this.drafts = new Map(); // by id, also the closed ones
    this.approvals = new Map();
    this.started = 0;
    this._show = show;
    this._touch = touch;
    this._cards = new Map(); // by number
  }

  get openDrafts() {
    return [...this.drafts.values()].filter((draft) => !draft.how);
  }

  // As the model says them

  arriving({ card, name, attempt, rest = false }, at) {
    const tool = this.#card(card, name, at, attempt);
    const part = { tool, attempt, pieces: [], characters: 0, rewritten: 0, rest, kept: null };
    tool.parts.push(part);
    tool.state = "arriving";
    this._touch(tool);
    return part;
  }

  grown({ card, text, rewritten }) {
    const tool = this._cards.get(card);
    const part = tool.parts[tool.parts.length - 1];
    const many = count(text);
    if (rewritten) {
      tool.characters -= part.characters;
      part.characters = 0;
      part.pieces = [];
      part.rewritten += 1;
    }
    part.pieces.push(text);
    part.characters += many;
    tool.characters += many;
    this._touch(tool);
    return tool;
  }

  moved({ card, name, state }) {
    const tool = this._cards.get(card);
    tool.name = name;
    tool.state = state;
    this._touch(tool);
  }

  draft(told, at) {
    const tool = this.#card(told.card, told.tool, at);
    let draft = this.drafts.get(told.draft);
    if (!draft) {
      const { draft: id, argument, settled = {} } = told;
      draft = { id, tool: told.tool, argument, settled, pieces: [], characters: 0, sizes: [], how: "", card: tool };
      this.drafts.set(id, draft);
      tool.draft = draft;
      tool.state = "draft";
    }
    if (told.how) draft.how = told.how;
    else {
      grow(draft, told.kept ?? 0, told.added ?? "");
      counted(tool, draft.characters);
    }
    this._touch(tool);
    return draft;
  }

  // As they run

  begun({ card, tool: name, arguments: args, call }, at) {
    const tool = this.#card(card, name, at);
    Object.assign(tool, { name, arguments: args, callId: call, startedAt: at, endedAt: null, state: "running" });
    tool.runs += 1;
    this.started += 1;
    const whole = tool.draft && args?.[tool.draft.argument];
    if (typeof whole === "string") counted(tool, count(whole));
    this._touch(tool);
    return tool;
  }

  printed({ card, text }) {
    const tool = this._cards.get(card);
    if (!tool) return;
    tool.output.push(text);
    this._touch(tool);
  }

  ended({ card, tool: name, call, outcome, joins = false }, at) {
    const tool = this.#card(card, name, at);
    this._touch(tool);
    if (joins && tool.draft) {
      // The turn itself answered: the draft has grown, or the join was refused.
      tool.notes.push(outcome.text);
      tool.state = "draft";
      return null;
    }
    Object.assign(tool, { outcome, endedAt: at, state: outcome.status, callId: tool.callId || call });
    return tool;
  }

  asked(told, at) {
    const tool = this.#card(told.card, told.tool, at);
    const approval = {
      id: told.approval,
      tool,
      question: told.question || "",
      isQuestion: told.kind === "question",
      arguments: told.arguments,
      expires: told.expires ?? null,
      title: told.title ?? "",
      why: told.why ?? "",
      command: told.command ?? "",
      changes: told.changes ?? [],
      always: told.always ?? [],
      askedAt: at,
      verdict: "pending",
      by: "",
      text: "",
      answeredAt: null,
    };
    tool.approval = approval;
    tool.arguments = tool.arguments || told.arguments;
    if (!tool.name) tool.name = told.tool;
    this.approvals.set(approval.id, approval);
    this._touch(tool);
    return approval;
  }

  answered({ approval: id, verdict, by = "", text = "" }, at) {
    const approval = this.approvals.get(id);
    if (!approval || approval.verdict !== "pending") return null;
    Object.assign(approval, { verdict, by, text, answeredAt: at });
    this._touch(approval.tool);
    return approval;
  }

  handed({ calls, cards }, at) {
    calls.forEach((call, place) => {
      const tool = this.#card(cards[place], call.name, at);
      Object.assign(tool, { name: call.name, handed: call, state: "handed" });
      this._touch(tool);
    });
  }

  #card(number, name, at, attempt = 0) {
    const known = this._cards.get(number);
    if (known) return known;
    const tool = {
      kind: "tool",
      name,
      callId: "",
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
    this._cards.set(number, tool);
    this.all.push(tool);
    this._show(tool);
    return tool;
  }
}

/** The first `kept` characters stay, and what was added comes behind them. */
function grow(draft, kept, added) {
  while (draft.pieces.length && draft.characters > kept) {
    draft.characters -= draft.sizes.pop();
    const piece = draft.pieces.pop();
    if (draft.characters < kept) append(draft, firstCharacters(piece, kept - draft.characters));
  }
  append(draft, added);
}

/** A draft has one count, that of its own text: the newest stream brought what no stream before it did. */
function counted(tool, characters) {
  const before = tool.parts.slice(0, -1).reduce((sum, part) => sum + (part.kept ?? 0), 0);
  const last = tool.parts[tool.parts.length - 1];
  if (last) last.kept = Math.max(characters - before, 0);
}

function append(draft, text) {
  const many = count(text);
  draft.pieces.push(text);
  draft.sizes.push(many);
  draft.characters += many;
}
