// Server-sent events come out the same however the stream is cut into pieces.
import assert from "node:assert/strict";
import test from "node:test";

import { EventSplitter } from "../../src/turnbuckle/console/static/event_stream.js";

const STREAM =
  ': open\n\nid: 1\nevent: run_started\ndata: {"seq":1}\n\n: keepalive\n\n' +
  'id: 2\nevent: streamed\ndata: {"text":"é: x"}\n\nevent: heartbeat\ndata: {"a":1}\n\n' +
  "id: 3\ndata:first\ndata: second\n\nevent: nothing\n\nid: 4\r\nevent: run_ended\r\ndata: {}\r\n\r\n" +
  "id: 5\rdata: old\r\rretry: 7\nunknown\ndata\n\n";
const EVENTS = [
  { name: "run_started", data: '{"seq":1}', id: "1" },
  { name: "streamed", data: '{"text":"é: x"}', id: "2" },
  { name: "heartbeat", data: '{"a":1}', id: "2" },
  { name: "message", data: "first\nsecond", id: "3" },
  { name: "run_ended", data: "{}", id: "4" },
  { name: "message", data: "old", id: "5" },
  { name: "message", data: "", id: "5" },
];

test("a stream in one piece gives its events", () => {
  assert.deepEqual(new EventSplitter().feed(STREAM), EVENTS);
});

test("a stream that comes in pieces of any size gives the same events", () => {
  for (let size = 1; size <= STREAM.length; size += 1) {
    const splitter = new EventSplitter();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...splitter.feed(STREAM.slice(at, at + size)));
    assert.deepEqual(found, EVENTS, `pieces of ${size}`);
  }
});

test("an event that was cut off is not told", () => {
  const splitter = new EventSplitter();
  assert.deepEqual(splitter.feed("id: 9\nevent: streamed\ndata: {}\n"), []);
  assert.deepEqual(splitter.feed("\n"), [{ name: "streamed", data: "{}", id: "9" }]);
});

test("an event comes out as soon as its last sign is there", () => {
  const splitter = new EventSplitter();
  assert.equal(splitter.feed("data: 1\r\n\r").length, 1);
  assert.deepEqual(splitter.feed("\ndata: 2\n\n"), [{ name: "message", data: "2", id: "" }]);
});
