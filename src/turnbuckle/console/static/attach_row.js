/** The files of a message that is being written: chosen, pasted or dropped, each with a way to take it off again. */

import { readAttachment, refusalOf } from "./attachments.js";
import { el, icon } from "./elements.js";
import { size } from "./words.js";

export class AttachRow {
  #held = [];

  /** @param {(problem: string) => void} say where a refusal is told */
  constructor(say) {
    this.say = say;
    this.list = el("ul.attached-files", { "aria-label": "Attached", hidden: true });
    this.field = el("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to attach" });
    this.field.addEventListener("change", () => {
      void this.add([...this.field.files]);
      this.field.value = "";
    });
    const set = { type: "button", "aria-label": "Attach files", title: "Attach files. You can also paste or drop them." };
    this.button = el("button.plain.icon", set, icon("clip"));
    this.button.addEventListener("click", () => this.field.click());
  }

  get files() {
    return this.#held;
  }

  /** Those of a message that is on its way, and may come back. */
  set files(files) {
    this.#held = files;
    this.#draw();
  }

  /** Files come by paste and by drop, too. @param {HTMLElement} place @param {HTMLElement} box */
  listen(place, box) {
    box.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (!files.length) return;
      event.preventDefault();
      void this.add(files);
    });
    const has = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    place.addEventListener("dragover", (event) => {
      if (!has(event)) return;
      event.preventDefault();
      place.classList.add("dropping");
    });
    place.addEventListener("dragleave", (event) => {
      if (!place.contains(event.relatedTarget)) place.classList.remove("dropping");
    });
    place.addEventListener("drop", (event) => {
      if (!has(event)) return;
      event.preventDefault();
      place.classList.remove("dropping");
      void this.add([...event.dataTransfer.files]);
    });
  }

  async add(files) {
    const problems = [];
    for (const file of files) {
      const read = await readAttachment(file);
      const problem = read.problem ?? refusalOf(this.#held, read);
      if (problem) problems.push(problem);
      else this.#held = [...this.#held, read];
    }
    this.#draw();
    this.say(problems.join(" "));
  }

  #draw() {
    this.list.hidden = !this.#held.length;
    this.list.replaceChildren(...this.#held.map((one) => this.#item(one)));
  }

  #item(one) {
    const off = el("button.plain.icon", { type: "button", "aria-label": `Remove ${one.name}` }, icon("close"));
    off.addEventListener("click", () => {
      this.#held = this.#held.filter((other) => other !== one);
      this.#draw();
      this.button.focus();
    });
    return el("li", null, el("span", null, one.name), el("span.muted", null, size(one.size)), off);
  }
}
