// Calls that become one line: which join, which stand alone, and that each is looked at once.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ToolGroups, groupWords } from "../../src/turnbuckle/console/static/tool_groups.js";

const tool = (name, state = "finished") => ({ kind: "tool", name, state, approval: null, draft: null, outcome: { seconds: 1 } });
const text = () => ({ kind: "text" });
const thought = () => ({ kind: "reasoning" });

function grouped(segments, isOver = true) {
  const groups = new ToolGroups();
  const made = new Set(groups.take(segments, isOver));
  return [...made].map((group) => [groupWords(group), segments.filter((one) => groups.of(one) === group).length]);
}

const CASES = [
  [[tool("shell"), tool("shell")], []],
  [[tool("shell"), tool("shell"), tool("shell")], [["3 × shell", 3]]],
  [[tool("a"), thought(), tool("a"), tool("b"), thought(), text()], [["2 × a, b", 4]]],
  [[tool("a"), tool("a"), text(), tool("a"), tool("a")], []],
  [[tool("a"), tool("a", "failed"), tool("a", "timed_out")], [["3 × a", 3]]],
  [[tool("a"), tool("a"), tool("a", "killed"), tool("a")], []],
  [[tool("a"), tool("a"), { ...tool("a"), draft: { how: "" } }], []],
  [[tool("a"), tool("a"), { ...tool("a"), draft: { how: "finished" } }], [["3 × a", 3]]],
  [[tool("a"), tool("a"), { kind: "notice" }, tool("a")], []],
];
for (const [segments, expected] of CASES) {
  test(`${segments.map((one) => `${one.kind} ${one.state ?? ""}`.trim()).join(", ")}`, () =>
    assert.deepEqual(grouped(segments), expected));
}

test("what happens now stands by itself: the last call, and those that run or wait for a person", () => {
  const segments = [tool("a"), tool("a"), tool("a")];
  assert.deepEqual(grouped(segments, false), []);
  assert.deepEqual(grouped([...segments, tool("a", "running")], false), [["3 × a", 3]]);
  const asked = { ...tool("a"), approval: { verdict: "pending" } };
  assert.deepEqual(grouped([tool("a"), tool("a"), asked, text()], false), []);
});

test("a run of any length is looked at once, and its group grows", () => {
  const groups = new ToolGroups();
  const segments = [];
  let looks = 0;
  for (let count = 0; count < 1000; count += 1) {
    const one = tool("shell");
    segments.push(Object.defineProperty(one, "kind", { get: () => ((looks += 1), "tool") }));
    groups.take(segments, false);
  }
  const [group] = groups.take(segments, true);
  assert.deepEqual([group.calls, group.inside, group.seconds], [1000, 1000, 1000]);
  assert.ok(looks < 8000, looks);
});
