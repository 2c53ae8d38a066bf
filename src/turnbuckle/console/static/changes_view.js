// The files that a run has changed, each with its whole diff and a way to undo it.

import { diffView } from "./diff_view.js";
import { el, setText } from "./elements.js";
import { plainly } from "./words.js";

const KINDS = { created: "new file", changed: "changed", as_before: "as before" };

export class ChangesView {
  /** `ask` is (method, path, body) to the server; `path` is that of the run. */
  constructor(ask, path) {
    this._ask = ask;
    this._path = path;
    this._asked = false;
    this._count = 0;
    this.list = el("div.changelist");
    this.problem = el("p.problem.small", { role: "alert", hidden: true });
    this.title = el("summary", null, "Changes");
    this.element = el("details.changes", { hidden: true }, this.title, this.list, this.problem);
    this.element.addEventListener("toggle", () => this.element.open && void this._load());
  }

  /** How many files the run changed; none: there is nothing to see. */
  show(count) {
    if (count === this._count) return; // what somebody has opened stays open
    this._count = count;
    this.element.hidden = !count;
    setText(this.title, count === 1 ? "Changes: 1 file" : `Changes: ${count} files`);
    if (count && this.element.open) void this._load(true);
  }

  async _load(again = false) {
    if (this._asked && !again) return;
    this._asked = true;
    await this._do(async () => {
      const page = await this._ask("GET", `${this._path}/changes`);
      this.list.replaceChildren(...page.data.map((file) => this._file(file)));
    });
  }

  _file(file) {
    const view = diffView(file, { open: false });
    const what = file.undone_at ? "undone" : KINDS[file.kind];
    const words = el("span.small.muted", null, what);
    const name = `Undo this file: ${plainly(file.path)}`; // there may be several
    const undo = el("button.small", { type: "button", hidden: !file.can_undo, "aria-label": name }, "Undo this file");
    undo.addEventListener("click", () => void this._undo(file, undo, words));
    return el("div.changedfile", null, view, el("div.row", null, words, undo));
  }

  async _undo(file, undo, words) {
    undo.disabled = true;
    await this._do(async () => {
      await this._ask("POST", `${this._path}/changes/undo`, { path: file.path });
      undo.hidden = true;
      setText(words, "undone");
    });
    undo.disabled = false;
  }

  async _do(act) {
    this.problem.hidden = true;
    try {
      await act();
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      setText(this.problem, problem.message);
      this.problem.hidden = false;
    }
  }
}

