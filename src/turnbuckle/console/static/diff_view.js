// A change of a file as a unified diff: what is added and taken out is told by its sign and its colour.

import { el } from "./elements.js";
import { plainly, whole } from "./words.js";

const MOST = 400; // lines that are shown at once

/** `change` is {path, diff, added, removed, note}. */
export function diffView(change, { open = true } = {}) {
  const lines = change.diff ? change.diff.split("\n") : [];
  const code = el("code");
  code.append(...lines.slice(0, MOST).map(lineOf));
  const box = el("pre.diff", { tabindex: "0", role: "group", "aria-label": `Diff of ${plainly(change.path)}` }, code);
  const parts = [el("summary", null, el("code", null, plainly(change.path)), " ", countsOf(change))];
  if (lines.length) parts.push(box);
  if (lines.length > MOST) {
    const rest = el("button.small", { type: "button" }, `Show ${whole(lines.length - MOST)} more lines`);
    rest.addEventListener("click", () => {
      code.append(...lines.slice(MOST).map(lineOf));
      rest.remove();
    });
    parts.push(rest);
  }
  if (change.note) parts.push(el("p.small.muted", null, plainly(change.note)));
  return el("details.change", { open, "data-path": change.path }, ...parts);
}

export function countsOf({ added = 0, removed = 0 }) {
  return el("span.small.counts", null, el("span.plus", null, `+${whole(added)}`), " ", el("span.minus", null, `−${whole(removed)}`));
}

function lineOf(line) {
  const kind = { "+": "added", "-": "removed", "@": "hunk" }[line[0]] ?? "same";
  return el("span.line", { "data-kind": kind }, `${plainly(line)}\n`);
}
