// What a person is asked, in its place in the run: the exact call, a yes or a no, or a question and its answer.

import { approvalAbout } from "./approval_about.js";
import { el, newId, setText } from "./elements.js";
import { byWhom, capital, span } from "./words.js";

const VERDICTS = {
  allowed: "Allowed",
  denied: "Denied",
  answered: "Answered",
  expired: "Nobody answered in time; it did not run",
  withdrawn: "Withdrawn: the run ended before anybody answered",
};

export class ApprovalCard {
  /** `answer` sends `{decision, text}` and gives a promise; `now` is the server's time. */
  constructor(approval, { answer, now }) {
    this._approval = approval;
    this._answer = answer;
    this._now = now;
    this._timer = 0;
    this._sent = false;
    this.title = el(
      "strong",
      null,
      approval.isQuestion ? "The agent has a question for you" : `May it run ${approval.tool.name}?`,
    );
    this.left = el("span.small.muted");
    this.question = el("p.question", { hidden: !approval.question }, approval.question);
    this.about = approvalAbout(approval.isQuestion ? {} : approval);
    this.form = approval.isQuestion ? this._questionForm() : this._choice();
    this.verdict = el("p.verdict", { hidden: true });
    this.problem = el("p.problem.small", { role: "alert", hidden: true });
    this.element = el(
      "section.approval",
      {
        role: "group",
        "aria-label": approval.isQuestion ? "Question" : `Approval of ${approval.tool.name}`,
        "data-approval": approval.id,
      },
      el("div.row", null, this.title, this.left),
      this.question,
      this.about,
      this.form,
      this.verdict,
      this.problem,
    );
    this.update();
  }

  /** The approval has changed, here or elsewhere. */
  update() {
    const { verdict, by, text, askedAt, answeredAt } = this._approval;
    const pending = verdict === "pending";
    this.element.dataset.verdict = verdict;
    this.form.hidden = !pending;
    this.about.hidden = !pending;
    this.verdict.hidden = pending;
    if (pending) {
      this._count();
      return;
    }
    this.close();
    setText(this.title, this._approval.isQuestion ? "A person was asked" : "A person was asked for permission");
    setText(this.left, "");
    const who = byWhom(by);
    const after =
      answeredAt === null || !["allowed", "denied", "answered"].includes(verdict)
        ? ""
        : ` after ${span(answeredAt - askedAt)}`;
    setText(this.verdict, `${VERDICTS[verdict] || capital(verdict)}${who}${after}.${text ? ` “${text}”` : ""}`);
    this.problem.hidden = true;
  }

  close() {
    clearTimeout(this._timer);
    this._timer = 0;
  }

  _choice() {
    const id = newId("word");
    const word = el("input.word", {
      type: "text",
      id,
      autocomplete: "off",
      placeholder: "Message to the model (optional)",
    });
    const send = (decision) => () => void this._send({ decision, text: word.value });
    return el(
      "div.choice",
      null,
      el("button.primary", { type: "button", onclick: send("allow") }, "Allow"),
      el("button", { type: "button", onclick: send("allow_always"), hidden: !this._approval.always.length }, "Always"),
      el("button.danger", { type: "button", onclick: send("deny") }, "Deny"),
      el("label.sr", { for: id }, "Message to the model"),
      word,
    );
  }

  _questionForm() {
    const id = newId("answer");
    const field = el("textarea", { id, rows: "2", required: true });
    const form = el(
      "form.choice",
      null,
      el("label.sr", { for: id }, "Your answer"),
      field,
      el("button.primary", { type: "submit" }, "Answer"),
    );
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) void this._send({ decision: "answer", text: field.value });
    });
    return form;
  }

  async _send(body) {
    if (this._sent) return;
    this._sent = true;
    this._disable(true);
    this.problem.hidden = true;
    try {
      await this._answer(this._approval, body);
    } catch (problem) {
      if (problem.name !== "ApiProblem") throw problem;
      setText(this.problem, problem.message);
      this.problem.hidden = false;
    } finally {
      this._sent = false;
      this._disable(false);
    }
  }

  _disable(off) {
    for (const part of this.form.querySelectorAll("button, input, textarea")) part.disabled = off;
  }

  _count() {
    this.close();
    const { expires } = this._approval;
    if (expires === null) return;
    const left = expires - this._now();
    setText(this.left, left > 0 ? `${span(Math.max(Math.ceil(left), 1))} left` : "time is up");
    if (left > 0 && !document.hidden) this._timer = setTimeout(() => this._count(), left > 3600 ? 30_000 : 1000);
  }
}
