// Arguments as they arrive, and the words and numbers of the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ArgumentsReader } from "../../src/turnbuckle/console/static/arguments_reader.js";
import {
  count,
  firstCharacters,
  money,
  shortArgument,
  shortened,
  size,
  span,
  whole,
} from "../../src/turnbuckle/console/static/words.js";

function read(pieces) {
  const reader = new ArgumentsReader();
  const found = {};
  for (const piece of pieces) for (const { key, text } of reader.push(piece)) found[key] = (found[key] ?? "") + text;
  return found;
}

const OBJECTS = [
  { path: "a.txt", content: 'line 1\n\t"quoted" \\ back/slash 🪢 \u0007' },
  { count: 12, flag: true, nothing: null, list: [1, "a,}", { b: "]" }], text: "x" },
  { 'a key with "signs"': "y", "": "empty" },
  {},
];

test("whole arguments come out as they are, cut anywhere", () => {
  for (const object of OBJECTS) {
    for (const text of [
      JSON.stringify(object),
      JSON.stringify(object, null, 2),
      JSON.stringify(object).replace(/🪢/g, "\\ud83e\\udea2"),
    ]) {
      for (let cut = 0; cut <= text.length; cut += 1) {
        const found = read([text.slice(0, cut), text.slice(cut)]);
        for (const [key, value] of Object.entries(object)) {
          if (typeof value === "string") assert.equal(found[key] ?? "", value, text.slice(0, cut));
          else assert.deepEqual(JSON.parse(found[key]), value);
        }
      }
      assert.deepEqual(read([...text]), read([text]));
    }
  }
});

test("half of the arguments are the beginning of the whole", () => {
  const text = JSON.stringify(OBJECTS[0]);
  for (let cut = 0; cut <= text.length; cut += 1) {
    const found = read([text.slice(0, cut)]);
    for (const key of Object.keys(found))
      assert.ok(key in OBJECTS[0] && OBJECTS[0][key].startsWith(found[key]), found[key]);
  }
});

test("what is no object is shown as it is, and nothing throws", () => {
  assert.deepEqual(read(["ls -la"]), { "": "ls -la" });
  assert.deepEqual(read(['{"a":"b"}{"c":"d"}']), { a: "b", "": '{"c":"d"}' });
  for (const odd of ['{"a"', '{"a":\\', '{"a":"\\u12', '{"a":"\\uzzzz"}', "{{{", "]", '{"a":}', '{,,,"b":1}'])
    read([...odd]);
});

test("characters are counted as the server counts them", () => {
  for (const [text, many] of [
    ["", 0],
    ["abc", 3],
    ["a🪢b", 3],
    ["🪢🪢", 2],
    ["\ud83e", 1],
    ["\udea2\ud83e", 2],
  ])
    assert.equal(count(text), many);
  assert.equal(firstCharacters("a🪢bc", 2), "a🪢");
  assert.equal(firstCharacters("abc", 2), "ab");
});

test("times, sizes and money read well and never jump backwards", () => {
  const told = [0, 0.004, 0.0996, 0.1, 2.34, 9.96, 59.4, 59.6, 65, 3569, 3600, 7260, 86_399, 90_000].map(span);
  assert.deepEqual(told, [
    "0 s",
    "4 ms",
    "0.1 s",
    "0.1 s",
    "2.3 s",
    "10 s",
    "59 s",
    "1 min",
    "1 min 5 s",
    "59 min 29 s",
    "1 h",
    "2 h 1 min",
    "1 d",
    "1 d 1 h",
  ]);
  assert.deepEqual([0, 999, 1500, 20_000, 2_500_000].map(size), ["0 B", "999 B", "1.5 kB", "20 kB", "2.5 MB"]);
  assert.deepEqual([null, 0, 0.00001, 0.0042, 1.5].map(money), ["", "$0", "under $0.0001", "$0.0042", "$1.50"]);
  assert.deepEqual([0, 999, 1000, 1_234_567].map(whole), ["0", "999", "1,000", "1,234,567"]);
});

test("the argument that tells most is short", () => {
  assert.equal(shortArgument({ content: "x", path: "a.txt" }), "a.txt");
  assert.equal(shortArgument({ any: { deep: 1 } }), '{"deep":1}');
  assert.equal(shortArgument({}), "");
  assert.equal(shortArgument(null), "");
  assert.equal(shortened(`a\n  b ${"c".repeat(100)}`).length, 72);
});
