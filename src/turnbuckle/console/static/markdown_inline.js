// The words inside of a block of markdown: code, stress, links. Pure; text in, a small tree out, in linear time.
//
// A node is `{kind: "text"|"code", text}`, `{kind: "break"}`, or `{kind: "em"|"strong"|"del"|"link", nodes, href}`.
// Whatever is not understood stays as it was written. Links lead to http, https and mailto only; pictures become links,
// so that a page never asks another server for anything by itself.

const OPEN_AT_ONCE = 50; // marks that may be open at once; people nest two or three
const LONGEST_LINK = 2000; // characters; the customary limit of addresses
const SAFE = /^(?:https?:\/\/|mailto:)[^\s\u0000-\u0020]+$/i;
const TARGET =
  /\([ \t\n]{0,9}<?([^\s<>()]{0,2000}(?:\([^\s<>()]{0,2000}\)[^\s<>()]{0,2000}){0,4})>?(?:[ \t\n]{1,9}(?:"[^"]{0,400}"|'[^']{0,400}'))?[ \t\n]{0,9}\)/y;
const BARE = /https?:\/\/[^\s<>"'`[\]]+/y;
const POINTED = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BEHIND = /[.,;:!?*_~'"]+$/;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const SPECIAL = /[\\`*_~[\]!<h\n]/g;

export function safeAddress(address) {
  const clean = address.trim();
  return clean.length <= LONGEST_LINK && SAFE.test(clean) ? clean : "";
}

export function inlineOf(text) {
  return new Reading(text).read();
}

class Reading {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.frames = [{ mark: "", count: 0, nodes: [] }]; // the open marks, each with what stands behind it
    this.ticks = null;
  }

  read() {
    const { text } = this;
    let plain = 0;
    for (;;) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(text);
      if (!found) break;
      this.at = found.index;
      const before = this.at;
      const act = ACTS[found[0]];
      const flush = () => this.say(text.slice(plain, before));
      if (act.call(this, flush)) plain = this.at;
      else this.at = Math.max(this.at, before + 1);
    }
    this.say(text.slice(plain));
    while (this.frames.length > 1) this.drop();
    return this.frames[0].nodes;
  }

  get top() {
    return this.frames[this.frames.length - 1];
  }

  say(text) {
    if (!text) return;
    const { nodes } = this.top;
    const last = nodes[nodes.length - 1];
    if (last && last.kind === "text") last.text += text;
    else nodes.push({ kind: "text", text });
  }

  /** The newest mark stays open forever: it was only a sign. */
  drop() {
    const frame = this.frames.pop();
    this.say(frame.mark === "[" ? frame.sign : frame.mark.repeat(frame.count));
    for (const node of frame.nodes) {
      if (node.kind === "text") this.say(node.text);
      else this.top.nodes.push(node);
    }
  }

  open(mark, count, sign = "") {
    if (this.frames.length > OPEN_AT_ONCE) return false;
    this.frames.push({ mark, count, nodes: [], sign });
    return true;
  }

  escaped(flush) {
    const next = this.text[this.at + 1];
    if (next === undefined || !/[!-/:-@[-`{-~\n]/.test(next)) return false;
    flush();
    if (next === "\n") this.top.nodes.push({ kind: "break" });
    else this.say(next);
    this.at += 2;
    return true;
  }

  lineEnd(flush) {
    if (!this.text.startsWith("  ", this.at - 2)) return false;
    flush();
    this.top.nodes.push({ kind: "break" });
    this.at += 1;
    return true;
  }

  code(flush) {
    const length = run(this.text, this.at, "`");
    const end = this.closingTicks(length, this.at + length);
    if (end < 0) {
      this.at += length;
      return false;
    }
    flush();
    const inside = this.text.slice(this.at + length, end).replace(/\n/g, " ");
    const padded = inside.length > 2 && inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    this.top.nodes.push({ kind: "code", text: padded ? inside.slice(1, -1) : inside });
    this.at = end + length;
    return true;
  }

  /** Where the next run of exactly so many ticks begins. All runs are found in one pass, and each is passed once. */
  closingTicks(length, from) {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const found of this.text.matchAll(/`+/g)) {
        const places = this.ticks.get(found[0].length) || { list: [], next: 0 };
        places.list.push(found.index);
        this.ticks.set(found[0].length, places);
      }
    }
    const places = this.ticks.get(length);
    if (!places) return -1;
    while (places.next < places.list.length && places.list[places.next] < from) places.next += 1;
    return places.next < places.list.length ? places.list[places.next] : -1;
  }

  stress(flush) {
    const mark = this.text[this.at];
    let count = run(this.text, this.at, mark);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + count] ?? " ";
    let opens = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
    let closes = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
    if (mark === "_")
      [opens, closes] = [opens && (!closes || PUNCTUATION.test(before)), closes && (!opens || PUNCTUATION.test(after))];
    if ((mark === "~" && count !== 2) || !(opens || closes)) {
      this.at += count;
      return false;
    }
    flush();
    this.at += count;
    if (closes) count = this.close(mark, count);
    if (count && !(opens && this.open(mark, count))) this.say(mark.repeat(count));
    return true;
  }

  /** Close what is open with this mark; how much of the mark is left. */
  close(mark, count) {
    let left = count;
    while (left) {
      const place = left >= 2 && this.openPlace(mark, 2) > 0 ? this.openPlace(mark, 2) : this.openPlace(mark, 1);
      if (place < 0) return left;
      while (this.frames.length - 1 > place) this.drop();
      const frame = this.top;
      const used = mark === "~" || (left >= 2 && frame.count >= 2) ? 2 : 1;
      const kind = mark === "~" ? "del" : used === 2 ? "strong" : "em";
      const made = { kind, nodes: frame.nodes };
      frame.count -= used;
      left -= used;
      if (frame.count) frame.nodes = [made];
      else {
        this.frames.pop();
        this.top.nodes.push(made);
      }
    }
    return left;
  }

  /** The newest open mark of at least this length; two signs look for two before they make do with one. */
  openPlace(mark, least) {
    for (let place = this.frames.length - 1; place > 0; place -= 1) {
      if (this.frames[place].mark === mark && this.frames[place].count >= least) return place;
      if (this.frames[place].mark === "[") return -1; // a link is not crossed
    }
    return -1;
  }

  bracket(flush, sign = "[") {
    flush();
    this.at += sign.length;
    if (!this.open("[", 1, sign)) this.say(sign);
    return true;
  }

  picture(flush) {
    return this.text[this.at + 1] === "[" && this.bracket(flush, "![");
  }

  closeBracket(flush) {
    let place = this.frames.length - 1;
    while (place > 0 && this.frames[place].mark !== "[") place -= 1;
    if (place < 1) return false;
    flush();
    while (this.frames.length - 1 > place) this.drop();
    TARGET.lastIndex = this.at + 1;
    const found = this.text[this.at + 1] === "(" ? TARGET.exec(this.text) : null;
    const href = found ? safeAddress(found[1]) : "";
    if (!href || holdsLink(this.top.nodes)) {
      this.drop();
      this.say("]");
      this.at += 1;
      return true;
    }
    const frame = this.frames.pop();
    const nodes = frame.nodes.length ? frame.nodes : [{ kind: "text", text: href }];
    this.top.nodes.push({ kind: "link", href, nodes });
    this.at += 1 + found[0].length;
    return true;
  }

  address(flush) {
    if (/\w/.test(this.text[this.at - 1] ?? " ") || this.insideLink()) return false;
    BARE.lastIndex = this.at;
    const found = this.text.startsWith("http", this.at) ? BARE.exec(this.text) : null;
    if (!found) return false;
    let shown = found[0].slice(0, LONGEST_LINK).replace(BEHIND, "");
    if (shown.endsWith(")") && !shown.includes("(")) shown = shown.replace(/\)+$/, "").replace(BEHIND, "");
    return this.lead(flush, shown, shown.length);
  }

  pointed(flush) {
    POINTED.lastIndex = this.at;
    const found = this.insideLink() ? null : POINTED.exec(this.text);
    return found !== null && this.lead(flush, found[1], found[0].length);
  }

  lead(flush, shown, length) {
    const href = safeAddress(shown);
    if (!href) return false;
    flush();
    this.top.nodes.push({ kind: "link", href, nodes: [{ kind: "text", text: shown }] });
    this.at += length;
    return true;
  }

  insideLink() {
    return this.frames.some((frame) => frame.mark === "[");
  }
}

const ACTS = {
  "\\": Reading.prototype.escaped,
  "`": Reading.prototype.code,
  "*": Reading.prototype.stress,
  _: Reading.prototype.stress,
  "~": Reading.prototype.stress,
  "[": Reading.prototype.bracket,
  "]": Reading.prototype.closeBracket,
  "!": Reading.prototype.picture,
  "<": Reading.prototype.pointed,
  h: Reading.prototype.address,
  "\n": Reading.prototype.lineEnd,
};

function run(text, at, sign) {
  let end = at;
  while (text[end] === sign) end += 1;
  return end - at;
}

function holdsLink(nodes) {
  return nodes.some((node) => node.kind === "link" || (node.nodes && holdsLink(node.nodes)));
}
