/**
 * The box in which people write. The words stay in it until the server has stored them; if the connection is lost on
 * the way they are sent again by themselves, under the same key, so they are never said twice.
 */

import { AttachRow } from "./attach_row.js";
import { StopButton } from "./stop_button.js";
import { el, icon, newId, setText } from "./elements.js";

const TALLEST = 240; // px of the box; then it scrolls
const BUSY = [
  ["queue", "Answer it next"],
  ["steer", "Tell the current run"],
  ["interrupt", "Stop it and answer this"],
];
const MODEL = "turnbuckle.model";

/** `agent/main` is the agent on the route main. */
const ON_ROUTE = "agent/";

/** The routes that the agent can be run on. @param {string[]} models */
export function routesOf(models) {
  return models.filter((name) => name.startsWith(ON_ROUTE)).map((name) => name.slice(ON_ROUTE.length));
}

function routeWords(name) {
  return name.startsWith("agent/") ? name.slice("agent/".length) : "Usual route";
}

/**
 * @typedef {object} Wiring
 * @property {import("./outbox.js").Outbox} outbox
 * @property {string} session where it is said; empty on the start page
 * @property {string[]} models
 * @property {(letter: import("./outbox.js").Letter) => Promise<void>} send throws ApiProblem
 * @property {(force: boolean) => Promise<void>|void} [stop]
 * @property {Storage|null} store where the last model is remembered
 */
export class Composer {
  #sending = false;
  #running = false;

  /** @param {Wiring} wiring */
  constructor(wiring) {
    this.wiring = wiring;
    const box = newId("message");
    this.box = el("textarea", { id: box, rows: "1", placeholder: "Tell the agent what to do" });
    this.sendButton = el("button.primary", { type: "submit" }, icon("send"), "Send");
    this.stop = new StopButton((force) => this.wiring.stop?.(force));
    this.stopButton = this.stop.element;
    this.busy = this.#busyChoice();
    this.model = this.#modelChoice();
    this.note = el("p.note.small", { role: "status" });
    this.attach = new AttachRow((problem) => this.say(problem, problem ? "problem" : ""));
    this.instead = el("button.plain.small", { type: "button", hidden: true }, "Edit it instead");
    this.hint = el("span.hint.small.muted", null, "Enter sends, Shift+Enter begins a new line");
    this.element = el(
      "form.composer",
      { "aria-label": "Say something" },
      el("label.sr", { for: box }, "Message"),
      this.box,
      this.attach.list,
      this.attach.field,
      el("div.row", null, this.attach.button, this.busy, this.model, this.hint, el("span.grow"), this.stopButton, this.sendButton),
      el("div.row.notes", null, this.note, this.instead),
    );
    this.#listen();
    this.box.value = wiring.outbox.draft(wiring.session);
    this.#grow();
  }

  /** Send what was on its way when the page was left, or when the connection was. */
  async resume() {
    const letter = this.wiring.outbox.letter(this.wiring.session);
    if (!letter || letter.refused || this.#sending) return;
    if (letter.attached && !letter.files.length) {
      this.wiring.outbox.takeBack(this.wiring.session); // never without what belongs to it
      this.say("This was not sent: the reload lost the attached files. Attach them again.", "problem");
      return;
    }
    await this.#deliver(letter);
  }

  focus() {
    this.box.focus();
  }

  /** @param {boolean} running whether something is under way in the session */
  setRunning(running) {
    if (running === this.#running) return;
    this.#running = running;
    const hadFocus = document.activeElement === this.stopButton;
    this.stop.show(running);
    this.busy.hidden = !running;
    this.hint.hidden = running;
    this.element.classList.toggle("running", running);
    if (hadFocus && !running) this.focus();
  }

  /** A sentence under the box. @param {"problem"|""} kind */
  say(text, kind = "") {
    this.note.classList.toggle("problem", kind === "problem");
    setText(this.note, text);
  }

  #listen() {
    this.attach.listen(this.element, this.box);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.box.addEventListener("input", () => {
      this.wiring.outbox.keepDraft(this.wiring.session, this.box.value);
      this.#grow();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.isComposing) this.stop.interrupt();
      if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.instead.addEventListener("click", () => {
      this.wiring.outbox.takeBack(this.wiring.session);
      this.#free();
      this.say("");
      this.focus();
    });
  }

  #submit() {
    const text = this.box.value.trim();
    const { files } = this.attach;
    if (!(text || files.length) || this.#sending || this.box.readOnly) return;
    const busy = this.#running ? this.busy.querySelector("select").value : "";
    const model = this.model.querySelector("select")?.value ?? "";
    void this.#deliver(this.wiring.outbox.post(this.wiring.session, text, model, busy, files));
  }

  async #deliver(letter) {
    this.#sending = true;
    this.box.value = letter.text;
    this.attach.files = letter.files ?? [];
    this.box.readOnly = true;
    this.sendButton.disabled = true;
    this.instead.hidden = true;
    this.say("");
    this.#grow();
    const slow = setTimeout(() => this.say("Sending…"), 400);
    try {
      await this.wiring.send(letter);
      this.wiring.outbox.stored(this.wiring.session);
      this.attach.files = [];
      this.box.value = "";
      this.#free();
      this.say("");
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      this.#refused(problem);
    } finally {
      clearTimeout(slow);
      this.#sending = false;
      this.#grow();
    }
  }

  #refused(problem) {
    if (problem.lost || problem.status === 401) {
      const why = problem.lost ? "The server cannot be reached" : "You are not logged in";
      this.say(`${why}: this is not sent yet. It will be sent automatically, and only once.`);
      this.instead.hidden = false;
      return;
    }
    this.wiring.outbox.refused(this.wiring.session);
    this.#free();
    const later = problem.retryAfter ? ` Try again in ${Math.ceil(problem.retryAfter)} s.` : "";
    this.say(problem.message + later, "problem");
  }

  #free() {
    this.box.readOnly = false;
    this.sendButton.disabled = false;
    this.instead.hidden = true;
  }

  #grow() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, TALLEST)}px`;
  }

  /** From the next message on, this route. */
  choose(route) {
    const select = this.model.querySelector("select");
    if (!select) return;
    select.value = ON_ROUTE + route;
    this.wiring.store?.setItem(MODEL, select.value);
  }

  #busyChoice() {
    const id = newId("busy");
    const options = BUSY.map(([value, words]) => el("option", { value }, words));
    const label = el("label.small.muted", { for: id }, "While it runs");
    return el("span.picker", { hidden: true }, label, el("select", { id }, ...options));
  }

  #modelChoice() {
    const { models, store } = this.wiring;
    if (models.length < 2) return el("span", { hidden: true });
    const id = newId("model");
    const kept = store?.getItem(MODEL);
    const chosen = models.includes(kept) ? kept : models[0];
    const options = models.map((name) => el("option", { value: name, selected: name === chosen }, routeWords(name)));
    const select = el("select", { id }, ...options);
    select.addEventListener("change", () => store?.setItem(MODEL, select.value));
    return el("span.picker", null, el("label.small.muted", { for: id }, "Route"), select);
  }
}
