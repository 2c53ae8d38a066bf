// What is kept of a call that was cut: to be read, copied and saved.

import { el, setText } from "./elements.js";
import { CappedText } from "./capped_text.js";
import { copied } from "./copy_button.js";
import { many, plainly } from "./words.js";

export class DraftView {
  /** `save` writes the draft to its path in the workspace, and gives what the server says; null: it cannot. */
  constructor(draft, save = null) {
    this._draft = draft;
    this._write = save;
    this.text = new CappedText(`Draft ${draft.id}`);
    this.words = el("span");
    const target = draft.settled && typeof draft.settled.path === "string" ? draft.settled.path : "";
    this.name = target ? target.split("/").pop() : `${draft.id}.txt`;
    const details = el("details", null, el("summary", null, "Read"), this.text.element);
    details.addEventListener("toggle", () => this.text.set(details.open ? this._whole : ""));
    this.details = details;
    this.copied = el("span.small.muted", { role: "status" });
    this.element = el(
      "section.draft",
      { role: "group", "aria-label": `Draft ${draft.id}`, "data-draft": draft.id },
      el(
        "div.row",
        null,
        el("strong", null, `Draft ${draft.id}`),
        this.words,
        el("button.small", { type: "button", onclick: () => void this._copy() }, "Copy"),
        el("button.small", { type: "button", onclick: () => this._save() }, "Download"),
        el("button.small", { type: "button", hidden: !save || !target, onclick: () => void this._toPath() }, `Save to ${plainly(target)}`),
        this.copied,
      ),
      details,
    );
    this.update();
  }

  update() {
    const { tool, argument, characters, settled } = this._draft;
    const path = settled && settled.path ? ` for ${settled.path}` : "";
    setText(this.words, `${many(characters, "character")} of ${tool}'s ${argument}${path}`);
    if (this.details.open) this.text.set(this._whole);
  }

  get _whole() {
    return this._draft.pieces.join("");
  }

  async _copy() {
    setText(this.copied, (await copied(this._whole)) ? "Copied" : "The browser did not allow it");
  }

  async _toPath() {
    try {
      const saved = await this._write(this._draft);
      setText(this.copied, saved.written ? `Saved to ${saved.path}` : `${saved.path} already has this content`);
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      setText(this.copied, problem.message);
    }
  }

  _save() {
    save(this.name, this._whole);
  }
}

/** Offer a text as a file. */
export function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
