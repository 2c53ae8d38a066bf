// Something waits for a person: said by the mark of the page, and by the browser if somebody wants that.

import { el, newId } from "./elements.js";
import { storeOf } from "./outbox.js";

const WANTED = "turnbuckle.notify";
const AMBER = "<circle cx='25' cy='7' r='7' fill='%23f2a20c' stroke='white' stroke-width='2'/>";

export class Attention {
  #told = new Set();
  #plain = "";

  /** @param {(approval: {run: string}) => void} open what a click on a notification leads to */
  constructor(open) {
    this.open = open;
    this.store = storeOf("localStorage");
  }

  get isWanted() {
    return this.store?.getItem(WANTED) === "yes" && globalThis.Notification?.permission === "granted";
  }

  /** @param {{id: string, run: string, kind: string, tool: string, question: string}[]} waiting */
  show(waiting) {
    this.#mark(waiting.length > 0);
    const fresh = waiting.filter((one) => !this.#told.has(`${one.run} ${one.id}`));
    this.#told = new Set(waiting.map((one) => `${one.run} ${one.id}`));
    if (document.hidden && this.isWanted) for (const one of fresh) this.#notify(one);
  }

  /** A box to tick; it asks the browser when it is ticked for the first time. */
  choice() {
    const id = newId("notify");
    const box = el("input", { type: "checkbox", id });
    box.checked = this.isWanted;
    box.addEventListener("change", () => void this.#choose(box));
    const row = el("span.picker", null, box, el("label", { for: id }, "Notify me when it waits"));
    row.hidden = !("Notification" in window);
    return row;
  }

  async #choose(box) {
    const allowed = box.checked && (await Notification.requestPermission()) === "granted";
    this.store?.setItem(WANTED, allowed ? "yes" : "no");
    box.title = box.checked && !allowed ? "The browser does not allow it" : "";
    box.checked = allowed;
  }

  #notify(one) {
    const body = one.question || (one.kind === "question" ? "The agent has a question." : `May it run ${one.tool}?`);
    const shown = new Notification("Turnbuckle waits for you", { body: body.slice(0, 200), tag: `${one.run} ${one.id}` });
    shown.addEventListener("click", () => {
      window.focus();
      this.open(one);
      shown.close();
    });
  }

  #mark(waits) {
    const link = document.querySelector("link[rel=icon]");
    this.#plain ||= link.getAttribute("href");
    const wanted = waits ? this.#plain.replace(/%3C\/svg%3E$/, `${AMBER.replace(/</g, "%3C").replace(/>/g, "%3E")}%3C/svg%3E`) : this.#plain;
    if (link.getAttribute("href") !== wanted) link.setAttribute("href", wanted);
  }
}
