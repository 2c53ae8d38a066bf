// The receipt of a stop, in words: what was cut, killed, never begun and kept.

import { el } from "./elements.js";
import { TOOL_STATE, byWhom, many, spaced, span } from "./words.js";

export function receiptLines(receipt) {
  if (!receipt.stopped) {
    const end = receipt.outcome ? ` It had already ended: ${spaced(receipt.outcome.kind)}.` : " It has not ended yet.";
    return [`Nothing was stopped.${end}`];
  }
  const lines = [
    `Stopped${byWhom(receipt.by)}${receipt.seconds === null ? "" : ` within ${span(receipt.seconds)}`}.`,
    receipt.keeps ? "The conversation is kept." : "The next message of its session starts fresh.",
  ];
  if (receipt.model_call) {
    lines.push(
      `The model call on ${receipt.model_call.route} was cut; ${many(receipt.model_call.characters_received, "character")} had arrived.`,
    );
  }
  for (const tool of receipt.tools) {
    const killed = tool.killed.length ? ` Killed: ${tool.killed.join(", ")}.` : "";
    const left = tool.survivors.length ? ` May still be running: ${tool.survivors.join(", ")}.` : "";
    lines.push(
      `${tool.name}: ${TOOL_STATE[tool.status] || spaced(tool.status)} after ${span(tool.seconds)}.${killed}${left}`,
    );
  }
  for (const call of receipt.not_started) lines.push(`${call.name} never began.`);
  if (receipt.approvals_withdrawn.length)
    lines.push(`${many(receipt.approvals_withdrawn.length, "question")} taken back.`);
  if (receipt.drafts.length) lines.push(`${many(receipt.drafts.length, "draft")} kept.`);
  return lines;
}

export function receiptView(receipt) {
  return el(
    "section.receipt",
    { role: "group", "aria-label": "What was stopped" },
    el("ul", null, ...receiptLines(receipt).map((line) => el("li", null, line))),
  );
}
