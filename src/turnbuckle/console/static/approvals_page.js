/** All that waits for a person, in any run, answered in place. */

import { addressOf } from "./address.js";
import { approvalAbout } from "./approval_about.js";
import { el, newId, setText } from "./elements.js";
import { ago } from "./lists.js";
import { plainly } from "./words.js";

const MOST = 20_000; // characters of arguments that are shown; the run's page has all

export class ApprovalsPage {
  title = "Approvals";
  #items = new Map();

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    this.list = el("ul.approvals", { "aria-label": "What waits for you" });
    this.note = el("p.muted", { role: "status" });
    this.element = el("div.page", null, this.note, this.list);
    this.onApprovals = ({ detail }) => this.#draw(detail);
  }

  async open() {
    this.shell.watch.addEventListener("approvals", this.onApprovals);
    this.#draw(this.shell.watch.approvals);
    await this.shell.watch.look();
  }

  close() {
    this.shell.watch.removeEventListener("approvals", this.onApprovals);
  }

  #draw(rows) {
    const kept = new Map();
    for (const row of rows) {
      const name = `${row.run} ${row.id}`;
      const item = this.#items.get(name) ?? this.#made(row);
      if (!item.isConnected) this.list.append(item);
      const left = row.expires_at ? `, until ${new Date(row.expires_at * 1000).toLocaleTimeString()}` : "";
      const gone = ago(row.asked_at, this.shell.api.now());
      setText(item.querySelector(".when"), `asked ${gone === "now" ? "just now" : `${gone} ago`}${left}`);
      kept.set(name, item);
    }
    for (const [name, item] of this.#items) if (!kept.has(name)) item.remove();
    this.#items = kept;
    setText(this.note, rows.length ? "" : "Nothing waits for you.");
  }

  #made(row) {
    const problem = el("p.problem.small", { role: "alert" });
    const item = el("li.card", { "data-approval": row.id });
    const send = (body) => void this.#answer(row, body, item, problem);
    const what = row.kind === "question" ? "The agent has a question for you" : `May it run ${row.tool}?`;
    const link = el("a.small", { href: addressOf({ page: "run", id: row.run }) }, "Open run");
    item.append(el("div.row", null, el("h2", null, what), el("span.when.small.muted"), el("span.grow"), link));
    if (row.question) item.append(el("p.words", null, row.question));
    if (row.kind === "question") item.append(answerForm(send));
    else item.append(approvalAbout(row), argumentsOf(row), choice(send, row.always ?? []));
    item.append(problem);
    return item;
  }

  async #answer(row, body, item, problem) {
    const buttons = [...item.querySelectorAll("button")];
    for (const button of buttons) button.disabled = true;
    setText(problem, "");
    try {
      const path = `/v1/runs/${encodeURIComponent(row.run)}/approvals/${encodeURIComponent(row.id)}`;
      await this.shell.api.ask("POST", path, body);
      this.#draw(this.shell.watch.approvals.filter((one) => one.id !== row.id || one.run !== row.run));
      this.shell.say(`${row.kind === "question" ? "Answered" : body.decision.startsWith("allow") ? "Allowed" : "Denied"}.`);
    } catch (refused) {
      if (refused.name !== "ApiProblem") throw refused;
      setText(problem, refused.message);
      this.shell.watch.soon();
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  }
}

/** The command stands above; what else is given stands here. */
function argumentsOf({ arguments: given, command }) {
  const { command: said, ...others } = given;
  const rest = command && said === command ? others : given;
  if (!Object.keys(rest).length && rest !== given) return "";
  const text = plainly(JSON.stringify(rest, null, 2) ?? "");
  const shown = text.length > MOST ? `${text.slice(0, MOST)}\n… ${text.length - MOST} more characters` : text;
  return el("pre.arguments", { tabindex: "0", role: "group", "aria-label": "Arguments" }, shown);
}

function choice(send, always) {
  const answer = (decision) => () => send({ decision });
  return el(
    "div.row",
    null,
    el("button.primary", { type: "button", onclick: answer("allow") }, "Allow"),
    el("button", { type: "button", onclick: answer("allow_always"), hidden: !always.length }, "Always"),
    el("button", { type: "button", onclick: answer("deny") }, "Deny"),
  );
}

function answerForm(send) {
  const id = newId("answer");
  const field = el("input", { type: "text", id, required: true, autocomplete: "off" });
  const button = el("button.primary", { type: "submit" }, "Answer");
  const form = el("form.row", null, el("label.sr", { for: id }, "Answer"), field, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) send({ decision: "answer", text: field.value });
  });
  return form;
}
