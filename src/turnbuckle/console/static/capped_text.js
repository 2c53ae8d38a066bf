// A long text that grows, in a box that scrolls: only its newest part is on the page, all of it if somebody wants that.

import { el, setText } from "./elements.js";
import { size } from "./words.js";

const MOST = 200_000; // characters on the page; a browser lays out about that much without a stutter
const KEPT = 120_000; // that stay when it gets more, so that cutting is rare
const NEAR = 24; // pixels from the end at which a reader follows it

export class CappedText {
  constructor(label) {
    this._text = document.createTextNode("");
    this._pieces = [];
    this._shown = 0;
    this._whole = false;
    this._follows = true;
    this._frame = 0;
    this.length = 0;
    this.box = el("pre", { tabindex: "0", role: "group", "aria-label": label }, this._text);
    this._top = 0;
    this.box.addEventListener("scroll", () => this._scrolled(), { passive: true });
    this.more = el("button.small.more", { type: "button", hidden: true, onclick: () => this._showAll() });
    this.element = el("div.capped", null, this.more, this.box);
  }

  /** More text. Its end stays in view unless a reader has scrolled up. */
  append(text) {
    if (!text) return;
    this._put(text);
    if (!this._frame) this._frame = requestAnimationFrame(() => this._follow());
  }

  _follow() {
    this._frame = 0;
    if (this._follows) this.box.scrollTop = this.box.scrollHeight;
  }

  _put(text) {
    this._pieces.push(text);
    this.length += text.length;
    this._shown += text.length;
    if (text.length > MOST && !this._whole) {
      this._text.data = text.slice(-KEPT);
      this._shown = KEPT;
    } else {
      this._text.appendData(text);
    }
    if (this._shown > MOST && !this._whole) {
      this._text.deleteData(0, this._shown - KEPT);
      this._shown = KEPT;
    }
    this._tell();
  }

  /** Another text in its place, seen from its beginning. */
  set(text) {
    if (this.length === text.length && this._pieces.join("") === text) return;
    this._pieces = [];
    this._shown = this.length = 0;
    this._text.data = "";
    if (text) this._put(text);
    this._tell();
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (scrollHeight - scrollTop - clientHeight < NEAR) this._follows = true;
    else if (scrollTop < this._top - 1) this._follows = false; // only a reader goes up
    this._top = scrollTop;
  }

  get text() {
    return this._pieces.join("");
  }

  _tell() {
    this.more.hidden = this._shown >= this.length;
    if (!this.more.hidden)
      setText(this.more, `Show all (${size(this.length)}; the first ${size(this.length - this._shown)} are left out)`);
  }

  _showAll() {
    this._whole = true;
    this._text.data = this.text;
    this._shown = this.length;
    this._tell();
    this.box.focus();
  }
}
