/** The settings in effect and where each comes from; those that somebody chose first. */

import { el, newId, setText } from "./elements.js";
import { settingsShown } from "./lists.js";

export class SettingsPage {
  title = "Settings";

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const id = newId("settings");
    this.field = el("input", { type: "search", id, placeholder: "Search settings", autocomplete: "off" });
    this.field.addEventListener("input", () => this.#draw());
    const label = el("label.sr", { for: id }, "Search settings");
    this.body = el("tbody");
    this.note = el("p.muted", { role: "status" });
    this.about = el("dl.about");
    this.element = el(
      "div.page",
      null,
      this.about,
      shell.api.key && el("div.row", null, logOut(shell)),
      el("div.row.toolbar", null, el("h2", null, "In effect"), el("span.grow"), label, this.field),
      el("table.settings", null, head(), this.body),
      this.note,
    );
  }

  async open() {
    this.#draw();
    await this.shell.perform(async () => {
      await this.shell.readSettings();
      this.#draw();
    });
  }

  close() {}

  #draw() {
    const { settings } = this.shell;
    const rows = settingsShown(settings.values, this.field.value);
    this.body.replaceChildren(...rows.map(line));
    setText(this.note, rows.length ? "" : "No setting matches.");
    const link = (href, words) => el("a", { href, target: "_blank", rel: "noopener" }, words);
    const pairs = [
      ["Version", settings.version],
      ["File", settings.file || "none: defaults and environment variables apply"],
      ["Relays, for other programs", settings.relays.join(", ")],
      ["Models", settings.models.join(", ") + (settings.rehearsal ? " (a built-in fake model answers)" : "")],
      ["For programs", el("span.links", null, link("/openapi.json", "OpenAPI document"), link("/healthz", "health"))],
    ];
    this.about.replaceChildren(...pairs.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
  }
}

function logOut(shell) {
  return el("button", { type: "button", onclick: () => shell.logOut() }, "Log out");
}

function head() {
  const cells = ["Setting", "Value", "Source"].map((name) => el("th", { scope: "col" }, name));
  return el("thead", null, el("tr", null, ...cells));
}

function line({ key, value, source }) {
  const name = el("th", { scope: "row" }, el("code", null, key));
  const row = el("tr", null, name, el("td", null, el("code", null, value)), el("td", null, source));
  if (source !== "default") row.className = "chosen";
  return row;
}
