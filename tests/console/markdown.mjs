// Markdown as it arrives: what it becomes, that pieces end in the same page, and that nothing foreign is ever live.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MarkdownView, markdown } from "../../src/turnbuckle/console/static/markdown.js";

class Text {
  constructor(data) {
    this.data = data;
    this.parent = null;
  }

  appendData(more) {
    this.data += more;
    PAGE.work += more.length;
  }

  remove() {
    removed(this);
  }
}

class Element {
  constructor(name) {
    this.name = name;
    this.attributes = {};
    this.children = [];
    this.className = "";
    this.parent = null;
  }

  append(...nodes) {
    for (const node of nodes) {
      node.parent = this;
      this.children.push(node);
    }
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  remove() {
    removed(this);
  }
}

function removed(node) {
  if (!node.parent) return;
  node.parent.children.splice(node.parent.children.lastIndexOf(node), 1);
  node.parent = null;
}

/** A page that can only do what is safe: there is no other way to put text in. `work` counts what was made. */
const PAGE = {
  work: 0,
  createElement(name) {
    PAGE.work += 10;
    return new Element(name);
  },
  createTextNode(data) {
    PAGE.work += data.length;
    return new Text(data);
  },
};

const KEPT = ["href", "start", "rel", "target"];

function html(node) {
  if (node instanceof Text) return node.data.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const inner = node.children.map(html).join("");
  if (node.className === "md" || node.className === "table") return inner;
  if (node.className === "code")
    return `<pre lang=${textOf(node.children[0].children[0])}>${html(node.children[1].children[0])}</pre>`;
  const told = KEPT.filter((name) => name in node.attributes && !["rel", "target"].includes(name)).map(
    (name) => ` ${name}=${node.attributes[name]}`,
  );
  const side = node.className && !/^(task|l\d)$/.test(node.className) ? ` ${node.className}` : "";
  return `<${node.name}${told.join("")}${side}>${inner}</${node.name}>`;
}

function textOf(node) {
  return node instanceof Text ? node.data : node.children.map(textOf).join("");
}

function all(node) {
  return node instanceof Text ? [] : [node, ...node.children.flatMap(all)];
}

const whole = (text) => html(markdown(text, PAGE));

function inPieces(pieces, eager) {
  const view = new MarkdownView(PAGE);
  pieces.forEach((piece, at) => {
    view.push(piece);
    if (eager || at % 3 === 0) view.draw();
  });
  view.end();
  return html(view.element);
}

const CASES = {
  "# One\n\ntwo": "<h2>One</h2><p>two</p>",
  "One\n===\nTwo\n---\nthree": "<h2>One</h2><h3>Two</h3><p>three</p>",
  "## Two ##\ntext": "<h2>Two</h2><p>text</p>",
  "# a\n#### b\n## c\n\n> # d": "<h2>a</h2><h3>b</h3><h3>c</h3><blockquote><p><strong>d</strong></p></blockquote>",
  "a **b** *c* ***d*** _e_ __f__ ~~g~~":
    "<p>a <strong>b</strong> <em>c</em> <em><strong>d</strong></em> <em>e</em> <strong>f</strong> <del>g</del></p>",
  "snake_case_name 2 * 3 * 4 **open": "<p>snake_case_name 2 * 3 * 4 **open</p>",
  "a **b *c** d*": "<p>a <strong>b *c</strong> d*</p>",
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
  "<script>alert(1)</script>": "<p>&lt;script>alert(1)&lt;/script></p>",
  "- a\n- b\n  - c\n  - d\n- e": "<ul><li>a</li><li>b<ul><li>c</li><li>d</li></ul></li><li>e</li></ul>",
  "1. a\n   more\n2. b\n  - c": "<ol><li>a\nmore</li><li>b<ul><li>c</li></ul></li></ol>",
  "3. a\n4. b": "<ol start=3><li>a</li><li>b</li></ol>",
  "- a\n\n  b\n\n- c\n\nd": "<ul><li>a<p>b</p></li><li>c</li></ul><p>d</p>",
  "- [ ] a\n- [x] b": "<ul><li>☐ a</li><li>☑ b</li></ul>",
  "- a\n\n  ```\n  x\n    y\n  ```\n- b": "<ul><li>a<pre lang=text><code>x\n  y\n</code></pre></li><li>b</li></ul>",
  "```py\nx = '<b>'\n\n# no heading\n```\nafter":
    "<pre lang=py><code>x = '&lt;b>'\n\n# no heading\n</code></pre><p>after</p>",
  "````\n```\nx\n```\n````": "<pre lang=text><code>```\nx\n```\n</code></pre>",
  "~~~\nopen to the end": "<pre lang=text><code>open to the end\n</code></pre>",
  "> a\n> - b\n\nc": "<blockquote><p>a</p><ul><li>b</li></ul></blockquote><p>c</p>",
  "> a\nlazy": "<blockquote><p>a\nlazy</p></blockquote>",
  "a | b\n:-- | --:\n1 | `x|y`\n2":
    "<table><thead><tr><th>a</th><th right>b</th></tr></thead><tbody><tr><td>1</td><td right><code>x|y</code></td></tr></tbody></table><p>2</p>",
  "| a | b |\n|---|---|\n| 1 | \\| |":
    "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>|</td></tr></tbody></table>",
  "a\n\n***\n\nb": "<p>a</p><hr></hr><p>b</p>",
  "a  \nb\\\nc\nd": "<p>a  <br></br>b<br></br>c\nd</p>",
  "a\r\n\r\nb": "<p>a</p><p>b</p>",
  "": "",
};

for (const [text, expected] of Object.entries(CASES)) {
  test(`markdown ${JSON.stringify(text)}`, () => assert.equal(whole(text), expected));
}

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
    for (const node of all(page)) {
      assert.ok(!["script", "img", "iframe", "style", "object"].includes(node.name));
      for (const name of Object.keys(node.attributes))
        assert.ok(!name.startsWith("on") && name !== "style" && name !== "src");
      if (node.name !== "a") continue;
      assert.match(node.attributes.href, /^(https?:\/\/|mailto:)/);
      assert.equal(node.attributes.rel, "noopener noreferrer");
      assert.equal(node.attributes.target, "_blank");
    }
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
    assert.ok(work(80_000) < 3 * work(40_000) + 200_000, `${work(40_000)} ${work(80_000)}`);
  });
}

test("finished blocks stay the very same nodes", () => {
  const view = new MarkdownView(PAGE);
  view.push("one\n\n- two\n- three\n");
  view.draw();
  const [first, list] = view.element.children;
  const item = list.children[0];
  view.push("- four\n\nfive");
  view.draw();
  assert.equal(view.element.children[0], first);
  assert.equal(view.element.children[1].children[0], item);
});
