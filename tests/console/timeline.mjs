// The timeline without a page: places in time, what is drawn shorter, and how much is drawn at all.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { RunModel } from "../../src/turnbuckle/console/static/run_model.js";
import { layout, shapeWords } from "../../src/turnbuckle/console/static/timeline_layout.js";
import { Scale, endAhead, roundStep } from "../../src/turnbuckle/console/static/timeline_scale.js";
import { factsOf, summaryOf } from "../../src/turnbuckle/console/static/steps.js";

const FOLDER = new URL("./streams/", import.meta.url);

function eventsOf(name) {
  const frames = readFileSync(new URL(name, FOLDER), "utf8").split("\n\n").slice(1).filter(Boolean);
  return frames.map((frame) => JSON.parse(frame.slice(frame.indexOf("\ndata: ") + 7)));
}

function folded(events) {
  let fold = new RunModel();
  for (const event of events) {
    fold.take(event);
    if (fold.stale) fold = new RunModel();
  }
  return fold;
}

const BAD = /undefined|null|NaN|\[object/;

function checked(drawing) {
  for (const one of drawing.shapes) {
    for (const value of [one.x, one.y, one.w, one.h])
      assert.ok(Number.isFinite(value), JSON.stringify([one.kind, one.look, one.x, one.w]));
    assert.ok(
      one.w > 0 && one.h > 0 && one.x > -10 && one.x + one.w <= drawing.width + 10,
      JSON.stringify([one.kind, one.x, one.w]),
    );
    assert.ok(one.y + one.h <= drawing.height);
    assert.ok(!BAD.test(shapeWords(one, 1e12)), shapeWords(one, 1e12));
  }
  for (const text of drawing.texts) assert.ok(text.text && !BAD.test(text.text), text.text);
  return drawing;
}

for (const name of readdirSync(FOLDER).sort()) {
  test(`${name}: every moment of it can be drawn, wide and narrow, and every shape has its facts`, () => {
    const events = eventsOf(name);
    let fold = new RunModel();
    for (const event of events) {
      fold.take(event);
      if (fold.stale) fold = new RunModel();
      if (!fold.last) continue;
      for (const width of [300, 900]) {
        for (const later of [0, 3, 7200]) {
          const now = fold.at + later;
          for (const shape of checked(layout(fold, now, width)).shapes) {
            const facts = shape.words ? { title: shape.words, rows: [] } : factsOf(shape.span, now, shape.phase);
            assert.ok(facts.title && !BAD.test(JSON.stringify(facts)), JSON.stringify(facts));
          }
          assert.ok(!BAD.test(summaryOf(fold, now)));
        }
      }
    }
  });
}

const kinds = (name) => new Set(checked(layout(folded(eventsOf(name)), 0, 900)).shapes.map((shape) => shape.kind));

test("stalls, recoveries, waits, approvals, handed calls and crashes are on the line", () => {
  for (const [name, ...wanted] of [
    ["stall_in_text.sse", "model", "text", "reasoning", "stall", "recovery", "end"],
    ["drafts.sse", "arguments", "tool", "recovery"],
    ["rate_limited.sse", "wait", "recovery"],
    ["allowed.sse", "approval", "tool"],
    ["handed.sse", "handed"],
    ["killed_in_tool.sse", "interrupted", "tool"],
    ["stopped_tool.sse", "stop"],
  ]) {
    for (const kind of wanted) assert.ok(kinds(name).has(kind), `${name}: ${kind}`);
  }
});

test("a broken attempt points at the one that followed it", () => {
  const drawing = layout(folded(eventsOf("stall_in_text.sse")), 0, 900);
  const [arc] = drawing.arcs;
  const second = drawing.shapes.filter((one) => one.kind === "model" && one.look.startsWith("base"))[1];
  assert.ok(Math.abs(arc.to - second.x) < 1 && arc.from <= arc.to);
  assert.ok(drawing.texts.some((text) => text.text === "stalled → continued"));
});

test("silence is seen while it lasts, with what is waited for", () => {
  const events = eventsOf("stall_in_text.sse");
  const cut = events.findIndex((event) => event.type === "decided");
  const fold = folded(events.slice(0, cut - 1));
  assert.ok(!layout(fold, fold.at + 0.5, 900).shapes.some((one) => one.look === "quiet"));
  const quiet = layout(fold, fold.at + 4.2, 900).shapes.find((one) => one.look === "quiet");
  assert.match(quiet.words, /Silent for 4.2 s: waiting for more from m/);
  const later = layout(fold, fold.at + 4.8, 900).shapes.find((one) => one.look === "quiet");
  assert.ok(later.w > quiet.w);
});

// A run of one's own making

function story() {
  const fold = new RunModel();
  let seq = 0;
  const tell = (at, type, more) => fold.take({ type: "x", seq: (seq += 1), at, told: [{ type, ...more }] });
  tell(0, "run_begun", { run: "r", session: "s", input: [] });
  return { fold, tell };
}

const asked = { route: "a", model: "m", why: "first" };
const end = (kind) => ({ end: { kind, why: "", failure: null, drafts: [] } });
const outcome = {
  status: "finished",
  text: "",
  partial_output: "",
  seconds: 0.2,
  exit_code: 0,
  killed: [],
  survivors: [],
  kept_at: null,
};

test("of a run that is watched nothing moves down when tools, waits or recoveries come", () => {
  for (const name of ["stall_in_text.sse", "drafts.sse", "rate_limited.sse", "allowed.sse"]) {
    const fold = new RunModel();
    const heights = new Set();
    for (const event of eventsOf(name)) {
      fold.take(event);
      const drawing = checked(layout(fold, fold.at, 900, true));
      heights.add(drawing.height);
      assert.deepEqual(
        drawing.rows.map((row) => row.name),
        ["Model", "Tools", "Waits"],
      );
    }
    assert.equal(heights.size, 1, name);
    assert.ok(layout(folded(eventsOf("left.sse")), 0, 900).height <= [...heights][0]);
  }
});

test("two hours until somebody answers are drawn short, with their true length; a stall is not", () => {
  const { fold, tell } = story();
  tell(0, "model_called", { ...asked, attempt: 1 });
  tell(1, "text", { text: "x" });
  tell(2, "reply_over", { attempt: 1 });
  tell(2, "question_asked", { approval: "p", card: 1, tool: "shell", arguments: {} });
  tell(7202, "question_answered", { approval: "p", verdict: "allowed" });
  tell(7203, "run_over", end("completed"));
  const drawing = checked(layout(fold, 0, 900));
  assert.deepEqual(
    drawing.breaks.map((gap) => gap.seconds),
    [7200],
  );
  const [model] = drawing.shapes.filter((one) => one.kind === "model");
  assert.ok(model.w > 200, `${model.w}`);

  const stalled = story();
  stalled.tell(0, "model_called", { ...asked, attempt: 1 });
  stalled.tell(1, "text", { text: "x" });
  const failure = { kind: "stalled", message: "no progress", clock: "gap" };
  stalled.tell(91, "reply_over", { attempt: 1, failure });
  stalled.tell(91, "run_over", end("partial"));
  const whole = checked(layout(stalled.fold, 0, 900));
  assert.deepEqual(whole.breaks, []);
  assert.ok(whole.shapes.find((one) => one.kind === "stall").w > 700);
});

test("minutes of steady words are no idle time", () => {
  const { fold, tell } = story();
  tell(0, "model_called", { ...asked, attempt: 1 });
  for (let at = 1; at < 300; at += 0.5) tell(at, "text", { text: "word " });
  tell(300, "run_over", end("completed"));
  assert.deepEqual(layout(fold, 0, 900).breaks, []);
});

test("a run of a hundred calls and fifty thousand bursts is a drawing of some hundred shapes", () => {
  const { fold, tell } = story();
  let at = 0;
  for (let attempt = 1; attempt <= 100; attempt += 1) {
    tell(at, "model_called", { ...asked, attempt, why: attempt === 1 ? "first" : "after_tools" });
    for (let n = 0; n < 500; n += 1) {
      at += 0.01;
      tell(at, n % 2 ? "text" : "reasoning", { text: "x" });
    }
    tell(at, "reply_over", { attempt });
    tell(at, "tool_begun", { card: attempt, call: "c", tool: "shell", arguments: { command: "ls" } });
    at += 0.2;
    tell(at, "tool_ended", { card: attempt, call: "c", tool: "shell", outcome });
  }
  const drawing = checked(layout(fold, at, 1000));
  assert.ok(drawing.shapes.length + drawing.texts.length < 1200, `${drawing.shapes.length} ${drawing.texts.length}`);
});

test("tools that overlap have rows of their own, and tools that do not share one", () => {
  const rows = (...times) => {
    const { fold, tell } = story();
    const moments = times
      .flatMap(([start, end], n) => [
        [start, "tool_begun", n],
        [end, "tool_ended", n],
      ])
      .sort((a, b) => a[0] - b[0]);
    for (const [at, type, n] of moments) {
      tell(at, type, { card: n + 1, call: `c${n}`, tool: "shell", arguments: {}, outcome });
    }
    return new Set(
      layout(fold, 99, 900)
        .shapes.filter((one) => one.kind === "tool")
        .map((one) => one.y),
    ).size;
  };
  assert.equal(rows([1, 2], [3, 4]), 1);
  assert.equal(rows([1, 3], [2, 4]), 2);
  assert.equal(rows([1, 9], [2, 9], [3, 9], [4, 9], [5, 9], [6, 9]), 4);
});

test("time goes from left to right, whatever is shortened", () => {
  for (const moments of [[1, 2, 3], [1, 5000], [0.001, 0.002, 90, 91, 90_000], []]) {
    const scale = new Scale(0, 100_000, moments, 50, 850);
    let last = -Infinity;
    for (let at = -10; at < 100_010; at += 7) {
      const x = scale.x(at);
      assert.ok(x >= last && x >= 50 && x <= 850);
      last = x;
    }
    assert.ok(Math.abs(scale.x(0) - 50) < 1e-6 && Math.abs(scale.x(100_000) - 850) < 1e-6);
    const ticks = scale.ticks(80);
    for (let n = 1; n < ticks.length; n += 1)
      assert.ok(ticks[n].x > ticks[n - 1].x && ticks[n].text !== ticks[n - 1].text);
  }
});

test("steps of the axis are round, and the end lies a little ahead", () => {
  assert.deepEqual(
    [0.0004, 0.03, 0.3, 1.2, 7, 21, 61, 3000].map(roundStep).map((step) => Number(step.toFixed(3))),
    [0.001, 0.05, 0.5, 2, 10, 50, 120, 3600],
  );
  for (const seconds of [0, 1, 5, 100, 1e5])
    assert.ok(endAhead(seconds) > seconds && endAhead(seconds) < Math.max(seconds * 1.4, 5));
});
