// Markdown as it arrives: that it says what the library says, that pieces end in the same page, and that nothing foreign
// is ever live.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MarkdownView, markdown } from "../../src/turnbuckle/console/static/markdown.js";
import { all, bare, html, inPieces, oracle, PAGE, spoken, textOf, whole } from "./support/plain_page.mjs";

const CASES = {
  "# One\n\ntwo": "<h2>One</h2><p>two</p>",
  "One\n===\nTwo\n---\nthree": "<h2>One</h2><h3>Two</h3><p>three</p>",
  "## Two ##\ntext": "<h2>Two</h2><p>text</p>",
  "# a\n#### b\n## c\n\n> # d": "<h2>a</h2><h3>b</h3><h3>c</h3><blockquote><p><strong>d</strong></p></blockquote>",
  "a **b** *c* ***d*** _e_ __f__ ~~g~~":
    "<p>a <strong>b</strong> <em>c</em> <em><strong>d</strong></em> <em>e</em> <strong>f</strong> <del>g</del></p>",
  "snake_case_name 2 * 3 * 4 **open": "<p>snake_case_name 2 * 3 * 4 **open</p>",
  "a **b *c** d*": "<p>a <em><em>b <em>c</em></em> d</em></p>",
  "`a` ``b ` c`` `open": "<p><code>a</code> <code>b ` c</code> `open</p>",
  "`**a**` \\*b\\*": "<p><code>**a**</code> *b*</p>",
  "[a](https://x.example/y) and [*b*](mailto:c@d.example)":
    "<p><a href=https://x.example/y>a</a> and <a href=mailto:c@d.example><em>b</em></a></p>",
  '[a](https://x.example/y_(z)) [b](<https://x.example> "title")':
    "<p><a href=https://x.example/y_(z)>a</a> <a href=https://x.example>b</a></p>",
  "see https://x.example/a_b_c, ok": "<p>see <a href=https://x.example/a_b_c>https://x.example/a_b_c</a>, ok</p>",
  "(https://x.example)": "<p>(<a href=https://x.example>https://x.example</a>)</p>",
  "<https://x.example>": "<p><a href=https://x.example>https://x.example</a></p>",
  "![alt](https://x.example/p.png)": "<p><a href=https://x.example/p.png>alt</a></p>",
  "[a](javascript:alert(1)) [b](data:text/html,x) [c](/d)":
    "<p>[a](javascript:alert(1)) [b](data:text/html,x) [c](/d)</p>",
  "<script>alert(1)</script>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
  "- a\n- b\n  - c\n  - d\n- e": "<ul><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ul>",
  "1. a\n   more\n2. b\n   - c": "<ol><li>a\nmore</li><li>b<ul><li>c</li></ul></li></ol>",
  "3. a\n4. b": "<ol start=3><li>a</li><li>b</li></ol>",
  "- a\n\n  b\n\n- c\n\nd": "<ul><li><p>a</p><p>b</p></li><li><p>c</p></li></ul><p>d</p>",
  "- [ ] a\n- [x] b": "<ul><li>☐ a</li><li>☑ b</li></ul>",
  "- a\n\n  ```\n  x\n    y\n  ```\n- b": "<ul><li><p>a</p><pre lang=text><code>x\n  y\n</code></pre></li><li><p>b</p></li></ul>",
  "```py\nx = '<b>'\n\n# no heading\n```\nafter":
    "<pre lang=py><code>x = '&lt;b&gt;'\n\n# no heading\n</code></pre><p>after</p>",
  "````\n```\nx\n```\n````": "<pre lang=text><code>```\nx\n```\n</code></pre>",
  "~~~\nopen to the end": "<pre lang=text><code>open to the end\n</code></pre>",
  "> a\n> - b\n\nc": "<blockquote><p>a</p><ul><li>b</li></ul></blockquote><p>c</p>",
  "> a\nlazy": "<blockquote><p>a\nlazy</p></blockquote>",
  "a | b\n:-- | --:\n1 | `x\\|y`\n\n2":
    "<table><thead><tr><th>a</th><th right>b</th></tr></thead><tbody><tr><td>1</td><td right><code>x|y</code></td></tr></tbody></table><p>2</p>",
  "| a | b |\n|---|---|\n| 1 | \\| |":
    "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>|</td></tr></tbody></table>",
  "a\n\n***\n\nb": "<p>a</p><hr></hr><p>b</p>",
  "a  \nb\\\nc\nd": "<p>a<br></br>b<br></br>c\nd</p>",
  "a\r\n\r\nb": "<p>a</p><p>b</p>",
  "see [a] and [b]\n\n[a]: https://x.example\n[b]: javascript:alert(1)":
    "<p>see <a href=https://x.example>a</a> and [b]</p><p>[b]: javascript:alert(1)</p>",
  "- [ ] a\n\n- [x] b": "<ul><li><p>☐ a</p></li><li><p>☑ b</p></li></ul>",
  "``` f&ouml;\\+o x\na\n```": "<pre lang=fö+o><code>a\n</code></pre>",
  "    set in\n\nout": "<pre lang=text><code>set in\n</code></pre><p>out</p>",
  "   ```\n   a\n\tb\n   ```": "<pre lang=text><code>a\n b\n</code></pre>",
  "&amp; &copy; &#0; \u0000": "<p>&amp; © � �</p>",
  "[a]() b": "<p><span>a</span> b</p>",
  "": "",
};

