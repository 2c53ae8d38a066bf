// One call of a tool: its arguments as they arrive, how it goes, and how it ended. What never started, was killed, or
// ended where nobody saw it is told apart by word, sign and colour.

import { ApprovalCard } from "./approval_card.js";
import { ArgumentsReader } from "./arguments_reader.js";
import { CappedText } from "./capped_text.js";
import { diffView } from "./diff_view.js";
import { DraftView } from "./draft_view.js";
import { el, setText } from "./elements.js";
import { TOOL_STATE, many, plainly, shortArgument, shortened, span, whole } from "./words.js";

const SIGNS = {
  arriving: "⋯",
  ready: "⋯",
  running: "▶",
  draft: "✂",
  dropped: "✂",
  superseded: "↷",
  handed: "⇥",
  finished: "✓",
  failed: "✕",
  killed: "■",
  timed_out: "⏱",
  unknown: "?",
  not_started: "○",
  denied: "⊘",
};
const SHORT_VALUE = 160; // characters of a value that stands beside its name instead of in a box

export class ToolCard {
  /** `answer` and `now` are for approvals; `over` says whether the run has ended, so that a draft is there to stay.
   *  `fresh`: it is being seen as it happens, so it starts opened. */
  constructor(tool, { answer, now, over, fresh, save = null }) {
    this._tool = tool;
    this._parts = { answer, now, save };
    this._over = over;
    this._part = 0; // how much of what arrived is on the page
    this._piece = 0;
    this._reader = new ArgumentsReader();
    this._rewritten = 0;
    this._members = new Map();
    this._exact = null;
    this._said = 0;
    this._timer = 0;
    this._build(fresh);
    this.update();
  }

  _build(fresh) {
    this.sign = el("span.sign", { "aria-hidden": "true" });
    this.name = el("code.toolname");
    this.short = el("span.short");
    this.state = el("span.state");
    this.values = el("div.values");
    this.output = new CappedText("Output");
    this.outputPart = el(
      "div.outputpart",
      { hidden: true },
      el("span.small.muted", null, "Output"),
      this.output.element,
    );
    this.changes = el("div.changelist");
    this.notes = el("ul.notes", { hidden: true });
    this.slot = el("div.slot");
    this.details = el(
      "details",
      { open: fresh },
      el("summary", null, this.sign, this.name, this.short, this.state),
      this.values,
      this.changes,
      this.outputPart,
    );
    this.details.firstChild.addEventListener("click", () => {
      this._chosen = true; // somebody opens and closes it
    });
    this.element = el("section.tool", { role: "group" }, this.details, this.notes, this.slot);
  }

  /** Something stands behind it now: once it has ended well it needs one line, unless somebody wants it open. */
  fold() {
    this._behind = true;
    const { state, approval } = this._tool;
    const isRead = this.output.isRead || [...this._members.values()].some((member) => member.box?.isRead);
    if (this._chosen || isRead || state !== "finished" || approval?.verdict === "pending") return;
    if (!this.details.contains(document.activeElement)) this.details.open = false;
  }

  update() {
    const tool = this._tool;
    const exact = tool.arguments;
    this.element.dataset.state = tool.state;
    this.element.setAttribute("aria-label", `Tool ${tool.name || "call"}`);
    setText(this.sign, SIGNS[tool.state] || "•");
    setText(this.name, tool.name || "a call");
    if (exact && exact !== this._exact) this._showExact(exact);
    else if (!exact) this._showArriving();
    setText(this.short, exact ? shortArgument(exact) : this._shortSoFar());
    const { approval } = tool;
    for (const member of this._members.values()) {
      const isSaid = approval && approval.isQuestion ? member.key === "question" : member.head === this.short.textContent;
      const asks = approval && !approval.isQuestion;
      const isDrawn = Boolean(asks && approval.verdict === "pending" && approval.command && member.key === "command");
      member.element.hidden = isDrawn || (isSaid && !asks); // said once, but whole where it is allowed
    }
    this._showOutput();
    this._showNotes();
    this._showSlot();
    this._showState();
    if (this._behind) this.fold();
  }

  close() {
    clearTimeout(this._timer);
    this._timer = 0;
    if (this._approval) this._approval.close();
  }

  // Arguments

  _showArriving() {
    const { parts, draft } = this._tool;
    for (
      ;
      this._part < parts.length;
      this._part += 1, this._piece = 0, this._reader = new ArgumentsReader(), this._rewritten = 0
    ) {
      const part = parts[this._part];
      if (part.rewritten !== this._rewritten) this._startOver(part);
      if (this._piece < part.pieces.length) {
        const text = part.pieces.slice(this._piece).join("");
        this._piece = part.pieces.length;
        for (const { key, text: more } of this._reader.push(text)) this._grow(part, key, more, draft);
      }
      if (this._part === parts.length - 1) return;
    }
  }

  _startOver(part) {
    this._rewritten = part.rewritten;
    this._piece = 0;
    this._reader = new ArgumentsReader();
    this._members.clear();
    this.values.replaceChildren();
  }

  /** The rest of a cut call goes where its beginning stands; what only ties them together is not shown. */
  _grow(part, key, text, draft) {
    if (!part.rest) this._member(key).append(text);
    else if (key === "rest") this._member(draft ? draft.argument : "rest").append(text);
  }

