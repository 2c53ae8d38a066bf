// A run in words, step by step: what the timeline draws, for those who read instead. Pure.
//
// `stepsOf` gives one entry per time span of the fold, in the order in which they began. `factsOf` are the rows of a
// tooltip: what is known about one span, and nothing that is not.

import { attachedText } from "./attachments.js";
import {
  TOOL_STATE,
  WHY_ASKED,
  brokeWords,
  byWhom,
  capital,
  costWords,
  didWords,
  many,
  shortArgument,
  shortened,
  spaced,
  span as spanWords,
  whole,
} from "./words.js";

const AMOUNT = 3; // phases that are named one by one in a sentence

/** `{kind, at, words}` for every step. `now` is the server's time, for what is still under way. */
export function stepsOf(fold, now = fold.at) {
  return fold.spans.map((span) => ({ kind: span.kind, at: span.start, words: wordsOf(span, now), span }));
}

/** One span as a sentence. */
export function wordsOf(span, now) {
  return (WORDS[span.kind] || (() => capital(spaced(span.kind))))(span, now);
}

const WORDS = {
  model: modelWords,
  stall: (span) => `No word for ${lasted(span)}${whereIn(span.attempt)}.`,
  recovery: recoveryWords,
  tool: toolWords,
  wait: (span, now) =>
    `${span.end === null ? "Waits" : "Waited"} ${lasted(span, now)} before the next try${asWanted(span.event)}.`,
  approval: approvalWords,
  handed: (span) => `Handed to the client: ${span.calls.map((call) => call.name).join(", ")}.`,
  interrupted: interruptedWords,
  said: (span) => `The user said more: ${inputWords(span.input)}`,
  stop: (span) => `A stop was requested${byWhom(span.by)}.`,
  end: (span) => endWords(span.outcome),
};

function lasted(span, now) {
  return spanWords((span.end ?? now) - span.start);
}

function modelWords(span, now) {
  const attempt = span.attempt;
  const asked = `${attempt.route}, ${WHY_ASKED[attempt.why] || spaced(attempt.why)}`;
  const brought = span.phases.length ? `: ${phaseWords(span)}` : span.end === null ? ": nothing yet" : ": nothing came";
  const tokens = attempt.usage && attempt.usage.output ? `, ${whole(attempt.usage.output)} tokens` : "";
  return `Model call ${attempt.number} (${asked})${brought}${tokens}, ${lasted(span, now)}.`;
}

function phaseWords(span) {
  const sums = new Map();
  for (const phase of span.phases) {
    const key =
      phase.kind === "arguments" ? `arguments of ${phase.name}` : phase.kind === "text" ? "text" : "reasoning";
    sums.set(key, (sums.get(key) || 0) + phase.characters);
  }
  for (const { tool, kept } of span.attempt.parts) {
    if (kept === null || !sums.delete(`arguments of ${tool.name}`)) continue;
    sums.set(`${tool.draft.argument} for ${tool.name}`, kept); // a draft is counted in one way everywhere
  }
  const parts = [...sums].map(([key, characters]) => `${whole(characters)} characters of ${key}`);
  const shown = parts.slice(0, AMOUNT);
  if (parts.length > AMOUNT) shown.push(`${parts.length - AMOUNT} more`);
  return shown.join(", ");
}

function whereIn(attempt) {
  const last = attempt.span.phases[attempt.span.phases.length - 1];
  if (!last) return " before the first word";
  if (last.kind === "arguments") return ` inside the arguments of ${last.name}`;
  return last.kind === "text" ? " in the middle of the text" : " while it was thinking";
}

function recoveryWords(span) {
  const { event } = span;
  const kept = span.kept ? `, ${many(span.kept, "character")} kept` : "";
  const lost = event.lost ? `, ${whole(event.lost)} lost` : "";
  const told = event.failure ? ` (${event.failure.message})` : "";
  return `${capital(brokeWords(event))}${told} → ${didWords(event.decision)}${kept}${lost}.`;
}

