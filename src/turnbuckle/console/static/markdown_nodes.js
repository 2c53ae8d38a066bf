// What markdown-it read, as nodes of the page. Foreign text is only ever put in as text: no markup is made of words,
// links lead to web pages and to mail alone, and a picture is a link, so that nothing is loaded for it.

import MarkdownIt from "./markdown-it.mjs";
import { inOrder } from "./words.js";

const LONGEST = 20_000; // characters of one paragraph that are searched for stress and links; more is plain text
const DEEPEST = 90; // levels of lists and quotes; the library leaves out what lies deeper, so such a block is plain text
const SAFE = /^(?:https?:\/\/|mailto:)/i;
const NAMES = {
  paragraph: "p",
  bullet_list: "ul",
  ordered_list: "ol",
  list_item: "li",
  blockquote: "blockquote",
  thead: "thead",
  tbody: "tbody",
  tr: "tr",
  th: "th",
  td: "td",
  em: "em",
  strong: "strong",
  s: "del",
  link: "a",
};

const reader = new MarkdownIt({ html: false, linkify: true });
reader.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
reader.validateLink = (address) => SAFE.test(address.trim());
reader.core.ruler.at("inline", ({ tokens, md, env, Token }) => {
  for (const token of tokens) {
    if (token.type !== "inline") continue;
    if (token.content.length <= LONGEST) md.inline.parse(token.content, md, env, token.children);
    else token.children.push(Object.assign(new Token("text", "", 0), { content: token.content }));
  }
});

/**
 * The blocks of a text, from the top down: what each is made of, and its lines `[from, to)`.
 * @param {string} text @param {{references?: object}} env definitions of links, known and new
 * @returns {{tokens: object[], from: number, to: number}[]}
 */
export function blocksOf(text, env) {
  const blocks = [];
  for (const token of reader.parse(text, env)) {
    if (token.level === 0 && token.nesting >= 0) blocks.push({ tokens: [], from: token.map[0], to: token.map[1], deep: false });
    const block = blocks[blocks.length - 1];
    block.tokens.push(token);
    block.deep ||= token.level > DEEPEST;
  }
  return blocks;
}

/** Draws blocks. `coloured` is told of every piece of code that is whole, with its language. */
export class NodeMaker {
  constructor(page, coloured) {
    this.page = page;
    this.coloured = coloured;
    this.level = 1; // the page's own title
  }

  /** @param {string} text the block's own lines @param {boolean} isFinal whether it stays as it is */
  block({ tokens, deep }, text, isFinal) {
    if (deep) return this.#named("p", text);
    const level = this.level;
    const root = this.page.createElement("div");
    this.#into(root, tokens, isFinal);
    if (!isFinal) this.level = level;
    return root.children[0];
  }

