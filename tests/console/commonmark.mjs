// The examples of CommonMark: the library gives what the specification wants, and the console draws what the library gives,
// within its policy: HTML is text, pictures are links, and links lead to the web and to mail.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import MarkdownIt from "../../src/turnbuckle/console/static/markdown-it.mjs";
import { bare, inPieces, oracle, spoken, whole } from "./support/plain_page.mjs";

const { examples } = JSON.parse(readFileSync(new URL("commonmark.json", import.meta.url), "utf-8"));
const STRONG = /<(li|blockquote)>(?:(?!<\/\1>).)*<h[1-6]>/s; // a heading in a list or a quote is only strong words here
const NOWHERE = /href=(?=>)|<span>/; // and a link to nowhere is only words

test("the library gives what the specification says, for each of its examples", () => {
  const reader = new MarkdownIt("commonmark");
  const rendered = (text) => reader.render(text).replaceAll("<blockquote></blockquote>", "<blockquote>\n</blockquote>");
  const wrong = examples.filter(([, , text, expected]) => rendered(text) !== expected);
  assert.equal(examples.length, 652);
  assert.deepEqual(wrong.map(([number]) => number), []);
});

test("each example is drawn as the library's own renderer writes it, whole and sign by sign", () => {
  const left = [];
  for (const [number, , text] of examples) {
    const drawn = whole(text);
    assert.equal(inPieces([...text], true), drawn, `example ${number}`);
    const expected = spoken(oracle.render(text));
    if (STRONG.test(expected) || NOWHERE.test(expected) || NOWHERE.test(drawn)) left.push(number);
    else assert.equal(bare(drawn), bare(expected), `example ${number}`);
  }
  assert.ok(left.length < 20, `left out: ${left}`);
});