/** The few words that stand beside a recovery on the timeline. */
export function recoveryLabel(span) {
  return `${brokeWords(span.event)} → ${didWords(span.event.decision)}`;
}

function toolWords(span, now) {
  const tool = span.tool;
  const what = `${tool.name} ${shortArgument(tool.arguments, 48)}`.trim();
  if (!tool.outcome && span.end === null) return `${what}: running for ${lasted(span, now)}.`;
  if (!tool.outcome || tool.span !== span) return `${what}: its end was not seen.`;
  const told = tool.outcome;
  const code = told.exit_code ? `, exit code ${told.exit_code}` : "";
  const time = tool.startedAt === null ? "" : `, ${spanWords(told.seconds || span.end - span.start)}`;
  return `${what}: ${TOOL_STATE[told.status] || spaced(told.status)}${code}${time}.`;
}

function asWanted(event) {
  return event.failure && event.failure.retry_after !== null ? ", as the provider asked" : "";
}

const ANSWERED = {
  allowed: "allowed",
  denied: "denied",
  answered: "answered",
  expired: "nobody answered in time",
  withdrawn: "withdrawn, the run ended",
};

function approvalWords(span, now) {
  const approval = span.approval;
  const what = approval.question
    ? `“${shortened(approval.question)}”`
    : `${approval.tool.name} ${shortArgument(approval.arguments, 48)}`.trim();
  if (approval.verdict === "pending") return `A person is asked: ${what}. Waiting for ${lasted(span, now)}.`;
  const by = byWhom(approval.by);
  return `A person was asked: ${what}. ${capital(ANSWERED[approval.verdict] || approval.verdict)}${by} after ${lasted(span)}.`;
}

function interruptedWords(span, now) {
  const how = span.crash ? "Its process died" : `Its process released it${span.why ? ` (${span.why})` : ""}`;
  return span.end === null
    ? `${how}; no process works on the run.`
    : `${how}; the run was resumed after ${lasted(span, now)}.`;
}

function endWords(outcome) {
  const cancelled = outcome.why === "interrupted" ? "Interrupted" : "Stopped";
  const words = { completed: "Completed", partial: "Ended in part", cancelled, failed: "Failed" };
  const drafts = outcome.drafts.length ? ` ${capital(many(outcome.drafts.length, "draft"))} kept.` : "";
  const why = outcome.why && outcome.why !== cancelled.toLowerCase() ? `: ${outcome.why}` : "";
  const told = `${words[outcome.kind] || capital(outcome.kind)}${why}`;
  return `${told}${/[.!?]$/.test(told) ? "" : "."}${drafts}`;
}

export function inputWords(input) {
  const parts = input.flatMap((message) => message.parts || []);
  const wordsOfPart = (part) => (part.kind !== "text" ? part.text || `[${part.kind}]` : attachedText(part.text || "")?.name ?? part.text ?? "");
  return shortened(parts.map(wordsOfPart).join(" "), 200);
}

// Facts for a tooltip: [name, value] rows under a title.

/** `{title, rows}` about a span, or about one phase of it. */
export function factsOf(span, now, phase = null) {
  const facts = (FACTS[span.kind] || (() => ({ title: wordsOf(span, now), rows: [] })))(span, now, phase);
  return {
    title: facts.title,
    rows: facts.rows.filter(([, value]) => value !== "" && value !== null && value !== undefined),
  };
}

const FACTS = {
  model: modelFacts,
  stall: (span) => ({
    title: `Silence for ${lasted(span)}`,
    rows: [
      ["Where", whereIn(span.attempt).trim()],
      ["Clock", span.failure.clock ? spaced(span.failure.clock) : ""],
      ["Told", span.failure.message],
      ["Route", routeWords(span.attempt)],
    ],
  }),
  recovery: recoveryFacts,
  tool: toolFacts,
  wait: (span, now) => ({
    title: `Wait of ${lasted(span, now)}`,
    rows: [
      ["Why", span.event.failure ? span.event.failure.message : brokeWords(span.event)],
      ["Asked for", spanWords(span.seconds)],
    ],
  }),
};