  /** A box for code: the language, a button to copy it, and the code itself. */
  code(language) {
    const element = this.#element("div", { class: "code" });
    const head = this.#element("div", { class: "code-head" });
    const copy = this.#named("button", "Copy", { class: "copy", type: "button", "aria-label": "Copy the code" });
    head.append(this.#named("span", language || "text"), copy);
    const label = language ? `Code, ${language}` : "Code";
    const block = this.#element("pre", { tabindex: "0", role: "group", "aria-label": label });
    const code = this.#element("code");
    block.append(code);
    element.append(head, block);
    return { element, code };
  }

  #into(root, tokens, isFinal) {
    const stack = [root];
    for (const token of tokens) {
      const parent = stack[stack.length - 1];
      const name = token.type.replace(/_(open|close)$/, "");
      if (token.type === "inline") this.#inline(parent, token.children);
      else if (token.nesting > 0) stack.push(token.hidden ? parent : this.#opened(parent, name, token, stack.length > 1));
      else if (token.nesting < 0) stack.pop();
      else if (name === "hr") parent.append(this.#element("hr"));
      else parent.append(this.#wholeCode(token, isFinal)); // a fence, or lines that are set in
    }
  }

  #opened(parent, name, token, isInside) {
    if (name === "table") return this.#table(parent);
    if (name === "heading") return this.#heading(parent, Number(token.tag.slice(1)), isInside);
    const node = this.#element(NAMES[name]);
    if (name === "ordered_list" && token.attrGet("start") !== null) node.setAttribute("start", String(token.attrGet("start")));
    if (name === "ordered_list" || name === "bullet_list") node.setAttribute("dir", "auto"); // its signs stand where its words begin
    if (name === "th") node.setAttribute("scope", "col");
    const side = /right|center/.exec(token.attrGet("style") ?? "");
    if (side) node.className = side[0];
    parent.append(node);
    return node;
  }

  /** A heading never skips a level behind the one before it: those who hear the page go by them. In a list or a quote it
   *  is only strong words. */
  #heading(parent, wanted, isInside) {
    if (isInside) {
      const strong = this.#element("strong");
      const paragraph = this.#element("p");
      paragraph.append(strong);
      parent.append(paragraph);
      return strong;
    }
    this.level = Math.min(wanted + 1, this.level + 1, 6);
    const node = this.#element(`h${this.level}`, { class: `l${wanted}` });
    parent.append(node);
    return node;
  }

  #table(parent) {
    const frame = this.#element("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" });
    const table = this.#element("table");
    frame.append(table);
    parent.append(frame);
    return table;
  }

  #wholeCode(token, isFinal) {
    const language = languageOf(token.info);
    const { element, code } = this.code(language);
    code.append(this.page.createTextNode(withEnd(token.content)));
    if (isFinal) this.coloured(code, language);
    return element;
  }

  #inline(root, tokens) {
    const stack = [root];
    if (root.localName === "li" || root.localName === "p") tasked(root, tokens);
    for (const token of tokens) {
      const parent = stack[stack.length - 1];
      const name = token.type.replace(/_(open|close)$/, "");
      if (token.nesting < 0) stack.pop();
      else if (token.nesting > 0) {
        const node = name === "link" ? this.#link(token.attrGet("href")) : this.#element(NAMES[name]);
        parent.append(node);
        stack.push(node);
      } else if (name === "code_inline") parent.append(this.#named("code", token.content));
      else if (name === "image") {
        const link = this.#link(token.attrGet("src"));
        link.append(this.page.createTextNode(inOrder(token.content)));
        parent.append(link);
      }
      else if (name === "hardbreak") parent.append(this.#element("br"));
      else parent.append(this.page.createTextNode(name === "softbreak" ? "\n" : inOrder(token.content))); // of `&#x202e;`, too
    }
  }

  /** A link to the web or to mail; what leads anywhere else are words. */
  #link(address) {
    if (!SAFE.test(address ?? "")) return this.#element("span");
    return this.#element("a", { href: address, rel: "noopener noreferrer", target: "_blank" });
  }

  #element(name, set = {}) {
    const node = this.page.createElement(name);
    for (const [key, value] of Object.entries(set)) {
      if (key === "class") node.className = value;
      else node.setAttribute(key, value);
    }
    return node;
  }

  #named(name, text, set = {}) {
    const node = this.#element(name, set);
    node.append(this.page.createTextNode(text));
    return node;
  }
}

/** The first word behind the signs of a fence. */
export function languageOf(info) {
  return reader.utils.unescapeAll(info).trim().split(/\s+/)[0];
}

/** Code ends with the end of its last line, wherever the text ended. */
export function withEnd(text) {
  return !text || text.endsWith("\n") ? text : `${text}\n`;
}

/** `[ ]` and `[x]` in front of an item's words are boxes. */
function tasked(node, tokens) {
  const item = node.localName === "li" ? node : node.parentNode;
  const [first] = tokens;
  const sign = first?.type === "text" ? /^\[([ xX])\] /.exec(first.content) : null;
  if (!sign || item?.localName !== "li" || item.firstChild !== (node === item ? null : node)) return;
  first.content = `${sign[1] === " " ? "☐" : "☑"} ${first.content.slice(4)}`;
  item.className = "task";
}