for (const [text, expected] of Object.entries(CASES)) {
  test(`markdown ${JSON.stringify(text)}`, () => assert.equal(whole(text), expected));
}

test("a text says what the library's own renderer says of it", () => {
  for (const text of Object.keys(CASES)) {
    if (text.includes("> #") || text.includes("]()")) continue; // a heading in a quote is only strong words here
    assert.equal(bare(whole(text)), bare(spoken(oracle.render(text))), JSON.stringify(text));
  }
});

const ATTACKS = [
  "[a](javascript:alert(1))",
  "[a](JaVaScRiPt:alert(1))",
  "[a](java\tscript:alert(1))",
  "[a](&#106;avascript:alert(1))",
  "[a](\u0001javascript:alert(1))",
  "[a](<javascript:alert(1)>)",
  "[a](vbscript:x) [b](data:text/html;base64,PHNjcmlwdD4=) [c](file:///etc/passwd) [d](blob:x)",
  "[a]\n\n[a]: javascript:alert(1)",
  "![a](javascript:alert(1)) ![b](data:image/svg+xml,<svg onload=alert(1)>)",
  "<javascript:alert(1)>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<a href='javascript:alert(1)'>x</a>",
  "<!-- <script>alert(1)</script> -->",
  "```html onmouseover=alert(1)\n<script>alert(1)</script>\n```",
  '```"><img src=x onerror=alert(1)>\n```',
  '[a](https://x.example/" onclick="alert(1))',
  '[a](https://x.example "><script>alert(1)</script>")',
  "| <script>alert(1)</script> |\n|---|\n| [x](javascript:alert(1)) |",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
  "[__proto__]\n\n[__proto__]: https://x.example",
  "[constructor]: https://x.example\n\n[constructor] [toString]",
];

const LIVE = ["script", "img", "iframe", "style", "object", "embed", "svg", "math", "form", "input", "base", "link", "meta"];

/** Nothing in a page may load, run or lead anywhere but to the web and to mail. */
function isSafe(page) {
  for (const node of all(page)) {
    assert.ok(!LIVE.includes(node.localName), node.localName);
    for (const name of Object.keys(node.attributes))
      assert.ok(!/^(on|src|srcdoc|style|action|formaction|xlink)/.test(name), name);
    if (node.localName !== "a") continue;
    assert.match(node.attributes.href, /^(https?:\/\/|mailto:)/i);
    assert.equal(node.attributes.rel, "noopener noreferrer");
    assert.equal(node.attributes.target, "_blank");
  }
}

for (const text of ATTACKS) {
  test(`an attack stays text: ${JSON.stringify(text)}`, () => {
    isSafe(markdown(text, PAGE));
    assert.equal(inPieces([...text], true), whole(text));
  });
}

test("what lies too deep for the library is shown as plain text, and a paragraph without end is not searched", () => {
  assert.ok(textOf(markdown(`${">".repeat(150)} deep`, PAGE)).includes("deep"));
  assert.ok(textOf(markdown(`${"- ".repeat(150)} deep`, PAGE)).includes("deep"));
  const long = `**a** ${"![".repeat(100_000)}`;
  assert.equal(textOf(markdown(long, PAGE)), long);
});

test("code is handed on once it is whole, with its language, and not before", () => {
  const told = [];
  const view = new MarkdownView(PAGE, (code, language) => told.push([language, textOf(code)]));
  for (const piece of ["```py\na = 1\n", "b = 2\n``", "`\n\n- x\n\n  ```js\n  c\n", "  ```\n\nend"]) {
    view.push(piece);
    view.draw();
  }
  view.end();
  assert.deepEqual(told, [
    ["py", "a = 1\nb = 2\n"],
    ["js", "c\n"],
  ]);
});

