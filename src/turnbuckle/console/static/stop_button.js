/** Ends a run and keeps its conversation. If that has not ended it in a second, the button offers force. */

import { el, icon, setText } from "./elements.js";

const FORCE_AFTER = 1000; // milliseconds; an interrupt takes less, unless something hangs
const TITLES = {
  interrupt: "End the run and keep the conversation (Esc)",
  force: "End the run by force. The next message starts fresh.",
};

export class StopButton {
  #forces = false;
  #timer = 0;

  /** @param {(force: boolean) => Promise<void>|void} act */
  constructor(act) {
    this.act = act;
    this.words = el("span", null, "Stop");
    this.element = el("button.danger.stop", { type: "button", hidden: true }, icon("stop"), this.words);
    this.element.addEventListener("click", () => this.press());
    this.#reset();
  }

  get shown() {
    return !this.element.hidden;
  }

  /** @param {boolean} running whether there is something to end */
  show(running) {
    if (running === this.shown) return;
    this.element.hidden = !running;
    this.#reset();
  }

  /** By a key: that never forces, since it is pressed without a thought. */
  interrupt() {
    if (!this.#forces) this.press();
  }

  press() {
    if (!this.shown || this.element.disabled) return;
    this.element.disabled = true;
    const force = this.#forces;
    if (!force) this.#timer = setTimeout(() => this.#offerForce(), FORCE_AFTER);
    void this.act(force);
  }

  #offerForce() {
    if (!this.shown) return;
    this.#forces = true;
    this.element.disabled = false;
    this.element.title = TITLES.force;
    setText(this.words, "Force stop");
  }

  #reset() {
    clearTimeout(this.#timer);
    this.#forces = false;
    this.element.disabled = false;
    this.element.title = TITLES.interrupt;
    setText(this.words, "Stop");
  }
}
