/** The first page: what this is, ready-made tasks while the rehearsal model answers, and a box to begin with. */

import { newName } from "./api.js";
import { addressOf } from "./address.js";
import { Composer } from "./composer.js";
import { el, setText } from "./elements.js";
import { ago } from "./lists.js";
import { storeOf } from "./outbox.js";
import { inOrder } from "./words.js";

/** Each is one message in a new session. The words are those that the rehearsal model understands. */
export const TASKS = {
  stall: {
    title: "Watch a stalled file recover",
    about: "A stream stalls inside a large file. What arrived is kept, and only the rest is requested.",
    text: "write notes.md with 600 lines slowly and stall",
  },
  cut: {
    title: "Cut a stream in two",
    about: "The connection breaks in the middle of a call. Nothing half-received is done.",
    text: "write report.md with 300 lines and cut",
  },
  list: { title: "List the files", about: "One tool call, from the question to the answer.", text: "list files" },
  command: {
    title: "Run a command",
    about: "In the workspace. It asks first if the settings say so.",
    text: "run `date && ls -l`",
  },
  read: { title: "Read a file", about: "Reads notes.md, which the first task writes.", text: "read notes.md" },
};
const RECENT = 6;

/** Begin a new session with these words. The session's page sends them, also after a reload, and once. */
export function beginSession(shell, text, model = "", replace = false, files = []) {
  const session = newName("s_");
  shell.outbox.post(session, text, model, "", files);
  shell.go({ page: "session", id: session }, replace);
}

export class StartPage {
  title = "";

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    this.recent = el("ul.recent");
    const title = el("h2", { id: "recent" }, "Recent sessions");
    this.recentPart = el("section", { "aria-labelledby": "recent", hidden: true }, title, this.recent);
    const { settings } = shell;
    this.composer = new Composer({
      outbox: shell.outbox,
      session: "",
      models: settings.models,
      store: storeOf("localStorage"),
      send: async (letter) => {
        shell.outbox.stored("");
        beginSession(shell, letter.text, letter.model, false, letter.files);
      },
    });
    this.element = el(
      "div.page.start",
      null,
      el("h1.large", null, "Turnbuckle runs agents over streams that break."),
      el("p.lead.muted", null, ...this.#lead()),
      settings.rehearsal && this.#tasks(),
      el("section", { "aria-label": "New session" }, this.composer.element),
      this.recentPart,
    );
    this.show = () => this.#showRecent();
  }

  open() {
    this.shell.watch.addEventListener("sessions", this.show);
    this.#showRecent();
    if (!this.shell.settings.rehearsal && this.shell.isWide) this.composer.focus();
  }

  close() {
    this.shell.watch.removeEventListener("sessions", this.show);
  }

  #lead() {
    const said = "Nothing it showed is lost, nothing is done twice, nothing half-received is done at all. ";
    if (!this.shell.settings.rehearsal) return [said, "Tell the agent what to do, and watch it live."];
    return [said, "A built-in fake model answers here, which needs no key and no network: try a break."];
  }

  #tasks() {
    const made = Object.entries(TASKS).map(([name, task]) => {
      const act = () => beginSession(this.shell, task.text);
      const words = [el("strong", null, task.title), el("span", null, task.about), el("code", null, task.text)];
      return el("li", null, el("button.task", { type: "button", "data-task": name, onclick: act }, ...words));
    });
    return el("ul.tasks", { "aria-label": "Ready-made tasks" }, ...made);
  }

  #showRecent() {
    const rows = this.shell.watch.sessions.data.slice(0, RECENT);
    this.recentPart.hidden = !rows.length;
    const now = this.shell.api.now();
    const kept = new Map([...this.recent.children].map((item) => [item.dataset.session, item]));
    const items = rows.map((row) => {
      const item = kept.get(row.id) ?? recentItem(row);
      setText(item.querySelector("a"), inOrder(row.title || row.id));
      setText(item.querySelector("span"), row.running ? "running" : ago(row.updated_at, now));
      return item;
    });
    if (items.some((item, at) => this.recent.children[at] !== item) || this.recent.children.length !== items.length) {
      this.recent.replaceChildren(...items);
    }
  }
}

function recentItem(row) {
  const link = el("a", { href: addressOf({ page: "session", id: row.id }) });
  return el("li", { "data-session": row.id }, link, el("span.muted.small"));
}
