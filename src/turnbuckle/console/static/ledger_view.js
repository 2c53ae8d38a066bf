// What a run has used and what it wasted, with the causes.

import { el } from "./elements.js";
import { capital, costWords, many, money, span, whole } from "./words.js";

/** One line: tokens, money, calls. */
export function usageWords(fold) {
  const { totals } = fold;
  const parts = [many(totals.asks, "model call")];
  if (fold.calls.started) parts.push(many(fold.calls.started, "tool call"));
  if (fold.context && fold.context.used && fold.context.window) {
    const { used, window } = fold.context;
    parts.push(`context ${whole(used)} of ${whole(window)} tokens (${Math.round((used / window) * 100)} %)`);
  }
  const cached = totals.cached ? ` (${whole(totals.cached)} cached)` : "";
  if (totals.input || totals.output)
    parts.push(`${whole(totals.input)} tokens in${cached}, ${whole(totals.output)} out`);
  const cost = costWords(totals.cost, totals.unpriced);
  if (cost) parts.push(cost);
  return parts.join(" · ");
}

/** The ledger of `GET /v1/runs/{id}/ledger`; null where nothing was wasted. */
export function ledgerView({ entries, total }) {
  if (!entries.length) return null;
  const rows = entries.map((entry) =>
    el(
      "tr",
      null,
      el("th", { scope: "row" }, capital(entry.cause)),
      el("td", null, whole(entry.times)),
      el("td", null, span(entry.seconds)),
      el("td", null, tokens(entry)),
      el("td", null, money(entry.money) || "not known"),
    ),
  );
  const head = el(
    "tr",
    null,
    ...["Cause", "Times", "Time", "Tokens", "Money"].map((name) => el("th", { scope: "col" }, name)),
  );
  return el(
    "details.ledger",
    null,
    el("summary", null, `Wasted: ${span(total.seconds)}, ${tokens(total)}`),
    el(
      "div.table",
      { tabindex: "0", role: "group", "aria-label": "What was wasted" },
      el("table", null, el("thead", null, head), el("tbody", null, ...rows)),
    ),
  );
}

function tokens(entry) {
  const all = entry.input_tokens + entry.output_tokens;
  return all ? `about ${many(all, "token")}` : "no tokens";
}
