// The timeline with its frame. While a run is under way it stays in sight; where a run has ended well and nothing broke, it
// folds to a line and is not drawn until somebody wants it.

import { el, setText } from "./elements.js";
import { Timeline } from "./timeline.js";
import { many } from "./words.js";

const LATELY = 120; // s
const NARROW = globalThis.matchMedia("(max-width: 480px), (max-height: 699px)"); // where it does not stay in sight

export class TimelineBox {
  /** `now` gives the server's time in seconds. */
  constructor(now) {
    this._now = now;
    this._inner = new Timeline(now);
    this._fold = null;
    this._shown = false; // whether the drawing follows
    this._chosen = false; // whether somebody has opened or closed it
    this.title = el("span", null, "Timeline");
    this.words = el("span.muted");
    const summary = el("summary", null, this.title, this.words);
    summary.addEventListener("click", () => {
      this._chosen = true;
    });
    this.element = el("details.timelinebox", null, summary, this._inner.element);
    this.element.addEventListener("toggle", () => this._follow());
  }

  open(fold) {
    this._fold = fold;
    this.update();
  }

  close() {
    this._inner.close();
    this._shown = false;
    this._fold = null;
  }

  /** The fold has changed. */
  update() {
    const fold = this._fold;
    if (!fold || !fold.last) return;
    const isOver = fold.outcome !== null;
    this.element.classList.toggle("sticks", !isOver);
    setText(this.title, isOver ? "Timeline: " : "Timeline");
    setText(this.words, isOver ? wordsOf(fold) : "");
    const broke = fold.totals.recoveries > 0 || gaveUp(fold.outcome);
    // One of long ago is about to be known to be over. On a small screen a question to a person needs the room.
    const matters = isOver ? broke : this._now() - fold.at < LATELY && !(NARROW.matches && fold.pending.length);
    if (!this._chosen && this.element.open !== matters) this.element.open = matters;
    this._follow();
    if (this._shown) this._inner.update();
  }

  _follow() {
    const wanted = this._fold !== null && this.element.open;
    if (wanted === this._shown) return;
    this._shown = wanted;
    if (wanted) this._inner.open(this._fold);
    else this._inner.close();
  }
}

function wordsOf({ totals, tools, outcome }) {
  const calls = [many(totals.asks, "model call"), tools.length && many(tools.length, "tool call")].filter(Boolean);
  if (totals.recoveries) calls.push(many(totals.recoveries, "break"));
  else if (!gaveUp(outcome)) calls.push("nothing broke");
  return calls.join(", ");
}

function gaveUp(outcome) {
  return outcome?.kind === "failed" || outcome?.kind === "partial";
}
