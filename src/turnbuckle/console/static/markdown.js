// Markdown as it arrives, drawn as nodes of the page. Foreign text is only ever put in as text.
//
// Blocks that are over are drawn once. The last one is drawn again as it grows, in full while it is short and at ever
// larger steps when it is long, with the newest words as plain text behind it meanwhile; code is only appended to. So
// the work grows with the length of the text, whatever the text is, and any cutting into pieces ends in the same page.

import { inlineOf } from "./markdown_inline.js";
import { DEEPEST, Units, cellsOf, unitsOf } from "./markdown_blocks.js";

const SHORT = 2000; // characters of an open block that is drawn again with every piece
const STEP = 1.25; // how much a longer one must have grown

export class MarkdownView {
  /** `page` is the document that makes nodes. */
  constructor(page = globalThis.document) {
    this.page = page;
    this.element = page.createElement("div");
    this.element.className = "md";
    this._units = new Units();
    this._rest = []; // pieces of the line that has no end yet
    this._restLength = 0;
    this._list = null;
    this._level = 1; // the page's own title
    this._open = []; // nodes that stand for the open block
    this._drawn = 0; // its size when it was last drawn
    this._fence = null;
    this._loose = null;
  }

  /** More text. Nothing is drawn before `draw`. */
  push(text) {
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      this._rest.push(text.slice(start, end));
      this._line();
      start = end + 1;
    }
    if (start < text.length) {
      this._rest.push(text.slice(start));
      this._restLength += text.length - start;
    }
  }

  /** Bring the page up to date. */
  draw() {
    const units = this._units;
    if (this._fence && units.open === this._fence.unit) {
      this._growFence();
      return;
    }
    const size = (units.open ? units.open.size : 0) + this._restLength;
    if (!size) return;
    if (this._open.length && size > SHORT && size < this._drawn * STEP) {
      this._loosely();
      return;
    }
    this._clear();
    this._joinRest();
    const shown = units.preview(this._rest[0] || "");
    const list = this._list;
    for (const unit of shown) this._put(unit, this._open);
    this._list = list;
    this._drawn = size;
    this._looseFrom();
  }

  /** The text is over. */
  end() {
    if (this._rest.length) this._line();
    this._units.close();
    this._settle();
    this._clear();
  }

  _line() {
    const line = this._rest.length === 1 ? this._rest[0] : this._rest.join("");
    this._rest = [];
    this._restLength = 0;
    this._units.line(line.endsWith("\r") ? line.slice(0, -1) : line);
    this._settle();
  }

  _settle() {
    const units = this._units;
    if (units.closed.length) {
      this._clear();
      for (const unit of units.closed) {
        if (this._fence && this._fence.unit === unit) this._endFence();
        else this._put(unit, null);
      }
      units.closed = [];
    }
    if (units.open && units.open.kind === "fence" && !(this._fence && this._fence.unit === units.open))
      this._beginFence(units.open);
  }

  _clear() {
    for (const node of this._open) node.remove();
    this._open = [];
    this._drawn = 0;
    this._loose = null;
  }

  _put(unit, made) {
    if (unit.kind === "item") {
      const list = this._listFor(unit, made);
      const item = drawnItem(this.page, unit, 1);
      list.append(item);
      if (made) made.push(item);
      return;
    }
    this._list = null;
    const node = unit.kind === "heading" ? this._heading(unit, made === null) : drawn(this.page, unit, 0);
    this.element.append(node);
    if (made) made.push(node);
  }

  /** A heading never skips a level behind the one before it: those who hear the page go by them. */
  _heading(unit, isFinal) {
    const level = Math.min(unit.level + 1, this._level + 1, 6);
    if (isFinal) this._level = level;
    const node = withInline(this.page, `h${level}`, unit.lines.join(" "));
    node.className = `l${unit.level}`;
    return node;
  }

  _listFor(unit, made) {
    if (this._list && sameList(this._list.unit, unit)) return this._list.node;
    const node = listNode(this.page, unit);
    this.element.append(node);
    if (made) made.push(node);
    this._list = { unit, node };
    return node;
  }

  // A long open block: its newest words as plain text behind what was drawn

  _looseFrom() {
    this._loose = null;
    this._looseAt = { lines: this._units.open ? this._units.open.lines.length : 0, pieces: this._rest.length };
  }

  _loosely() {
    const { open } = this._units;
    const at = this._looseAt;
    const lines = open ? open.lines.slice(at.lines) : [];
    const pieces = lines.length ? this._rest : this._rest.slice(at.pieces);
    const text = [...lines.map((line) => `${line}\n`), ...pieces].join("");
    this._looseAt = { lines: open ? open.lines.length : 0, pieces: this._rest.length };
    if (!text) return;
    if (!this._loose) {
      this._loose = this.page.createTextNode("");
      this._open[this._open.length - 1].append(this._loose);
    }
    this._loose.appendData(text);
  }

  _joinRest() {
    if (this._rest.length > 1) this._rest = [this._rest.join("")];
  }

  // Code is appended to and never drawn again

  _beginFence(unit) {
    this._clear();
    this._list = null;
    const node = fenceNode(this.page, unit);
    this.element.append(node.element);
    const text = this.page.createTextNode("");
    const tail = this.page.createTextNode("");
    node.code.append(text, tail);
    this._fence = { unit, text, tail, lines: 0, pieces: 0 };
  }

  _growFence() {
    const fence = this._fence;
    const { lines } = fence.unit;
    if (fence.lines < lines.length) {
      fence.text.appendData(
        lines
          .slice(fence.lines)
          .map((line) => `${line}\n`)
          .join(""),
      );
      fence.lines = lines.length;
      fence.tail.data = "";
      fence.pieces = 0;
    }
    if (this._restLength < 9 && /^ {0,3}[`~]*$/.test(this._rest.join(""))) return; // perhaps its end
    if (fence.pieces < this._rest.length) {
      fence.tail.appendData(this._rest.slice(fence.pieces).join(""));
      fence.pieces = this._rest.length;
    }
  }

  _endFence() {
    const rest = this._rest;
    this._rest = [];
    this._growFence();
    this._rest = rest;
    this._fence.tail.data = "";
    this._fence = null;
  }
}

/** A whole text at once. */
export function markdown(text, page = globalThis.document) {
  const view = new MarkdownView(page);
  view.push(text);
  view.end();
  return view.element;
}

function sameList(one, other) {
  return one.kind === "item" && one.ordered === other.ordered && one.sign === other.sign;
}

function listNode(page, unit) {
  const node = page.createElement(unit.ordered ? "ol" : "ul");
  node.setAttribute("dir", "auto"); // its signs stand where its words begin
  if (unit.ordered && unit.number !== 1) node.setAttribute("start", String(unit.number));
  return node;
}

function drawnItem(page, unit, depth) {
  const item = page.createElement("li");
  const inner = depth < DEEPEST ? unitsOf(unit.lines) : [{ kind: "paragraph", lines: unit.lines }];
  const task = inner.length && inner[0].kind === "paragraph" ? /^\[([ xX])\] /.exec(inner[0].lines[0]) : null;
  if (task) {
    inner[0].lines[0] = `${task[1] === " " ? "☐" : "☑"} ${inner[0].lines[0].slice(4)}`;
    item.className = "task";
  }
  if (inner.length && inner[0].kind === "paragraph") {
    inlineInto(page, item, inner[0].lines.join("\n"));
    drawInto(page, item, inner.slice(1), depth);
  } else {
    drawInto(page, item, inner, depth);
  }
  return item;
}

function drawInto(page, parent, units, depth) {
  let list = null;
  for (const unit of units) {
    if (unit.kind !== "item") {
      list = null;
      parent.append(drawn(page, unit, depth));
      continue;
    }
    if (!list || !sameList(list.unit, unit)) {
      list = { unit, node: listNode(page, unit) };
      parent.append(list.node);
    }
    list.node.append(drawnItem(page, unit, depth + 1));
  }
}

function drawn(page, unit, depth) {
  switch (unit.kind) {
    case "heading":
      return nestedHeading(page, unit);
    case "rule":
      return page.createElement("hr");
    case "fence": {
      const node = fenceNode(page, unit);
      node.code.append(page.createTextNode(unit.lines.map((line) => `${line}\n`).join("")));
      return node.element;
    }
    case "quote": {
      const node = page.createElement("blockquote");
      if (depth + 1 < DEEPEST) drawInto(page, node, unitsOf(unit.lines), depth + 1);
      else node.append(page.createTextNode(unit.lines.join("\n")));
      return node;
    }
    case "table":
      return tableNode(page, unit);
    default:
      return withInline(page, "p", unit.lines.join("\n"));
  }
}

/** Inside of a list or a quote a heading is only strong words. */
function nestedHeading(page, unit) {
  const node = page.createElement("p");
  node.append(withInline(page, "strong", unit.lines.join(" ")));
  return node;
}

function fenceNode(page, unit) {
  const element = page.createElement("div");
  element.className = "code";
  const head = page.createElement("div");
  head.className = "code-head";
  const label = page.createElement("span");
  label.append(page.createTextNode(unit.language || "text"));
  const copy = page.createElement("button");
  copy.className = "copy";
  copy.setAttribute("type", "button");
  copy.setAttribute("aria-label", "Copy the code");
  copy.append(page.createTextNode("Copy"));
  head.append(label, copy);
  const block = page.createElement("pre");
  block.setAttribute("tabindex", "0");
  block.setAttribute("role", "group");
  block.setAttribute("aria-label", unit.language ? `Code, ${unit.language}` : "Code");
  const code = page.createElement("code");
  block.append(code);
  element.append(head, block);
  return { element, code };
}

function tableNode(page, unit) {
  const frame = page.createElement("div");
  frame.className = "table";
  frame.setAttribute("tabindex", "0");
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Table");
  const table = page.createElement("table");
  const head = page.createElement("thead");
  const body = page.createElement("tbody");
  head.append(rowNode(page, "th", cellsOf(unit.lines[0]), unit.sides));
  for (const line of unit.lines.slice(1)) body.append(rowNode(page, "td", cellsOf(line), unit.sides));
  table.append(head, body);
  frame.append(table);
  return frame;
}

function rowNode(page, name, cells, sides) {
  const row = page.createElement("tr");
  sides.forEach((side, place) => {
    const cell = withInline(page, name, cells[place] || "");
    if (name === "th") cell.setAttribute("scope", "col");
    if (side) cell.className = side;
    row.append(cell);
  });
  return row;
}

function withInline(page, name, text) {
  const node = page.createElement(name);
  inlineInto(page, node, text);
  return node;
}

const NAMES = { em: "em", strong: "strong", del: "del", link: "a", code: "code" };

function inlineInto(page, parent, text) {
  nodesInto(page, parent, inlineOf(text.trimEnd()));
}

function nodesInto(page, parent, nodes) {
  for (const node of nodes) {
    if (node.kind === "text") {
      parent.append(page.createTextNode(node.text));
    } else if (node.kind === "break") {
      parent.append(page.createElement("br"));
    } else {
      const made = page.createElement(NAMES[node.kind]);
      if (node.kind === "code") made.append(page.createTextNode(node.text));
      else nodesInto(page, made, node.nodes);
      if (node.kind === "link") {
        made.setAttribute("href", node.href);
        made.setAttribute("rel", "noopener noreferrer");
        made.setAttribute("target", "_blank");
      }
      parent.append(made);
    }
  }
}
