// One run as the page draws it, over streams that a real server sent (record_streams.py makes them).

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { usageWords } from "../../src/turnbuckle/console/static/ledger_view.js";
import { RunModel } from "../../src/turnbuckle/console/static/run_model.js";
import { stepsOf } from "../../src/turnbuckle/console/static/steps.js";

const FOLDER = new URL("./streams/", import.meta.url);

function read(name) {
  const [first, ...frames] = readFileSync(new URL(name, FOLDER), "utf8").split("\n\n");
  const events = frames.filter(Boolean).map((frame) => JSON.parse(frame.slice(frame.indexOf("\ndata: ") + 7)));
  return { name, server: JSON.parse(first.slice(2)), events };
}

const STREAMS = readdirSync(FOLDER).sort().map(read);
const stream = (name) => STREAMS.find((one) => one.name === `${name}.sse`);

/** As a page does it: a reset means to read the run again from its first event. */
function folded(events) {
  let fold = new RunModel();
  for (const event of events) {
    fold.take(event);
    if (fold.stale) fold = new RunModel();
  }
  return fold;
}

/** All that a page can see of a fold, as one value. Spans and segments point at each other, so names stand for them. */
function seen(fold) {
  const plain = { ...fold, calls: undefined, _changed: undefined };
  const names = new Map();
  return JSON.stringify(
    [plain, fold.tools, [...fold.drafts.values()], [...fold.approvals.values()], fold.output, fold.status],
    (key, value) => {
      if (value === null || typeof value !== "object") return value;
      if (names.has(value)) return `see ${names.get(value)}`;
      names.set(value, names.size);
      return value;
    },
  );
}

test("there are streams to fold, and they hold every kind of event that a server sends", () => {
  const kinds = new Set(STREAMS.flatMap((one) => one.events.map((event) => event.type)));
  for (const kind of [
    "run_started",
    "run_claimed",
    "model_asked",
    "streamed",
    "decided",
    "draft_kept",
    "draft_grown",
    "draft_closed",
    "user_spoke",
    "tool_started",
    "tool_said",
    "tool_finished",
    "approval_asked",
    "approval_answered",
    "calls_handed_over",
    "run_left",
    "stop_asked",
    "run_ended",
    "interrupted",
    "reset",
  ]) {
    assert.ok(kinds.has(kind), kind);
  }
});

