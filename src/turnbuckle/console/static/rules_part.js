/** What somebody has always allowed, as a part of the approvals page: each rule can be taken away again. */

import { el } from "./elements.js";
import { ago } from "./lists.js";
import { plainly } from "./words.js";

export class RulesPart {
  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    this.list = el("ul.rules", { "aria-label": "Always allowed" });
    const about = el("p.small.muted", null, "These calls are not asked about. Remove a rule to be asked again.");
    this.element = el("section.part", { "aria-label": "Always allowed", hidden: true });
    this.element.append(el("h2", null, "Always allowed"), about, this.list);
  }

  async look() {
    await this.shell.perform(async () => {
      const rules = await this.shell.api.every("/v1/rules");
      this.element.hidden = !rules.length;
      this.list.replaceChildren(...rules.map((rule) => this.#row(rule)));
    });
  }

  #row({ id, text, created_at: made }) {
    const since = ago(made, this.shell.api.now());
    const remove = el("button.small", { type: "button", "aria-label": `Remove the rule ${text}` }, "Remove");
    remove.addEventListener("click", () => void this.#remove(id, remove));
    const when = el("span.small.muted", null, since === "now" ? "just now" : `${since} ago`);
    return el("li.row", null, el("code.grow", null, plainly(text)), when, remove);
  }

  async #remove(id, button) {
    button.disabled = true; // one click is enough
    await this.shell.perform(async () => {
      await this.shell.api.ask("DELETE", `/v1/rules/${encodeURIComponent(id)}`);
      this.shell.say("Removed. The next such call asks first.");
    });
    await this.look();
  }
}
