// A page without a browser, what a text becomes on it, and what the library's own renderer says of the same text.

import MarkdownIt from "../../../src/turnbuckle/console/static/markdown-it.mjs";
import { MarkdownView, markdown } from "../../../src/turnbuckle/console/static/markdown.js";

class Node {
  parentNode = null;

  remove() {
    if (!this.parentNode) return;
    const { childNodes } = this.parentNode;
    childNodes.splice(childNodes.lastIndexOf(this), 1);
    this.parentNode = null;
  }
}

export class Text extends Node {
  constructor(data) {
    super();
    this.data = data;
  }

  appendData(more) {
    this.data += more;
    PAGE.work += more.length;
  }
}

class Element extends Node {
  constructor(name) {
    super();
    this.localName = name;
    this.attributes = {};
    this.childNodes = [];
    this.className = "";
  }

  get children() {
    return this.childNodes.filter((node) => node instanceof Element);
  }

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  append(...nodes) {
    for (const node of nodes) {
      node.remove();
      node.parentNode = this;
      this.childNodes.push(node);
    }
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }
}

/** A page that can only do what is safe: there is no other way to put text in. `work` counts what was made. */
export const PAGE = {
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

export const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

export function html(node) {
  if (node instanceof Text) return escaped(node.data);
  const inner = node.childNodes.map(html).join("");
  if (node.className === "md" || node.className === "table") return inner;
  if (node.className === "code") {
    const [head, block] = node.children;
    return `<pre lang=${textOf(head.children[0])}>${html(block.children[0])}</pre>`;
  }
  const told = ["href", "start"].filter((name) => name in node.attributes).map((name) => ` ${name}=${node.attributes[name]}`);
  const side = ["right", "center"].includes(node.className) ? ` ${node.className}` : "";
  return `<${node.localName}${told.join("")}${side}>${inner}</${node.localName}>`;
}

export function textOf(node) {
  return node instanceof Text ? node.data : node.childNodes.map(textOf).join("");
}

export function all(node) {
  return node instanceof Text ? [] : [node, ...node.children.flatMap(all)];
}

export const whole = (text) => html(markdown(text, PAGE));

/** What the library's own renderer writes, in the signs of `html`: what we draw in another way is drawn so here, too. */
export const oracle = new MarkdownIt({ html: false, linkify: true });
oracle.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
oracle.validateLink = (address) => /^(https?:\/\/|mailto:)/i.test(address.trim());
oracle.renderer.rules.image = (tokens, at) => `<a href="${escaped(tokens[at].attrGet("src"))}">${escaped(tokens[at].content)}</a>`;

export function spoken(markup) {
  return markup
    .replace(/<pre><code(?: class="language-([^"]*)")?>/g, (_, name) => `<pre lang=${name || "text"}><code>`)
    .replace(/(\S)<\/code><\/pre>/g, "$1\n</code></pre>")
    .replace(/<(\/?)s>/g, "<$1del>")
    .replace(/ (href|start)="([^"]*)"/g, (_, name, value) => ` ${name}=${value.replace(/&amp;/g, "&")}`)
    .replace(/ style="text-align:(\w+)"/g, (_, side) => (side === "left" ? "" : ` ${side}`))
    .replace(/ title="[^"]*"/g, "")
    .replace(/<(hr|br)>/g, "<$1></$1>");
}

/** Levels of headings and empty lines between tags say nothing here. */
export const bare = (markup) =>
  markup
    .replace(/<(\/?)h[1-6]>/g, "<$1h>")
    .replace(/[☐☑] /g, (sign) => (sign === "☐ " ? "[ ] " : "[x] "))
    .replace(/\s+(?=<)|(?<=>)\s+/g, "")
    .replace(/<tbody><\/tbody>/g, "");

export function inPieces(pieces, eager) {
  const view = new MarkdownView(PAGE);
  pieces.forEach((piece, at) => {
    view.push(piece);
    if (eager || at % 3 === 0) view.draw();
  });
  view.end();
  return html(view.element);
}