for (const { name, server, events } of STREAMS) {
  test(`${name}: the page says what the server says`, () => {
    const fold = folded(events);
    assert.equal(fold.output, server.output);
    assert.equal(fold.status, server.status);
    assert.deepEqual(fold.outcome, server.outcome);
    assert.equal(fold.last, server.last_event);
    assert.equal(fold.totals.asks, server.model_calls);
    assert.equal(fold.calls.started, server.tool_calls);
    assert.deepEqual({ input: fold.totals.input, output: fold.totals.output }, server.usage);
    assert.deepEqual(
      fold.calls.openDrafts.map((draft) => draft.id),
      server.drafts,
    );
    for (const draft of fold.calls.openDrafts) assert.equal(draft.pieces.join(""), server.draft_texts[draft.id]);
    assert.deepEqual(
      [...fold.approvals.values()].map((one) => [one.id, one.verdict, one.by]),
      server.approvals.map((one) => [one.id, one.status, one.answered_by]),
    );
    assert.deepEqual(
      fold.tools.filter((tool) => tool.handed).map((tool) => tool.handed),
      server.handed_calls,
    );
  });

  test(`${name}: a reader who comes back after any event sees the same`, () => {
    const whole = seen(folded(events));
    for (let cut = 0; cut <= events.length; cut += 1) {
      for (const again of [0, 1, 5]) {
        const start = Math.max(cut - again, 0);
        if (events.slice(start, cut).some((event) => event.type === "reset")) continue; // it is told once
        assert.equal(
          seen(folded([...events.slice(0, cut), ...events.slice(start)])),
          whole,
          `at ${cut}, ${again} again`,
        );
      }
    }
  });

  test(`${name}: events that were seen change nothing, and heartbeats neither`, () => {
    const fold = folded(events);
    const whole = seen(fold);
    for (const event of events) if (event.seq && event.type !== "reset") assert.equal(fold.take(event), false);
    fold.take({ type: "heartbeat", at: fold.at + 99, waiting_on: null });
    assert.equal(seen(fold), whole);
  });

  test(`${name}: every time span has an end, none begins before the run, and each has words`, () => {
    const fold = folded(events);
    for (const span of fold.spans) {
      assert.ok(
        span.start >= fold.startedAt && span.end !== null && span.end >= span.start,
        JSON.stringify([span.kind, span.start, span.end]),
      );
      assert.ok(span.end <= fold.endedAt);
    }
    const steps = stepsOf(fold);
    assert.ok(steps.length > 1);
    for (const step of steps)
      assert.ok(step.kind && step.words && !/undefined|null|NaN|\[object/.test(step.words), step.words);
    assert.equal(steps.at(-1).kind, "end");
  });

  test(`${name}: what changed is told once`, () => {
    const fold = new RunModel();
    const shown = new Set();
    for (const event of events) {
      if (event.type === "reset") return;
      fold.take(event);
      for (const segment of fold.drain()) shown.add(segment);
      assert.deepEqual(fold.drain(), []);
      for (const segment of fold.segments) assert.ok(shown.has(segment), segment.kind);
    }
  });
}

const kinds = (fold) => fold.segments.map((segment) => segment.kind);
const text = (fold) => fold.segments.filter((one) => one.kind === "text").map((one) => one.pieces.join(""));

test("a text that was cut and goes on is one text, also when the model thinks in between", () => {
  assert.equal(text(folded(stream("cut_in_text").events)).length, 1);
  const fold = folded(stream("stall_in_text").events);
  assert.deepEqual(text(fold), ["The wire holds, the wind does not."]);
  assert.deepEqual(kinds(fold).filter((kind) => kind === "reasoning").length, 2);
});

test("a reset takes back words that are lost, though it stands in front of them", () => {
  const fold = new RunModel();
  const heard = (seq, text) => fold.take({ type: "streamed", seq, at: 1, told: [{ type: "text", text }] });
  heard(2, "kept ");
  heard(5, "lost");
  fold.take({ type: "reset", seq: 2, at: 1, after: 2 });
  assert.ok(fold.stale);
});

test("a stall is a span of its own, from the last word to the end of patience", () => {
  const fold = folded(stream("stall_in_text").events);
  const [stall] = fold.spans.filter((span) => span.kind === "stall");
  assert.ok(stall.end - stall.start > 0.8);
  assert.equal(stall.failure.clock, "gap");
  const recovery = fold.spans.find((span) => span.kind === "recovery");
  assert.equal(recovery.from.attempt.number, 1);
  assert.equal(recovery.next.attempt.number, 2);
});

test("one piece of work is one card, however many streams brought it", () => {
  const fold = folded(stream("drafts").events);
  assert.deepEqual(kinds(fold).filter((kind) => kind === "tool").length, 1);
  const [tool] = fold.tools;
  assert.equal(tool.name, "write_file");
  assert.equal(tool.state, "finished");
  assert.ok(tool.parts.length >= 3);
  assert.ok(tool.arguments.content.startsWith(tool.draft.pieces.join("")));
});

test("a draft that is cut back keeps its characters, not its code units", () => {
  const fold = new RunModel();
  const draft = { draft: "d1", tool: "write_file", argument: "content", added: "a🪢b🪢c" };
  const tell = (seq, told) => fold.take({ type: "draft_grown", seq, at: 1, told: [{ type: "draft", card: 1, ...told }] });
  tell(1, draft);
  tell(2, { draft: "d1", kept: 4, added: "x" });
  assert.equal(fold.drafts.get("d1").pieces.join(""), "a🪢b🪢x");
  tell(3, { draft: "d1", kept: 2, added: "🪢" });
  assert.equal(fold.drafts.get("d1").pieces.join(""), "a🪢🪢");
  assert.equal(fold.drafts.get("d1").characters, 3);
});

test("two calls with the same id are two cards with their own ends", () => {
  const fold = folded(stream("parallel_tools").events);
  assert.deepEqual(
    fold.tools.map((tool) => [tool.name, tool.state]),
    [
      ["shell", "failed"],
      ["list_files", "finished"],
    ],
  );
  assert.equal(fold.tools[0].outcome.exit_code, 3);
  assert.equal(fold.tools[0].output.join(""), "one\ntwo\n");
});

test("killed, unknown, not allowed and never started are told apart", () => {
  const state = (name) => folded(stream(name).events).tools[0].state;
  assert.equal(state("stopped_tool"), "killed");
  assert.equal(state("killed_in_tool"), "unknown");
  assert.equal(state("denied"), "denied");
  assert.equal(state("allowed"), "finished");
  assert.equal(state("handed"), "handed");
  assert.equal(state("gave_up"), "draft");
});

test("the time in which nobody drove a run is a span, and what was under way ended there", () => {
  const fold = folded(stream("killed_in_tool").events);
  const gap = fold.spans.find((span) => span.kind === "interrupted");
  assert.ok(gap.crash && gap.end > gap.start);
  assert.equal(fold.spans.find((span) => span.kind === "tool").end, gap.start);
  assert.equal(folded(stream("left").events).spans.find((span) => span.kind === "interrupted").crash, false);
});

test("a run that nobody drives says so until it goes on", () => {
  const { events } = stream("left");
  const at = events.findIndex((event) => event.type === "interrupted");
  assert.equal(folded(events.slice(0, at + 1)).status, "interrupted");
  assert.equal(folded(events.slice(0, at + 2)).status, "running");
});

test("it is always said what is waited for, and nothing once the run is over", () => {
  const { events } = stream("allowed");
  const waits = events.map((event, at) => folded(events.slice(0, at + 1)).waitingOn(event.at)?.kind);
  for (const kind of ["provider_first_token", "provider", "approval", "tool"]) assert.ok(waits.includes(kind), kind);
  assert.equal(waits.at(-1), undefined);
  const limited = stream("rate_limited").events;
  const at = limited.findIndex((event) => event.type === "decided");
  assert.equal(folded(limited.slice(0, at + 1)).waitingOn(limited[at].at).detail, "next try in 1 s");
});

test("ten thousand bursts of one text are one segment and one phase", () => {
  const fold = new RunModel();
  const tell = (type, seq, at, told) => fold.take({ type, seq, at, told: [told] });
  tell("run_started", 1, 0, { type: "run_begun", run: "r", session: "s", input: [] });
  tell("model_asked", 2, 0, { type: "model_called", attempt: 1, route: "a", model: "m", why: "first" });
  for (let n = 3; n < 10_003; n += 1) {
    tell("streamed", n, n / 100, { type: "text", text: "word " });
  }
  assert.equal(fold.segments.length, 1);
  assert.equal(fold.spans.length, 1);
  assert.equal(fold.spans[0].phases.length, 1);
  assert.equal(fold.spans[0].phases[0].characters, 50_000);
});

test("a draft is counted in one way: in the steps, in its recovery and in its card", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "main", model: "m", why: "first" });
  take({ type: "call_arriving", card: 1, name: "write_file", attempt: 1 });
  take({ type: "call_grown", card: 1, text: '{"path":"a","content":"ab\\n' });
  take(
    { type: "draft", card: 1, draft: "d1", tool: "write_file", argument: "content", kept: 0, added: "ab\n" },
    { type: "broke", decision: { type: "finish_draft", draft: "d1" }, gained: 90, verdict: "cut_by_transport" },
  );
  take({ type: "model_called", attempt: 2, route: "main", model: "m", why: "finish_draft" });
  take({ type: "call_arriving", card: 1, name: "write_file", attempt: 2, rest: true });
  take({ type: "call_grown", card: 1, text: '{"rest":"cd"}' });
  take({ type: "tool_begun", card: 1, tool: "write_file", call: "c", arguments: { path: "a", content: "ab\ncd" } });
  const words = stepsOf(model).map((step) => step.words).join("\n");
  assert.match(words, /call 1 .*: 3 characters of content for write_file/);
  assert.match(words, /rest asked for, 3 characters kept/);
  assert.match(words, /call 2 .*: 2 characters of content for write_file/);
  assert.deepEqual(model.tools[0].parts.map((part) => part.kept), [3, 2]);
});

