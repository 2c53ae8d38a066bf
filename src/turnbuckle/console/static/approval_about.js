// What an approval is about, drawn in one way wherever it stands: whose task it is, which rule asks, the command as a
// command, the change of a file as a diff, and what a yes for good would write.

import { diffView } from "./diff_view.js";
import { el } from "./elements.js";
import { plainly } from "./words.js";

/** `approval` has title, why, command, changes and always, as the server tells them. */
export function approvalAbout({ title = "", why = "", command = "", changes = [], always = [] }) {
  const parts = [];
  if (title) parts.push(el("p.small.muted", null, `Task: ${plainly(title)}`));
  if (why) parts.push(el("p.small.muted", null, `Asked because: ${plainly(why)}`));
  if (command) parts.push(el("pre.command", { tabindex: "0", role: "group", "aria-label": "Command" }, plainly(command)));
  parts.push(...changes.map((change) => diffView(change)));
  if (always.length) parts.push(el("p.small.muted", null, "“Always” adds the rule ", el("code", null, plainly(always.join(" and ")))));
  return el("div.askedabout", null, ...parts);
}