test("every text gives the same page, cut anywhere, drawn often or seldom", () => {
  for (const text of Object.keys(CASES)) {
    const expected = whole(text);
    for (let cut = 0; cut <= text.length; cut += 1) {
      assert.equal(inPieces([text.slice(0, cut), text.slice(cut)], true), expected, JSON.stringify([text, cut]));
    }
    assert.equal(inPieces([...text], true), expected, JSON.stringify(text));
    assert.equal(inPieces([...text], false), expected, JSON.stringify(text));
  }
});

/** Chance that is the same each time. */
function dice(seed) {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

const BITS = [
  "\n",
  "\n\n",
  "  ",
  "- ",
  "1. ",
  "> ",
  "```",
  "```js\n",
  "`",
  "**",
  "*",
  "_",
  "~~",
  "[",
  "](",
  ")",
  "https://x.example",
  "javascript:",
  "<",
  ">",
  "|",
  "---",
  "# ",
  "\\",
  "![",
  "word",
  " ",
  "ä",
  "🪢",
  "\t",
  "=",
  "    ",
  "\r",
];

test("random texts in random pieces give the same page as the whole, and every link is a safe one", () => {
  for (let seed = 1; seed <= 1500; seed += 1) {
    const roll = dice(seed);
    const text = Array.from({ length: 1 + roll(60) }, () => BITS[roll(BITS.length)]).join("");
    const pieces = [];
    for (let at = 0; at < text.length;) {
      const next = at + 1 + roll(7);
      pieces.push(text.slice(at, next));
      at = next;
    }
    const page = markdown(text, PAGE);
    assert.equal(inPieces(pieces, seed % 2 === 0), html(page), JSON.stringify(text));
    if (!/[>#=-]|\[[ xX]\]|\]\(\s*\)/.test(text)) assert.equal(bare(html(page)), bare(spoken(oracle.render(text))), JSON.stringify(text));
    isSafe(page);
  }
});

const LONG = {
  "one paragraph": (n) => "word and *word* ".repeat(n / 16),
  "one line of code": (n) => `\`\`\`\n${"x".repeat(n)}`,
  "code of many lines": (n) => `\`\`\`\n${"let a = 1;\n".repeat(n / 11)}`,
  "a list": (n) => "- an item of the list\n".repeat(n / 22),
  "a nested list": (n) => `- a\n${"  - an item inside\n".repeat(n / 19)}`,
  "a table": (n) => `a|b\n-|-\n${"cell | cell\n".repeat(n / 12)}`,
  "a quote": (n) => "> words and words\n".repeat(n / 18),
  "open brackets": (n) => "[".repeat(n),
  "open links": (n) => "[a](https://x.example/".repeat(n / 22),
  "open stress": (n) => "*a _b ".repeat(n / 6),
  "ticks of many lengths": (n) =>
    Array.from({ length: Math.floor(Math.sqrt(n)) }, (_, k) => `${"`".repeat(k % 99)} `).join(""),
  spaces: (n) => `a${" ".repeat(n)}b`,
  "deep quotes": (n) => ">".repeat(n),
  "deep lists": (n) => "- ".repeat(n / 2),
};

for (const [name, make] of Object.entries(LONG)) {
  test(`the work grows with the length and not with its square: ${name}`, () => {
    const work = (n) => {
      const before = PAGE.work;
      const view = new MarkdownView(PAGE);
      const text = make(n);
      for (let at = 0; at < text.length; at += 40) {
        view.push(text.slice(at, at + 40));
        view.draw();
      }
      view.end();
      return PAGE.work - before;
    };
    assert.ok(work(40_000) < 3 * work(20_000) + 100_000, `${work(20_000)} ${work(40_000)}`);
  });
}

test("finished blocks stay the very same nodes", () => {
  const view = new MarkdownView(PAGE);
  view.push("one\n\n- two\n- three\n\nfour\n");
  view.draw();
  const [first, list] = view.element.children;
  view.push(" and more\n\nfive");
  view.draw();
  assert.equal(view.element.children[0], first);
  assert.equal(view.element.children[1], list);
});

test("nothing turns the order in which a text is read", () => {
  const view = markdown("see \u202e https://x.example/y &#x202e;abc `\u2066d`\n\n```\n\u202de\n```", PAGE);
  assert.equal(textOf(view), "see \\u202e https://x.example/y \\u202eabc \\u2066dtextCopy\\u202de\n");
});
