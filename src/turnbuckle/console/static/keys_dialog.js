/** What the keyboard can do, in a window of its own. */

import { el, newId } from "./elements.js";

const KEYS = [
  ["Anywhere", [["?", "Show these keys"], ["/", "Search the sessions"], ["Alt ↑ / Alt ↓", "Previous or next session"]]],
  ["Writing", [["Enter", "Send"], ["Shift Enter", "New line"], ["Esc", "Stop what is running; the conversation is kept"]]],
  ["A timeline", [["← →", "From step to step"], ["Home / End", "First and last step"], ["Esc", "Close the note"]]],
  ["A menu", [["↑ ↓", "From entry to entry"], ["Esc", "Close it"]]],
];

export function showKeys() {
  const id = newId("keys");
  const close = el("button.primary", { type: "button", autofocus: true }, "Close");
  const parts = KEYS.flatMap(([title, rows]) => [
    el("h3.small.muted", null, title),
    el("dl.keys", null, ...rows.flatMap(([key, what]) => [el("dt", null, el("kbd", null, key)), el("dd", null, what)])),
  ]);
  const body = el("div.asking", null, el("h2", { id }, "Keys"), ...parts, el("div.answers", null, close));
  const dialog = el("dialog", { "aria-labelledby": id }, body);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
