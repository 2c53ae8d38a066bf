// Where a new paragraph begins in what the model says: the same rules as the server's own (turn/telling.py), so that a run
// has the same words here as everywhere. Pure, and keeps no text.

export class Paragraphs {
  constructor() {
    this._said = false;
    this._ends = 0; // line ends behind the last word
    this._apart = false;
    this._kind = "";
    this._attempt = 0; // of the last words, and their block
    this._block = 0;
    this._protocol = "openai_chat";
    this._thoughts = new Set();
    this._thoughtsOf = 0;
  }

  asked(event) {
    if (event.why === "after_tools" || event.why === "steered") this._apart = true;
    this._protocol = event.protocol;
  }

  /** What comes next is a paragraph of its own. */
  part() {
    this._apart = true;
  }

  /** What stands between these words and those before them. `kind` is text or refusal. */
  words(attempt, { block, text, type: kind }) {
    if (!text) return "";
    const same = attempt === this._attempt && block === this._block && kind === this._kind;
    if (!same) {
      const another = kind !== this._kind || (attempt === this._attempt && this._protocol === "openai_responses");
      if (this._kind && another) this._apart = true;
      [this._attempt, this._block, this._kind] = [attempt, block, kind];
    }
    const bare = text.replace(/^\n+|\n+$/g, "");
    let between = "";
    if (this._apart && bare) {
      this._apart = false;
      const leading = text.length - text.replace(/^\n+/, "").length;
      if (this._said) between = "\n".repeat(Math.max(2 - this._ends - leading, 0));
    }
    this._said = true;
    this._ends = bare ? text.length - text.replace(/\n+$/, "").length : this._ends + text.length;
    return between;
  }

  /** A thought that goes on behind a text does not end that. */
  thought(attempt, block) {
    if (attempt !== this._thoughtsOf) {
      this._thoughtsOf = attempt;
      this._thoughts.clear();
    }
    if (this._thoughts.has(block)) return;
    this._thoughts.add(block);
    if (this._attempt === attempt) this._apart = true;
  }
}
