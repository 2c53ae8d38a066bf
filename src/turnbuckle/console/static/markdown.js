// Markdown as it arrives. The library reads whole texts; here is what makes that cheap while a text still grows.
//
// A block that another one follows is over: it is drawn once, and its lines are not read again. The last one is read again
// as it grows, with every piece while it is short and at ever larger steps when it is long, with the newest words as plain
// text behind it meanwhile; code is only appended to. So the work grows with the length of the text, whatever the
// text is, and any cutting into pieces ends in the same page.

import { NodeMaker, blocksOf, languageOf, withEnd } from "./markdown_nodes.js";
import { inOrder } from "./words.js";

const SHORT = 2000; // characters of an open block that is read again with every piece
const STEP = 1.25; // how much a longer one must have grown
// What certainly begins a block of its own: words behind an empty line, a heading, a fence.
const BEGINS = /\n[ \t]*\n(?![-*+>|]|\d+[.)])\S|\n(?:#{1,6} |```|~~~)/;

export class MarkdownView {
  /** `page` is the document that makes nodes; `coloured` is told of code that is whole. */
  constructor(page = globalThis.document, coloured = () => {}) {
    this.page = page;
    this.element = page.createElement("div");
    this.element.className = "md";
    this._coloured = coloured;
    this._make = new NodeMaker(page, coloured);
    this._source = []; // all of it, for links that are defined behind their use
    this._references = {};
    this._tail = []; // pieces of what is not over
    this._tailLength = 0;
    this._return = false; // a carriage return whose line feed may still come
    this._open = []; // nodes that stand for it
    this._drawn = 0; // its length when it was last read
    this._loose = null;
    this._fence = null;
  }

  /** More text. Nothing is drawn before `draw`. */
  push(text) {
    if (!text) return;
    let more = this._return ? `\r${text}` : text;
    this._return = more.endsWith("\r");
    if (this._return) more = more.slice(0, -1);
    if (more.includes("\r")) more = more.replace(/\r\n?/g, "\n");
    more = inOrder(more);
    this._source.push(more);
    this._tail.push(more);
    this._tailLength += more.length;
  }

  /** Bring the page up to date. */
  draw() {
    if (this._fence && !this._growFence()) return;
    if (!this._tailLength) return;
    const isLong = this._open.length && this._tailLength > SHORT && this._tailLength < this._drawn * STEP;
    if (isLong && !this._begins()) {
      this._loosely();
      return;
    }
    this._settle();
    if (!this._fence || this._growFence()) this._preview();
  }

  /** The text is over. */
  end() {
    if (this._return) this.push("\n");
    this._return = false;
    if (this._fence && this._growFence(true)) this._fence = null;
    this._clear();
    this._put(this._joined(), this._env(), null);
    this._tail = [];
    this._tailLength = 0;
    if (Object.keys(this._references).length) this._drawAgain();
    this._source = [];
  }

  // Blocks

  /** Draw what is over: every block but the last one of those whose lines are whole. */
  _settle() {
    const text = this._joined();
    const end = text.lastIndexOf("\n") + 1;
    if (!end) return;
    const lines = text.slice(0, end);
    const env = this._env();
    const blocks = blocksOf(lines, env);
    Object.assign(this._references, env.references);
    const last = blocks[blocks.length - 1];
    const fence = last ? openFence(last, lines) : null;
    if (blocks.length < 2 && !fence) return;
    const starts = lineStarts(lines);
    this._clear();
    for (const block of blocks.slice(0, -1)) {
      this.element.append(this._make.block(block, lines.slice(starts[block.from], starts[block.to]), true));
    }
    this._keep(text.slice(starts[last.from]));
    if (fence) this._beginFence(fence);
  }

  _preview() {
    this._clear();
    const text = this._joined();
    this._put(text, this._env(), this._open);
    this._drawn = text.length;
    this._looseAt = this._tail.length;
  }

  _put(text, env, made) {
    const blocks = blocksOf(text, env);
    const starts = blocks.some((block) => block.deep) ? lineStarts(text) : [];
    for (const block of blocks) {
      const words = block.deep ? text.slice(starts[block.from], starts[block.to]) : "";
      const node = this._make.block(block, words, made === null);
      this.element.append(node);
      if (made) made.push(node);
    }
    if (made === null) Object.assign(this._references, env.references);
  }

  /** Links may be defined behind their use, and then only the whole text says what they are. */
  _drawAgain() {
    for (const node of [...this.element.childNodes]) node.remove();
    this._make = new NodeMaker(this.page, this._coloured);
    this._put(this._source.join(""), {}, null);
  }

  _env() {
    return { references: { ...this._references } };
  }

  _clear() {
    for (const node of this._open) node.remove();
    this._open = [];
    this._drawn = 0;
    this._loose = null;
  }

  _joined() {
    if (this._tail.length > 1) this._tail = [this._tail.join("")];
    return this._tail[0] ?? "";
  }

  _keep(text) {
    this._tail = text ? [text] : [];
    this._tailLength = text.length;
  }

  // A long open block: its newest words as plain text behind what was drawn

  _begins() {
    const before = this._tail[this._looseAt - 1] ?? "";
    return BEGINS.test(before.slice(-80) + this._tail.slice(this._looseAt).join(""));
  }

  _loosely() {
    const text = this._tail.slice(this._looseAt).join("");
    this._looseAt = this._tail.length;
    if (!text) return;
    if (!this._loose) {
      this._loose = this.page.createTextNode("");
      this._open[this._open.length - 1].append(this._loose);
    }
    this._loose.appendData(text);
  }

  // Code is appended to and never drawn again

  _beginFence({ info, close, first }) {
    const language = languageOf(info);
    const { element, code } = this._make.code(language);
    const text = this.page.createTextNode("");
    const rest = this.page.createTextNode("");
    code.append(text, rest);
    this.element.append(element);
    this._fence = { language, code, text, rest, shown: 0, close };
    this._keep(this._joined().slice(first));
  }

  /** Put what arrived into the code; true if the code is over. */
  _growFence(isEnd = false) {
    const fence = this._fence;
    const hasLines = this._tail.slice(fence.shown).some((piece) => piece.includes("\n"));
    const text = isEnd ? withEnd(this._joined().replace(/(^|\n)[ \t]+$/, "$1")) : hasLines ? this._joined() : "";
    const lines = [];
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      const line = text.slice(start, end);
      start = end + 1;
      if (fence.close.test(line)) {
        this._showFence(lines, "");
        this._keep(text.slice(start));
        this._coloured(fence.code, fence.language);
        this._fence = null;
        return true;
      }
      lines.push(`${line}\n`);
    }
    if (text) this._keep(text.slice(start));
    if (isEnd) {
      this._showFence(lines, "");
      this._coloured(fence.code, fence.language);
      return true;
    }
    this._showFence(lines, null);
    return false;
  }

  _showFence(lines, rest) {
    const fence = this._fence;
    if (lines.length) {
      fence.text.appendData(lines.join(""));
      fence.rest.data = "";
      fence.shown = 0;
    }
    if (rest !== null) {
      fence.rest.data = rest;
      return;
    }
    if (this._tailLength < 9 && /^ {0,3}[`~]*$/.test(this._tail.join(""))) return; // perhaps its end
    fence.rest.appendData(this._tail.slice(fence.shown).join(""));
    fence.shown = this._tail.length;
  }
}

/** A whole text at once. */
export function markdown(text, page = globalThis.document, coloured = () => {}) {
  const view = new MarkdownView(page, coloured);
  view.push(text);
  view.end();
  return view.element;
}

/** How a fence that is still open goes on, or null. Its first line is whole. */
function openFence({ tokens, from, to }, text) {
  const [token] = tokens;
  if (token.type !== "fence" || text.startsWith(" ", lineStarts(text)[from])) return null; // one that is set in is rare
  const starts = lineStarts(text);
  const lines = text.slice(starts[from], starts[to]).split("\n").slice(0, -1);
  const sign = token.markup[0];
  const close = new RegExp(`^ {0,3}\\${sign}{${token.markup.length},}[ \\t]*$`);
  if (lines.length > 1 && close.test(lines[lines.length - 1])) return null;
  return { info: token.info, close, first: lines[0].length + 1 };
}

function lineStarts(text) {
  const starts = [0];
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) starts.push(end + 1);
  if (starts[starts.length - 1] !== text.length) starts.push(text.length);
  return starts;
}