function routeWords(attempt) {
  return attempt.route === attempt.model ? attempt.route : `${attempt.route} · ${attempt.model}`;
}

function modelFacts(span, now, phase) {
  const { attempt } = span;
  const usage = attempt.usage || {};
  const first = span.phases.length ? span.phases[0].start - span.start : null;
  const rows = [
    ["Route", routeWords(attempt)],
    ["Asked", WHY_ASKED[attempt.why] || spaced(attempt.why)],
    ["Took", lasted(span, now)],
    ["First word", first === null ? "" : `after ${spanWords(first)}`],
    ["Received", span.phases.length ? phaseWords(span) : "nothing"],
    ["Tokens", usage.input || usage.output ? `${whole(usage.input || 0)} in, ${whole(usage.output || 0)} out` : ""],
    ["Cached", usage.cached ? many(usage.cached, "token") : ""],
    ["Cost", costWords(attempt.cost, attempt.usage && span.end !== null ? 1 : 0)],
    ["Streamed", attempt.stream ? "" : "no, requested in one piece"],
    ["Broke", attempt.failure ? `${spaced(attempt.failure.kind)}: ${attempt.failure.message}` : ""],
    ["Times", span.merged ? "those of single pieces are no longer stored" : ""],
  ];
  if (phase) {
    const name = { text: "Text", reasoning: "Reasoning", arguments: `Arguments of ${phase.name}` }[phase.kind];
    rows.unshift(["Here", `${many(phase.characters, "character")} in ${spanWords(phase.end - phase.start)}`]);
    return { title: `Model call ${attempt.number}: ${name}`, rows };
  }
  return { title: `Model call ${attempt.number}`, rows };
}

function recoveryFacts(span) {
  const { event } = span;
  return {
    title: capital(recoveryLabel(span)),
    rows: [
      ["Verdict", spaced(event.verdict)],
      ["Evidence", event.evidence.join("; ")],
      ["Failure", event.failure ? `${spaced(event.failure.kind)}: ${event.failure.message}` : ""],
      ["Status", event.failure && event.failure.status ? String(event.failure.status) : ""],
      ["Tool", event.tool],
      ["Kept", span.kept ? many(span.kept, "character") : ""],
      ["Lost", event.lost ? many(event.lost, "character") : ""],
      ["Told", event.notice],
    ],
  };
}

function toolFacts(span, now) {
  const { tool } = span;
  const told = tool.span === span ? tool.outcome : null;
  return {
    title: `${tool.name} ${shortArgument(tool.arguments, 48)}`.trim(),
    rows: [
      [
        "State",
        told ? TOOL_STATE[told.status] || spaced(told.status) : span.end === null ? "running" : "its end was not seen",
      ],
      ["Took", lasted(span, now)],
      ["Exit code", told && told.exit_code !== null ? String(told.exit_code) : ""],
      ["Result", told ? shortened(told.text || told.partial_output, 160) : ""],
      ["Killed", told && told.killed.length ? told.killed.join(", ") : ""],
      ["Still running", told && told.survivors.length ? told.survivors.join(", ") : ""],
    ],
  };
}

/** The whole run in one sentence, for a screen reader. */
export function summaryOf(fold, now) {
  const broke = fold.spans.filter((span) => span.kind === "recovery" && span.event.decision.type !== "give_up").length;
  const stalls = fold.spans.filter((span) => span.kind === "stall").length;
  const parts = [many(fold.totals.asks, "model call")];
  if (fold.calls.started) parts.push(many(fold.calls.started, "tool call"));
  if (stalls) parts.push(many(stalls, "stall"));
  if (broke) parts.push(broke === 1 ? "1 recovery" : `${broke} recoveries`);
  const time = spanWords((fold.endedAt ?? now) - fold.startedAt);
  const end = fold.outcome ? endWords(fold.outcome) : "Still under way.";
  return `Timeline of ${time}: ${parts.join(", ")}. ${end}`;
}