  _member(key) {
    let member = this._members.get(key);
    if (!member) {
      member = new Member(key);
      this._members.set(key, member);
      this.values.append(member.element);
    }
    return member;
  }

  _showExact(args) {
    this._exact = args;
    const names = Object.keys(args);
    for (const key of [...this._members.keys()]) {
      if (names.includes(key)) continue;
      this._members.get(key).element.remove();
      this._members.delete(key);
    }
    for (const key of names) {
      const value = args[key];
      this._member(key).set(typeof value === "string" ? value : JSON.stringify(value, null, 2));
    }
  }

  _shortSoFar() {
    const { draft } = this._tool;
    if (draft && Object.keys(draft.settled).length) return shortArgument(draft.settled);
    for (const key of ["path", "command", "url", "pattern", "question"]) {
      if (this._members.has(key)) return shortened(this._members.get(key).head);
    }
    return "";
  }

  // How it goes

  _showOutput() {
    const { output, outcome, state, approval } = this._tool;
    if (this._said < output.length) {
      this.output.append(output.slice(this._said).join(""));
      this._said = output.length;
    }
    if (outcome) {
      const text = outcome.text || outcome.partial_output;
      const stopped = outcome.partial_output && outcome.text ? `${outcome.partial_output}\n${outcome.text}` : text;
      if (stopped) this.output.set(stopped);
    }
    const changes = outcome?.changes ?? [];
    if (changes.length && !this.changes.firstChild) this.changes.append(...changes.map((change) => diffView(change)));
    const answered = approval !== null && approval.isQuestion; // its answer stands below
    this.outputPart.hidden = !this.output.length || state === "handed" || answered;
  }

  _showNotes() {
    const { notes, parts, outcome, draft } = this._tool;
    const lines = [...notes];
    if (parts.length > 1)
      lines.unshift(
        `Its ${draft ? draft.argument : "arguments"} came in ${parts.length} streams: ${parts.map((part) => whole(part.kept ?? part.characters)).join(" + ")} characters.`,
      );
    if (outcome) {
      if (outcome.killed.length) lines.push(`Processes killed: ${outcome.killed.join(", ")}.`);
      if (outcome.survivors.length)
        lines.push(`Could not be stopped and may still be running: ${outcome.survivors.join(", ")}.`);
      if (outcome.kept_at) lines.push(`The whole output is kept at ${outcome.kept_at}.`);
    }
    if (this._noteCount === lines.join("\n")) return;
    this._noteCount = lines.join("\n");
    this.notes.hidden = !lines.length;
    this.notes.replaceChildren(...lines.map((line) => el("li", null, shortened(line, 400))));
  }

  _showSlot() {
    const { approval, draft } = this._tool;
    if (approval && (!this._approval || this._approval.element.dataset.approval !== approval.id)) {
      if (this._approval) this._approval.close();
      this._approval = new ApprovalCard(approval, this._parts);
      this.slot.append(this._approval.element);
      this.details.open = true; // one must see what one allows, from its beginning
      for (const member of this._members.values()) member.toStart();
    } else if (approval) {
      this._approval.update();
    }
    const keeps = draft && !draft.how && this._over(); // until then the model is asked for the rest
    if (keeps && !this._draft) {
      this._draft = new DraftView(draft, this._parts.save);
      this.slot.append(this._draft.element);
    }
    if (this._draft) {
      this._draft.element.hidden = !keeps;
      if (keeps) this._draft.update();
    }
  }

  _showState() {
    const tool = this._tool;
    clearTimeout(this._timer);
    this._timer = 0;
    setText(this.state, this._stateWords());
    if (tool.state === "running" && !document.hidden) this._timer = setTimeout(() => this._showState(), 1000);
  }

  _stateWords() {
    const { state, characters, startedAt, outcome, approval } = this._tool;
    if (approval && approval.verdict === "pending") return "waits for you";
    if (state === "arriving") return `arriving, ${many(characters, "character")}`;
    if (state === "running") return `running ${span(this._parts.now() - startedAt)}`;
    const parts = [TOOL_STATE[state] || state];
    if (outcome && outcome.exit_code) parts.push(`exit code ${outcome.exit_code}`);
    if (outcome && startedAt !== null && state !== "unknown") parts.push(span(outcome.seconds));
    return parts.join(", ");
  }
}

/** One argument: beside its name while it is short, in a box of its own when it grows. */
class Member {
  constructor(key) {
    this.key = key;
    this.head = "";
    this.box = null;
    this.value = el("span.value");
    this.element = el("div.member", null, el("span.key.small.muted", { hidden: !key }, key), this.value);
  }

  append(more) {
    const text = plainly(more);
    if (this.box) {
      this.box.append(text);
      return;
    }
    this.head += text;
    if (this.head.length <= SHORT_VALUE && !this.head.includes("\n")) {
      setText(this.value, this.head);
      return;
    }
    this.box = new CappedText(this.key || "Arguments");
    this.box.append(this.head);
    this.value.remove();
    this.element.classList.add("long");
    this.element.append(this.box.element);
  }

  set(text) {
    if (this.box) this.box.set(plainly(text));
    else {
      this.head = "";
      this.append(text);
    }
  }

  toStart() {
    if (this.box) this.box.toStart();
  }
}
