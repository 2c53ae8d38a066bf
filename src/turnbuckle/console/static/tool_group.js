// A line for many calls. What they did is drawn when somebody opens it, a hundred at a time.

import { el, setText } from "./elements.js";
import { groupWords } from "./tool_groups.js";
import { many, span } from "./words.js";

const AT_ONCE = 100;

export class ToolGroup {
  #views = new Map();

  /** @param {import("./tool_groups.js").Group} group @param {(segment: object) => object} viewOf */
  constructor(group, viewOf) {
    this._group = group;
    this.gathered = 0; // members whose own views are gone
    this._viewOf = viewOf;
    this.sign = el("span.sign", { "aria-hidden": "true" });
    this.words = el("span.toolname");
    this.state = el("span.state");
    this.body = el("div.members");
    this.more = el("button.small", { type: "button", hidden: true, onclick: () => this.#draw(AT_ONCE) });
    this.details = el("details", null, el("summary", null, this.sign, this.words, this.state), this.body, this.more);
    this.details.addEventListener("toggle", () => this.#toggled());
    this.element = el("section.tool.group", { role: "group" }, this.details);
    this.update();
  }

  update() {
    const { calls, failed, seconds } = this._group;
    const words = groupWords(this._group);
    this.element.setAttribute("aria-label", `${many(calls, "call")}: ${words}`);
    this.element.dataset.state = failed ? "failed" : "finished";
    setText(this.sign, failed ? "✕" : "✓");
    setText(this.words, words);
    setText(this.state, `${failed ? `${failed} failed` : "all done"}, ${span(seconds)}`);
    if (this.details.open) this.#draw(0);
  }

  close() {
    for (const view of this.#views.values()) view.close();
  }

  #toggled() {
    if (this.details.open) this.#draw(AT_ONCE);
    else {
      this.close();
      this.#views.clear();
      this.body.replaceChildren();
    }
  }

  #draw(further) {
    const { members, inside } = this._group;
    const wanted = Math.min(inside, Math.max(this.#views.size + further, AT_ONCE));
    for (const segment of members.slice(this.#views.size, wanted)) {
      const view = this._viewOf(segment);
      this.#views.set(segment, view);
      this.body.append(view.element);
    }
    this.more.hidden = wanted >= inside;
    setText(this.more, `Show ${Math.min(AT_ONCE, inside - wanted)} more of ${inside}`);
  }
}