test("how full the model's window is stands beside the tokens, as guessed before and as counted after", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "main", model: "m", why: "first", expected: 1000, window: 4000 });
  assert.match(usageWords(model), /context 1[,\s\u2009\u202f]?000 of 4[,\s\u2009\u202f]?000 tokens \(25 %\)/);
  take({ type: "usage", usage: { input: 1900, output: 100, cached: 0 } });
  assert.match(usageWords(model), /\(50 %\)/);
  take({ type: "model_called", attempt: 2, route: "main", model: "m", why: "compact", expected: 9, window: 9 });
  assert.match(usageWords(model), /\(50 %\)/);
});

/** Pieces that came within a second as one event, as a server joins them for a page that opens late. */
function joined(events) {
  const found = [];
  for (const event of events) {
    const last = found[found.length - 1];
    const piece = (one) => one?.type === "streamed" && !one.merged && one.told.length === 1 && ["text", "reasoning", "call_grown"].includes(one.told[0].type) && one.told[0];
    const kind = ({ text, ...others }) => JSON.stringify(others);
    if (piece(event) && piece(last) && !event.told[0].gap && kind(event.told[0]) === kind(last.told[0]) && event.at - last.at <= 1) {
      const told = { ...last.told[0], text: last.told[0].text + event.told[0].text };
      found[found.length - 1] = { ...event, from: last.from ?? last.at, told: [told] };
    } else found.push(event);
  }
  return found;
}

