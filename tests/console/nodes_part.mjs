// The servers on one journal, as the overview tells them.
import assert from "node:assert/strict";
import test from "node:test";

import { nodeWords, sumWords } from "../../src/turnbuckle/console/static/nodes_part.js";

const node = { name: "one", version: "0.9.0", started: 100, runs: 3, max_runs: 0, lag: 0, here: false, labels: [] };

test("a node is told with its version, how long it is up, its runs and its lag", () => {
  const words = nodeWords({ ...node, here: true, max_runs: 1200, lag: 0.25, labels: ["gpu", "disk-a"] }, 160);
  assert.deepEqual(words, {
    name: "one",
    here: "this server",
    version: "0.9.0",
    up: "1 min",
    runs: "3 of 1,200",
    lag: "0.3 s",
    late: false,
    labels: "gpu, disk-a",
  });
});

test("a node without a limit has a number alone, and one that is on time has no lag", () => {
  const words = nodeWords(node, 99); // the clock of the other machine is ahead
  assert.equal(words.runs, "3");
  assert.equal(words.lag, "none");
  assert.equal(words.up, nodeWords(node, 100).up);
});

test("a node that is late asks for attention", () => {
  assert.ok(nodeWords({ ...node, lag: 1.5 }, 200).late);
});

test("several nodes are summed up, and different versions are told", () => {
  assert.equal(sumWords([node]), "");
  assert.equal(sumWords([node, { ...node, runs: 0 }]), "2 servers, 3 runs under way");
  assert.equal(sumWords([{ ...node, runs: 1 }, { ...node, runs: 0, version: "1.0.0" }]), "2 servers, in 2 versions, 1 run under way");
});
