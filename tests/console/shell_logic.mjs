// What the shell of the console decides without a browser: addresses, lists, what is on its way to the server.
import assert from "node:assert/strict";
import test from "node:test";

import { addressOf, placeOf, wantedTask } from "../../src/turnbuckle/console/static/address.js";
import { problemOf, sentence, waitBefore } from "../../src/turnbuckle/console/static/api.js";
import * as lists from "../../src/turnbuckle/console/static/lists.js";
import { Outbox } from "../../src/turnbuckle/console/static/outbox.js";
import { byWhom, plainly, shortArgument } from "../../src/turnbuckle/console/static/words.js";

test("every place has an address that leads back to it", () => {
  const places = [
    { page: "start" },
    { page: "runs" },
    { page: "approvals" },
    { page: "settings" },
    { page: "session", id: "a.b:c_d-e" },
    { page: "session", id: "50% / ü#?" },
    { page: "run", id: "r_1" },
  ];
  for (const place of places) assert.deepEqual(placeOf(addressOf(place)), place);
});

test("an address that says nothing we know is unknown, and an empty one is the start", () => {
  for (const hash of ["", "#", "#/", "/"]) assert.deepEqual(placeOf(hash), { page: "start" });
  const strange = ["#/x", "#/s", "#/s/", "#/s/a/b", "#/runs/1", "#/s/%E0%A4%A", "#/constructor/a", "#/__proto__/a"];
  strange.push("#/s/.", "#/s/..", "#/r/..", "#/r/%2e%2e"); // in a request these lead to other places
  for (const hash of strange) {
    assert.deepEqual(placeOf(hash), { page: "unknown" }, hash);
  }
});

test("a ready-made task is asked for in front of the #, where the server sees it, and nowhere else", () => {
  assert.equal(wantedTask("?try=stall", ""), "stall");
  assert.equal(wantedTask("", "#/try/cut"), "");
  assert.equal(wantedTask("?try=stall", "#/s/abc"), "");
  assert.equal(wantedTask("?try=../x", ""), "");
  assert.equal(wantedTask("", "#/"), "");
});

const rows = (text) => text.split(" ").filter(Boolean).map((one) => ({ id: one[0], updated_at: Number(one.slice(1)) }));
const ids = (list) => list.map((one) => one.id).join("");

test("a fresh first page replaces what it covers and keeps what is behind it", () => {
  assert.equal(ids(lists.merged(rows("a9 b8 c7 d6"), rows("c11 a9"), true)), "cabd"); // c was touched
  assert.equal(ids(lists.merged(rows("a9 b8 c7 d6"), rows("a9 c7"), true)), "acd"); // b was deleted
  assert.equal(ids(lists.merged(rows("a9 b8 c7 d6"), rows("a9 c7"), false)), "ac"); // there is nothing behind
  assert.equal(ids(lists.merged(rows("a9"), [], false)), "");
  assert.equal(ids(lists.merged(rows("a5 b8 c7"), rows("a5"), true, true)), "abc"); // a search has an order of its own
  assert.equal(ids(lists.merged([], rows("n5"), false)), "n");
});

test("a later page adds only what is not shown yet", () => {
  assert.equal(ids(lists.extended(rows("a9 b8"), rows("b8 c7"))), "abc");
});

test("what is said under a search does not promise that it is all, nor that it is nothing", () => {
  const said = [[0, false], [0, true], [1, false], [1, true], [30, true], [31, false]].map((one) => lists.foundWords(...one));
  const counts = ["1 session found.", "1 or more sessions found.", "30 or more sessions found.", "31 sessions found."];
  assert.deepEqual(said, ["Nothing was found.", "Searching …", ...counts]);
});

test("messages become runs in order, and what a fork shares stands apart", () => {
  const said = ["p", "p", "x", "x", "x", "y"].map((run, at) => ({ run, id: `m${at}`, shared: run === "p", text: "" }));
  const shape = (blocks) => blocks.map(({ run, own, first, messages }) => [run, own, first, messages.length]);
  const whole = [["p", false, "m0", 2], ["x", true, "m2", 3], ["y", true, "m5", 1]];
  assert.deepEqual(shape(lists.grouped(said)), whole);
  for (let at = 0; at <= said.length; at += 1) { // the end first, then what was before it
    const end = lists.grouped(said.slice(at));
    assert.deepEqual(shape(lists.preceded(said.slice(0, at).reverse(), end)), whole);
  }
});

