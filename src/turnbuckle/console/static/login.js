/**
 * The key: where it is kept, and the dialog that asks for one. It is kept for the tab, or for this machine if somebody
 * wants that. It stands in no address and is written nowhere else.
 */

import { el, newId } from "./elements.js";
import { storeOf } from "./outbox.js";

const KEPT = "turnbuckle.key";
const stores = () => [storeOf("sessionStorage"), storeOf("localStorage")].filter(Boolean);

const GIVEN = "#key=";

/** A server without keys prints an address with one of its own behind the `#`: it is kept for the tab, and is gone from
 * the address before anything else looks at it. */
export function takeGivenKey() {
  if (!location.hash.startsWith(GIVEN)) return;
  keep(decodeURIComponent(location.hash.slice(GIVEN.length)), false);
  history.replaceState(null, "", location.pathname + location.search);
}

export function keptKey() {
  return stores().map((store) => store.getItem(KEPT)).find(Boolean) ?? "";
}

export function forgetKey() {
  for (const store of stores()) store.removeItem(KEPT);
}

function keep(key, onMachine) {
  forgetKey();
  storeOf(onMachine ? "localStorage" : "sessionStorage")?.setItem(KEPT, key);
}

/** Tells when another tab logged in or out of this machine. */
export function whenKeyChanges(act) {
  window.addEventListener("storage", (event) => event.key === KEPT && act(keptKey()));
}

export class Login {
  #dialog = null;
  #note;

  /** @param {import("./api.js").Api} api @param {() => void} done a good key was given */
  constructor(api, done) {
    this.api = api;
    this.done = done;
  }

  get isOpen() {
    return this.#dialog !== null;
  }

  /** @param {string} sentence what the server said */
  open(sentence) {
    if (this.#dialog) return;
    const [title, field, keepBox] = [newId("title"), newId("key"), newId("keep")];
    const command = el("code", null, "turnbuckle keys create NAME");
    this.#note = el("p.problem", { role: "alert" }, this.api.key ? sentence : "");
    const input = el("input", { type: "password", id: field, required: true, autocomplete: "current-password" });
    const box = el("input", { type: "checkbox", id: keepBox });
    const button = el("button.primary", { type: "submit" }, "Log in");
    const form = el(
      "form.login",
      null,
      el("h2", { id: title }, "Log in to Turnbuckle"),
      el("p.muted.small", null, "This server needs a key. Its operator can make one with ", command, "."),
      el("label", { for: field }, "API key"),
      input,
      el("div.keep", null, box, el("label", { for: keepBox }, "Keep me logged in on this machine")),
      this.#note,
      button,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#try(input, box.checked, button);
    });
    this.#dialog = el("dialog", { "aria-labelledby": title }, form);
    this.#dialog.addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it
    this.#dialog.addEventListener("close", () => this.#dialog?.showModal()); // some browsers insist on the second Esc
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    input.focus();
  }

  async #try(input, onMachine, button) {
    const key = input.value.trim();
    if (!key) return;
    if (!/^[\x21-\x7e]+$/.test(key)) {
      this.#note.textContent = "A key has only letters, numbers and simple punctuation.";
      return;
    }
    button.disabled = true;
    this.#note.textContent = "";
    this.api.key = key;
    try {
      await this.api.ask("GET", "/v1/settings");
    } catch (problem) {
      this.api.key = "";
      this.#note.textContent = problem.message;
      input.select();
      return;
    } finally {
      button.disabled = false;
    }
    keep(key, onMachine);
    const dialog = this.#dialog;
    this.#dialog = null;
    dialog.close();
    dialog.remove();
    this.api.locked = false;
    this.done();
  }
}
