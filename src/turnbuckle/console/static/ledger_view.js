// What a run has used and what it wasted, with the causes.

import { el } from "./elements.js";
import { UNCOUNTED, capital, costWords, many, money, span, whole } from "./words.js";

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
  else if (fold.outcome && totals.asks && !totals.input && !totals.output) parts.push(UNCOUNTED);
  const left = leftWords(fold);
  if (left) parts.push(left);
  return parts.join(" · ");
}

/** What is left of the limits of the run. */
function leftWords({ totals, most }) {
  const left = [];
  if (most.money !== null) {
    const rest = money(Math.max(most.money - (totals.cost || 0), 0));
    left.push(`${totals.unpriced ? "at most " : ""}${rest} of ${money(most.money)}`); // what nobody knows is not nothing
  }
  if (most.tokens !== null)
    left.push(`${whole(Math.max(most.tokens - totals.input - totals.output, 0))} of ${whole(most.tokens)} tokens`);
  return left.length ? `budget left: ${left.join(", ")}` : "";
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
