// The arguments of a call while they arrive: half a JSON object in, readable pieces of its members out. Pure.
//
// It looks at every character once and keeps only where it is. Texts come out decoded, as they will be written into a
// file; other values as they stand. It shows, and decides nothing: what runs is what the server has checked.

const SIGNS = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", '"': '"', "\\": "\\", "/": "/" };
const PLAIN = /[^"\\]+/y;

export class ArgumentsReader {
  constructor() {
    this._state = "start";
    this._key = "";
    this._escape = "";
    this._depth = 0;
    this._quoted = false;
  }

  /** More of the text; `[{key, text}]` of what it brings. Members with the same key follow each other. */
  push(text) {
    const out = [];
    for (let at = 0; at < text.length;) at = STATES[this._state].call(this, text, at, out);
    return out;
  }

  _say(out, text) {
    const last = out[out.length - 1];
    if (last && last.key === this._key) last.text += text;
    else out.push({ key: this._key, text });
  }

  /** Inside of a string: how far it goes, with `take` for what it says. Nothing is kept of a half escape but the half. */
  _string(text, at, take, over) {
    if (this._escape) {
      this._escape += text[at];
      const { length } = this._escape;
      if (length === 2 && this._escape[1] !== "u") {
        take(SIGNS[this._escape[1]] ?? this._escape[1]);
        this._escape = "";
      } else if (length === 6) {
        const code = Number.parseInt(this._escape.slice(2), 16);
        take(Number.isNaN(code) ? "" : String.fromCharCode(code));
        this._escape = "";
      }
      return at + 1;
    }
    PLAIN.lastIndex = at;
    const found = PLAIN.exec(text);
    if (found) {
      take(found[0]);
      return at + found[0].length;
    }
    if (text[at] === "\\") this._escape = "\\";
    else this._state = over;
    return at + 1;
  }
}

const STATES = {
  start(text, at) {
    if (text[at] === "{") this._state = "member";
    else if (!/\s/.test(text[at])) {
      this._state = "raw";
      return at;
    }
    return at + 1;
  },
  member(text, at) {
    if (text[at] === '"') {
      this._key = "";
      this._state = "key";
    } else if (text[at] === "}") {
      this._key = "";
      this._state = "behind";
    }
    return at + 1;
  },
  key(text, at) {
    return this._string(text, at, (more) => (this._key += more), "colon");
  },
  colon(text, at) {
    if (text[at] === ":") this._state = "value";
    return at + 1;
  },
  value(text, at) {
    if (/\s/.test(text[at])) return at + 1;
    if (text[at] === '"') {
      this._state = "string";
      return at + 1;
    }
    this._state = "other";
    this._depth = 0;
    this._quoted = false;
    return at;
  },
  string(text, at, out) {
    return this._string(text, at, (more) => this._say(out, more), "member");
  },
  other(text, at, out) {
    const sign = text[at];
    if (this._quoted) {
      if (this._escape) this._escape = "";
      else if (sign === "\\") this._escape = "\\";
      else if (sign === '"') this._quoted = false;
    } else if (sign === '"') {
      this._quoted = true;
    } else if (sign === "{" || sign === "[") {
      this._depth += 1;
    } else if (!this._depth && (sign === "," || sign === "}")) {
      this._state = "member";
      return sign === "," ? at + 1 : at;
    } else if (sign === "}" || sign === "]") {
      this._depth -= 1;
    }
    this._say(out, sign);
    return at + 1;
  },
  raw(text, at, out) {
    this._key = "";
    this._say(out, text.slice(at));
    return text.length;
  },
  behind(text, at, out) {
    if (text.slice(at).trim()) return STATES.raw.call(this, text, at, out);
    return text.length;
  },
};