test("only messages that nobody answers yet wait", () => {
  const inbox = ["accepted", "injected", "deferred", "refused"].map((state, at) => ({ state, run: `r${at}` }));
  assert.deepEqual(lists.waiting(inbox, new Set()).map((one) => one.run), ["r0", "r2"]);
  assert.deepEqual(lists.waiting(inbox, new Set(["r0"])).map((one) => one.run), ["r2"]);
});

const shown = ({ text, hit }) => (hit ? `[${text}]` : text);
const hits = (text, words) => lists.markedPieces(text, words).map(shown).join("");

test("what was searched for is marked, whatever its case and accents", () => {
  assert.equal(hits("The Café is open", "cafe"), "The [Café] is open");
  assert.equal(hits("write notes, read notes.md", "note READ"), "write [note]s, [read] [note]s.md");
  assert.equal(hits("bread", "read"), "bread"); // words are found from their beginning
  assert.equal(hits("a <b>x</b> & y", "b"), "a <[b]>x</[b]> & y");
  assert.equal(hits("İstanbul 𝒳 ok", "ok"), "İstanbul 𝒳 [ok]"); // signs that change their length
  assert.equal(hits("anything", ""), "anything");
  assert.equal(hits("", "x"), "");
  assert.equal(hits("aaa aa", "a"), "[a]aa [a]a");
});

test("marking never changes the text", () => {
  const signs = Array.from("aAéİß 𝒳<>&\u0301x_");
  let seed = 7;
  const next = (most) => (seed = (seed * 48271) % 2147483647) % most;
  const made = (most) => Array.from({ length: next(most) }, () => signs[next(signs.length)]).join("");
  for (let count = 0; count < 2000; count += 1) {
    const text = made(30);
    assert.equal(lists.markedPieces(text, made(6)).map((piece) => piece.text).join(""), text);
  }
});

test("settings that somebody chose come first, and all words must fit", () => {
  const values = [
    { key: "server.host", value: "127.0.0.1", source: "default" },
    { key: "server.port", value: "9000", source: "turnbuckle.toml, line 3" },
    { key: "turn.max_calls", value: "90", source: "default" },
  ];
  const keys = (words) => lists.settingsShown(values, words).map((one) => one.key);
  assert.deepEqual(keys(""), ["server.port", "server.host", "turn.max_calls"]);
  assert.deepEqual(keys("SERVER 127"), ["server.host"]);
  assert.deepEqual(keys("toml"), ["server.port"]);
  assert.deepEqual(keys("nowhere"), []);
});

test("how long ago is told in one unit", () => {
  const now = 1_700_000_000;
  const told = [0, 59, 60, 3599, 3600, 86_399, 86_400, 6 * 86_400].map((gone) => lists.ago(now - gone, now));
  assert.deepEqual(told, ["now", "now", "1 min", "59 min", "1 h", "23 h", "1 d", "6 d"]);
  assert.equal(lists.ago(now - 7 * 86_400, now), "2023-11-07");
  assert.equal(lists.ago(now + 5, now), "now"); // the server's clock is a little ahead
});

test("the server's words become a sentence", () => {
  assert.equal(sentence("there is no run 'x'"), "There is no run 'x'.");
  assert.equal(sentence("server.max_body sets the limit"), "server.max_body sets the limit.");
  assert.equal(sentence("Done!"), "Done!");
  assert.equal(sentence(""), "");
});

test("a problem carries what the server said of it", () => {
  const response = { status: 429, headers: new Headers({ "retry-after": "5" }) };
  const problem = problemOf(response, { error: { message: "too many", code: "too_many_runs", param: null } });
  assert.deepEqual(
    [problem.message, problem.status, problem.code, problem.param, problem.retryAfter, problem.lost],
    ["Too many.", 429, "too_many_runs", "", 5, false],
  );
  const strange = problemOf({ status: 502, headers: new Headers() }, null);
  assert.equal(strange.message, "The server answered with status 502.");
});

