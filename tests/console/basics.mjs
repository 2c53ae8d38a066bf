// What is attached, what time it is at the server, what a session is as Markdown: the console's basics without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MOST_PICTURE, MOST_TEXT, attachedText, attachmentOf, inputOf, refusalOf } from "../../src/turnbuckle/console/static/attachments.js";
import { Outbox } from "../../src/turnbuckle/console/static/outbox.js";
import { ServerClock } from "../../src/turnbuckle/console/static/server_clock.js";
import { sessionMarkdown } from "../../src/turnbuckle/console/static/session_markdown.js";

const bytes = (text) => new TextEncoder().encode(text);

test("a picture goes as it is, a PDF as a file, a text under its name in a fence that it cannot close", () => {
  const picture = attachmentOf("a.png", "image/png", new Uint8Array([1, 2, 255]));
  assert.deepEqual(picture.part, { type: "image_url", image_url: { url: "data:image/png;base64,AQL/" } });
  const pdf = attachmentOf("b.pdf", "application/pdf", bytes("%PDF"));
  assert.deepEqual(pdf.part, { type: "file", file: { filename: "b.pdf", file_data: "data:application/pdf;base64,JVBERg==" } });
  const text = attachmentOf("c.md", "", bytes("a\n````\nb"));
  assert.deepEqual(text.part, { type: "text", text: "c.md:\n`````\na\n````\nb\n`````" });
});

const REFUSED = [
  ["a.zip", "application/zip", new Uint8Array([80, 75, 0, 255]), /only pictures .* PDF files and text/],
  ["a.svg", "image/svg+xml", new Uint8Array([0, 255]), /not valid text/],
  ["a.txt", "text/plain", new Uint8Array([0xff, 0xfe]), /not valid text/],
  ["a.txt", "text/plain", new Uint8Array(MOST_TEXT + 1).fill(97), /200 kB/],
  ["a.txt", "text/plain", new Uint8Array(MOST_TEXT * 5).fill(97), /1\.0 MB; the limit is 200 kB/],
  ["a.png", "image/png", new Uint8Array(MOST_PICTURE + 1), /the limit is 5\.0 MB/],
  ["a.bin", "", new Uint8Array([0, 1]), /only pictures/],
  ["empty.txt", "text/plain", new Uint8Array(0), /is empty/],
];
for (const [name, type, content, why] of REFUSED) {
  test(`${name} of ${content.length} bytes is refused in words`, () => assert.match(attachmentOf(name, type, content).problem, why));
}

test("ten files and twenty megabytes are the most for one message", () => {
  const one = (size) => ({ name: "x", size, part: {} });
  assert.equal(refusalOf(Array.from({ length: 9 }, () => one(1)), one(1)), "");
  assert.match(refusalOf(Array.from({ length: 10 }, () => one(1)), one(1)), /10 files/);
  assert.match(refusalOf([one(15_000_000)], one(6_000_000)), /20\.0 MB/);
});

test("words alone are said as words, and with files as parts of one message", () => {
  assert.equal(inputOf("a", []), "a");
  const part = { type: "text", text: "f" };
  assert.deepEqual(inputOf("a", [{ part }]), [{ role: "user", content: [{ type: "text", text: "a" }, part] }]);
  assert.deepEqual(inputOf("", [{ part }]), [{ role: "user", content: [part] }]);
});

function drawer() {
  const things = new Map();
  return { getItem: (name) => things.get(name) ?? null, setItem: (name, value) => things.set(name, value), removeItem: (name) => things.delete(name) };
}

test("a message keeps its key with the same files, has another with others, and knows that a reload lost them", () => {
  let count = 0;
  const store = drawer();
  const outbox = new Outbox(store, () => `c${(count += 1)}`);
  const file = { name: "a.png", size: 3, part: { type: "image_url" } };
  const first = outbox.post("s", "look", "", "", [file]);
  assert.equal(outbox.post("s", "look", "", "", [file]).key, first.key);
  assert.notEqual(outbox.post("s", "look", "", "", []).key, first.key);
  outbox.post("s", "look", "", "", [file]);
  assert.deepEqual(outbox.letter("s").files, [file]);
  const reloaded = new Outbox(store, () => "x").letter("s");
  assert.deepEqual([reloaded.files, reloaded.attached], [[], "a.png 3"]);
});

test("the server's time follows from the smallest difference, and from the date of an answer where all else is old", () => {
  const clock = new ServerClock();
  assert.equal(clock.now(1000), 1000);
  clock.dated("Thu, 01 Jan 1970 00:05:00 GMT", 1000.4); // 300 s
  assert.equal(clock.now(1000.4), 300);
  clock.heard(120, 1000.5); // an event of three minutes ago says nothing new
  assert.equal(clock.now(1001), 300.6);
  clock.heard(301, 1001.1); // one of this moment does
  assert.ok(Math.abs(clock.now(1001.1) - 301) < 1e-6);
  clock.dated("nonsense", 2000);
  clock.dated(null, 2000);
  assert.ok(Math.abs(clock.now(1001.1) - 301) < 1e-6);
});

test("a clock of ours that is set anew is noticed", () => {
  const clock = new ServerClock();
  clock.heard(500, 500);
  clock.dated("Thu, 01 Jan 1970 00:08:30 GMT", 4110); // 510 s: ours went an hour ahead
  assert.equal(clock.now(4110), 510);
});

test("a session is a text that people read: who said what, what tools did, and how it ended", () => {
  const call = { type: "call", tool: "shell", arguments: { command: "ls" } };
  const messages = [
    { role: "user", text: "list files", at: 0, parts: [{ type: "image", media_type: "image/png" }] },
    { role: "assistant", text: "I look.", at: 1, parts: [{ type: "reasoning", text: "hm" }, call] },
    { role: "tool", text: "", at: 2, parts: [{ type: "result", text: "a\n```\nb", failed: false }] },
    { role: "assistant", text: "There is `a`.", at: 3, outcome: "partial", why: "the limit" },
  ];
  assert.equal(
    sessionMarkdown("My\nsession", messages),
    [
      "# My session",
      "## You",
      "*1970-01-01T00:00:00Z*",
      "list files",
      "*A picture (image/png)*",
      "## Answer",
      "*1970-01-01T00:00:01Z*",
      "I look.",
      '**shell**\n\n```json\n{\n  "command": "ls"\n}\n```',
      "Result:\n\n````\na\n```\nb\n````",
      "There is `a`.",
      "*Ended: partial, the limit*\n",
    ].join("\n\n"),
  );
});

test("a text that was attached is known again by its frame, and nothing else is taken for one", () => {
  for (const text of ["a\n````\nb\n", "", "one line\n", "```js\nx\n```\n"].filter(Boolean)) {
    const { part } = attachmentOf("my notes.md", "text/markdown", bytes(text));
    assert.deepEqual(attachedText(part.text), { name: "my notes.md", text });
  }
  for (const text of ["", "look:\n```\na\n", "words\n```\na\n```", "a:\n```\nx\n``` and more"]) assert.equal(attachedText(text), null);
});
