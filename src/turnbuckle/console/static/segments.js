// The parts of a run's card that are words: what the user said, what the model thinks and says, and quiet notices.
// Each has an `element`, `update()` for when its segment has grown, and `close()`.

import { attachedText } from "./attachments.js";
import { CappedText } from "./capped_text.js";
import { colour } from "./code_colours.js";
import { copyButton } from "./copy_button.js";
import { el, setText } from "./elements.js";
import { MarkdownView } from "./markdown.js";
import { many, size } from "./words.js";

const LONG = 1600; // characters of the user's own words that are shown at once
const SIGNS = { recovery: "↻", bad: "✕", quiet: "•" };

export class TextSegment {
  /** `isOpen` says whether more may come. */
  constructor(segment, isOpen) {
    this._segment = segment;
    this._isOpen = isOpen;
    this._shown = 0;
    this._ended = false;
    this._view = new MarkdownView(document, colour);
    const copy = copyButton("Copy the answer", () => segment.pieces.join(""));
    this.element = el("div.text", null, this._view.element, el("div.textfoot", null, copy));
    this.update();
  }

  update() {
    const { pieces } = this._segment;
    if (this._ended) return;
    if (this._shown < pieces.length) this._view.push(pieces.slice(this._shown).join(""));
    this._shown = pieces.length;
    this._ended = !this._isOpen(this._segment);
    if (this._ended) this._view.end();
    else this._view.draw();
  }

  close() {}
}

export class ThoughtSegment {
  constructor(segment) {
    this._segment = segment;
    this._shown = 0;
    this._text = new CappedText("Thoughts");
    this._count = el("span.muted");
    this.element = el("details.thoughts", null, el("summary", null, "Thoughts: ", this._count), this._text.element);
    this.element.addEventListener("toggle", () => this.update());
    this.update();
  }

  update() {
    const { pieces, characters } = this._segment;
    setText(this._count, many(characters, "character"));
    if (!this.element.open) return; // what nobody reads is not drawn
    this._text.append(pieces.slice(this._shown).join(""));
    this._shown = pieces.length;
  }

  close() {}
}

export class RefusalSegment {
  constructor(segment) {
    this._segment = segment;
    this._words = el("span");
    this._who = el("strong", null, "The model declined: ");
    this.element = el("p.refusal", null, this._who, this._words);
    this.update();
  }

  update() {
    this._who.hidden = Boolean(this._segment.isTold);
    setText(this._words, this._segment.pieces.join(""));
  }

  close() {}
}

export class NoticeSegment {
  constructor(segment) {
    const { text, tone, summary = "" } = segment;
    this._segment = segment;
    const line = el(
      "p.notice-line",
      { "data-tone": tone },
      el("span.sign", { "aria-hidden": "true" }, SIGNS[tone] || "•"),
      el("span", null, text),
    );
    this.element = line;
    if (summary) {
      // What the model is told in place of what was said before.
      const shown = el("details.summary", null, el("summary", null, "Show the summary"), el("pre", null, summary));
      this.element = el("div", null, line, shown);
    }
    this.update();
  }

  update() {
    this.element.hidden = Boolean(this._segment.isTold);
  }

  close() {}
}

/** What came with the task, or was said while it was under way. */
export class SaidSegment {
  constructor({ input }, leftOut = 0) {
    this.element = el("div.said", { "aria-label": "You said", role: "group" });
    if (leftOut) this.element.append(el("p.small.muted", null, `${many(leftOut, "earlier message")} left out`));
    for (const message of input)
      if (message.role !== "system") this.element.append(...(message.parts || []).map(part).filter(Boolean));
  }

  update() {}

  close() {}
}

function part(one) {
  if (one.kind === "text") return attached(one) ?? words(one.text || "", one.cut);
  if (one.kind === "image" || one.kind === "file") {
    const name = one.name || one.media_type || one.kind;
    return el(
      "p.attached.small",
      null,
      `${one.kind === "image" ? "Picture" : "File"}: ${name}${one.size ? `, ${size(one.size)}` : ""}`,
    );
  }
  if (one.kind === "result") {
    const text = (one.content || []).map((inner) => inner.text || `[${inner.kind}]`).join("\n");
    return el(
      "div.attached",
      null,
      el("span.small.muted", null, one.failed ? "A tool's result (it failed)" : "A tool's result"),
      words(text, false),
    );
  }
  return null;
}

/** A text file that was attached: its name, and its text for who wants to see it. */
function attached(one) {
  const file = one.cut ? null : attachedText(one.text || "");
  if (!file) return null;
  const about = el("summary", null, `File: ${file.name}, ${size(new Blob([file.text]).size)}`);
  const shown = el("details.attached.small", null, about);
  shown.addEventListener("toggle", () => shown.children.length < 2 && shown.append(words(file.text, false)));
  return shown;
}

function words(text, cut) {
  const more = cut ? "\n… the rest is not shown here" : "";
  if (text.length <= LONG) return el("p.words", null, text + more);
  const shown = el("p.words", null, `${text.slice(0, LONG)}…`);
  const button = el("button.small", { type: "button" }, `Show all (${size(text.length)})`);
  button.addEventListener("click", () => {
    setText(shown, text + more);
    button.remove();
  });
  return el("div", null, shown, button);
}
