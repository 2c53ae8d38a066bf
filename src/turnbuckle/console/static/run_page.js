/** One run by itself: all of it, with a way to stop it, to forget it, and to the session that it belongs to. What can be
 * tried where it came to nothing is offered while nothing was said behind it. */

import { addressOf } from "./address.js";
import { confirmed, menuButton } from "./dialogs.js";
import { el } from "./elements.js";
import { RunCard } from "./run_card.js";
import { againEntries, goOnLetter, retryRun } from "./session_actions.js";
import { StopButton } from "./stop_button.js";

const UNDER_WAY = new Set(["queued", "running", "waiting_for_approval", "interrupted"]);
const CAME_TO_NOTHING = new Set(["failed", "partial"]);

export class RunPage {
  /** @param {import("./main.js").Shell} shell @param {string} id */
  constructor(shell, id) {
    this.shell = shell;
    this.id = id;
    this.title = "Run";
    this.path = `/v1/runs/${encodeURIComponent(id)}`;
    this.card = new RunCard({ api: shell.api, run: id, session: "", ended: () => void this.#look() });
    this.link = el("a", { hidden: true }, "Open its session");
    this.stop = new StopButton((force) => this.#stop(force));
    this.menu = menuButton("Run menu", () => [{ text: "Delete", danger: true, act: () => void this.#delete() }]);
    this.problem = el("p.problem", { role: "alert", hidden: true });
    const name = el("code.small.muted", null, id);
    const bar = el("div.row.toolbar", null, name, el("span.grow"), this.link, this.stop.element);
    this.element = el("div.page.one", null, bar, this.problem, this.card.element);
    this.onChanged = ({ detail }) => detail.run === id && void this.#look();
  }

  get headActions() {
    return [this.menu];
  }

  async open() {
    this.shell.watch.addEventListener("changed", this.onChanged);
    this.card.open();
    await this.#look();
  }

  close() {
    this.shell.watch.removeEventListener("changed", this.onChanged);
    this.card.close();
  }

  async #look() {
    try {
      const view = await this.shell.api.ask("GET", `${this.path}?brief=true`);
      this.shell.setTitle(this, view.title || "Run");
      this.link.hidden = !view.session;
      this.link.href = addressOf({ page: "session", id: view.session });
      this.stop.show(UNDER_WAY.has(view.status));
      this.problem.hidden = true;
      this.card.element.hidden = false;
      const isLast = CAME_TO_NOTHING.has(view.status) && view.session && (await this.#isLast(view.session));
      this.card.offer(isLast ? this.#again(view.session) : []);
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      if (problem.lost || problem.status === 401) return; // the banner or the login say so
      this.problem.textContent = problem.message;
      this.problem.hidden = false;
      this.stop.show(false);
      this.card.element.hidden = problem.status === 404; // there is nothing to show, and that is said once
    }
  }

  /** Whether its session knows of nothing behind it; a run that was taken back is not known there any more. */
  async #isLast(session) {
    const path = `/v1/sessions/${encodeURIComponent(session)}/messages?order=desc&limit=1`;
    const { data } = await this.shell.api.ask("GET", path);
    return data[0]?.run === this.id;
  }

  #again(session) {
    const path = `/v1/sessions/${encodeURIComponent(session)}`;
    const open = () => this.shell.go({ page: "session", id: session });
    const goOn = async () => {
      const { text, key } = goOnLetter(this.id);
      await this.shell.api.ask("POST", `${path}/messages`, { input: text, ask_first: true }, { "idempotency-key": key });
      open();
    };
    const retry = async (route) => {
      if (await retryRun(this.shell, path, this.id, route)) open();
    };
    return againEntries(this.shell.settings.models, goOn, retry);
  }

  async #stop(force) {
    await this.shell.perform(async () => this.card.stop(force));
    await this.#look();
  }

  async #delete() {
    const text = "Its messages and steps are deleted. Files that its tools wrote stay.";
    if (!(await confirmed({ title: "Delete the run?", text, yes: "Delete" }))) return;
    await this.shell.perform(async () => {
      await this.shell.api.ask("DELETE", this.path);
      this.shell.go({ page: "runs" });
    });
  }
}
