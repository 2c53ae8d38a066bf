/** All that waits for a person, in any run, answered in place; and what was always allowed. */

import { addressOf } from "./address.js";
import { ApprovalCard } from "./approval_card.js";
import { el, setText } from "./elements.js";
import { ago } from "./lists.js";
import { RulesPart } from "./rules_part.js";
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
    this.rules = new RulesPart(shell);
    this.element = el("div.page", null, this.note, this.list, this.rules.element);
    this.onApprovals = ({ detail }) => this.#draw(detail);
  }

  async open() {
    this.shell.watch.addEventListener("approvals", this.onApprovals);
    this.#draw(this.shell.watch.approvals);
    await Promise.all([this.shell.watch.look(), this.rules.look()]);
  }

  close() {
    this.shell.watch.removeEventListener("approvals", this.onApprovals);
    for (const { card } of this.#items.values()) card.close();
  }

  #draw(rows) {
    const kept = new Map();
    for (const row of rows) {
      const name = `${row.run} ${row.id}`;
      const item = this.#items.get(name) ?? this.#made(row);
      const { element } = item;
      if (!element.isConnected) this.list.append(element);
      const since = ago(row.asked_at, this.shell.api.now());
      setText(element.querySelector(".when"), `asked ${since === "now" ? "just now" : `${since} ago`}`);
      kept.set(name, item);
    }
    for (const [name, item] of this.#items) if (!kept.has(name)) gone(item);
    this.#items = kept;
    const { missing } = this.shell.watch;
    const unknown = missing.length ? `What waits at ${missing.join(", ")} is not known: no answer.` : "";
    setText(this.note, unknown || (rows.length ? "" : "Nothing waits for you."));
  }

  /** The same card as in the run, with what else is given above it. */
  #made(row) {
    const asked = { ...row, isQuestion: row.kind === "question", tool: { name: row.tool }, always: row.always ?? [] };
    const about = { verdict: "pending", askedAt: row.asked_at, answeredAt: null, expires: row.expires_at ?? null };
    const answer = (_, body) => this.#answer(row, body);
    const card = new ApprovalCard({ ...asked, ...about }, { answer, now: () => this.shell.api.now() });
    const link = el("a.small", { href: addressOf({ page: "run", id: row.run }) }, "Open run");
    const head = el("div.row", null, el("span.when.small.muted"), el("span.grow"), link);
    const given = asked.isQuestion ? "" : argumentsOf(row);
    return { card, element: el("li.card", null, head, given, card.element) };
  }

  async #answer(row, body) {
    const path = `/v1/runs/${encodeURIComponent(row.run)}/approvals/${encodeURIComponent(row.id)}`;
    try {
      await this.shell.api.ask("POST", path, body);
    } catch (refused) {
      this.shell.watch.soon();
      throw refused;
    }
    this.#draw(this.shell.watch.approvals.filter((one) => one.id !== row.id || one.run !== row.run));
    if (body.decision === "allow_always") void this.rules.look();
    this.shell.say(`${row.kind === "question" ? "Answered" : body.decision.startsWith("allow") ? "Allowed" : "Denied"}.`);
  }
}

/** The command and the changes stand in the card; what else is given stands here, folded where a diff tells it already. */
function argumentsOf({ arguments: given, command, changes = [] }) {
  const { command: said, ...others } = given;
  const rest = command && said === command ? others : given;
  if (!Object.keys(rest).length && rest !== given) return "";
  const text = plainly(JSON.stringify(rest, null, 2) ?? "");
  const shown = text.length > MOST ? `${text.slice(0, MOST)}\n… ${text.length - MOST} more characters` : text;
  const box = el("pre.arguments", { tabindex: "0", role: "group", "aria-label": "Arguments" }, shown);
  return changes.some(({ diff }) => diff) ? el("details.small", null, el("summary", null, "Arguments"), box) : box;
}

function gone({ card, element }) {
  card.close();
  element.remove();
}