test("waits grow from half a second to ten", () => {
  const waits = [0, 1, 2, 3, 4, 5, 50].map((count) => waitBefore(count, 1));
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  assert.equal(waitBefore(0, 0), 375);
});

function store() {
  const things = new Map();
  return {
    getItem: (name) => things.get(name) ?? null,
    setItem: (name, value) => void things.set(name, value),
    removeItem: (name) => void things.delete(name),
    things,
  };
}

function outbox(kept) {
  let count = 0;
  return new Outbox(kept, (prefix) => `${prefix}${(count += 1)}`);
}

test("a message keeps its key until it is stored, also behind a reload", () => {
  const kept = store();
  const first = outbox(kept).post("s", "hello", "agent", "");
  const again = outbox(kept);
  assert.deepEqual(again.letter("s"), first);
  assert.equal(again.post("s", "hello", "agent", "").key, first.key);
  again.stored("s");
  assert.equal(again.letter("s"), null);
  assert.equal(again.draft("s"), "");
  assert.equal(kept.things.size, 0);
});

test("other words, another model or another wish make another message", () => {
  const box = outbox(store());
  const said = [["a", "m", ""], ["b", "m", ""], ["b", "n", ""], ["b", "n", "steer"]];
  const keys = said.map((one) => box.post("s", ...one).key);
  assert.equal(new Set(keys).size, 4);
});

test("a refused message is not sent by itself, and keeps its key for whoever sends it again", () => {
  const box = outbox(store());
  const { key } = box.post("s", "hello", "", "");
  box.refused("s");
  assert.deepEqual([box.letter("s").refused, box.letter("s").key], [true, key]);
  assert.deepEqual(box.post("s", "hello", "", ""), { text: "hello", key, model: "", busy: "", attached: "", files: [] });
  box.refused("nobody");
  assert.equal(box.letter("nobody"), null);
});

test("a message that is taken back stays as a draft", () => {
  const box = outbox(store());
  box.post("s", "hello", "", "");
  box.takeBack("s");
  assert.equal(box.letter("s"), null);
  assert.equal(box.draft("s"), "hello");
  assert.equal(box.draft("other"), "");
});

test("what is kept may be anybody's rubbish, or nothing may be kept at all", () => {
  const kept = store();
  kept.setItem("turnbuckle.letter.s", "{broken");
  assert.equal(outbox(kept).letter("s"), null);
  const full = { ...store(), setItem: () => { throw new Error("no room"); } };
  assert.equal(outbox(full).post("s", "hello", "", "").text, "hello");
  const none = outbox(null);
  none.keepDraft("s", "x");
  assert.equal(none.draft("s"), "x");
});

test("what is not seen, or turns the order around, is written out; other scripts and signs stay as they are", () => {
  assert.equal(plainly("rm \u202etxt.a\u202c \u200b\ufeff\u001b[8m"), "rm \\u202etxt.a\\u202c \\u200b\\ufeff\\u001b[8m");
  // What hides in a command or in a line of a diff: marks of direction, tags, fillers, an end of a line that is none.
  assert.equal(plainly("a\u200e\u061c\u00ad\u2028\u3164b\rc\r"), "a\\u200e\\u061c\\u00ad\\u2028\\u3164b\\u000dc\\u000d");
  assert.equal(plainly("ls\u{e0041}\u200d\ufe0f"), "ls\\u{e0041}\\u200d\\ufe0f");
  for (const text of ["1\ufe0f\u20e3", "❤\ufe0f\u200d🔥"]) assert.equal(plainly(text), text);
  for (const text of ["a\tb\r\nc", "مرحبا", "你好", "👩‍👩‍👧", "naïve"]) assert.equal(plainly(text), text);
  assert.equal(shortArgument({ command: "echo \u202e# sl" }), "echo \\u202e# sl");
});

test("whoever sits at this machine needs no name", () => {
  assert.deepEqual(["", "local", "ann"].map(byWhom), ["", "", " by ann"]);
});