test("a run is the same page when its pieces come joined", () => {
  let fewer = 0;
  for (const { name, events } of STREAMS) {
    const short = joined(events);
    fewer += events.length - short.length;
    const [one, other] = [folded(events), folded(short)];
    const told = (fold) => [fold.output, fold.status, fold.totals, fold.segments.map(({ kind, pieces }) => [kind, pieces?.join("")])];
    assert.deepEqual(told(other), told(one), name);
    const phases = (fold) => fold.attempts.map(({ span, characters, thought }) => [span.start, span.end, span.phases, characters, thought]);
    assert.deepEqual(phases(other), phases(one), name);
  }
  assert.ok(fewer > 50, `${fewer} fewer`);
});

test("a run whose calls all broke before anybody counted says that tokens and cost are unknown", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "main", model: "m", why: "first" });
  assert.equal(usageWords(model), "1 model call");
  take({ type: "run_over", end: { kind: "failed", why: "no credit" } });
  assert.equal(usageWords(model), "1 model call · tokens and cost unknown");
});

test("what is left of the limits of a run stands beside what it has used", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "m", model: "m", why: "first", max_money: 2, max_tokens: 500 });
  take({ type: "usage", usage: { input: 90, output: 10, cached: 0 } });
  take({ type: "reply_over", finish: "stop", cost: 0.5 });
  assert.match(usageWords(model), / · \$0\.50 · budget left: \$1\.50 of \$2\.00, 400 of 500 tokens$/);
  take({ type: "model_called", attempt: 2, route: "m", model: "m", why: "first", max_money: 2, max_tokens: 500 });
  take({ type: "usage", usage: { input: 1, output: 1, cached: 0 } });
  take({ type: "reply_over", finish: "stop" });
  assert.match(usageWords(model), /budget left: at most \$1\.50 of \$2\.00, 398 of 500 tokens$/);
});

test("why a run came to nothing is said once, by its end", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "main", model: "m", why: "first" });
  take({ type: "notice", text: "stream broke (reset), going on with other", about: "break" });
  take({ type: "text", text: "No.", refusal: true });
  take({ type: "notice", text: "the model declined", about: "given_up" });
  model.drain();
  take({ type: "run_over", end: { kind: "failed", why: "the model declined" } });
  assert.deepEqual(model.segments.map((one) => Boolean(one.isTold)), [false, true, true]);
  assert.equal([...model.drain()].length, 2);
});

test("an interrupted run says at its end what the server says that it used", () => {
  const model = new RunModel();
  let seq = 0;
  const take = (...told) => model.take({ type: "told", seq: (seq += 1), at: seq, told });
  take({ type: "run_begun", run: "r", session: "", input: [] });
  take({ type: "model_called", attempt: 1, route: "main", model: "m", why: "first" });
  take({ type: "usage_counted", attempt: 1, usage: { input: 113, output: 0, cached: 0 } });
  take({ type: "run_over", end: { kind: "cancelled", why: "stopped" }, spent: { calls: 1, input_tokens: 113, output_tokens: 1212, cost: 0.5 } });
  assert.equal(usageWords(model), "1 model call · 113 tokens in, 1,212 out · $0.50");
});
