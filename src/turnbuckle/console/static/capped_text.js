// A long text that grows, in a box that scrolls: only its newest part is on the page, all of it if somebody wants that.
//
// The box stays at its end as the text grows, also when its lines break again because the window got narrower. A reader
// who has scrolled up is left alone: nothing is taken away from what is on the page, and what is too much waits until
// the reader comes back to the end.

import { copyButton } from "./copy_button.js";
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
    this._held = 0; // characters behind those on the page
    this._follows = true;
    this._followed = false;
    this._frame = 0;
    this.length = 0;
    this.isRead = false; // somebody has scrolled in it
    this.box = el("pre", { tabindex: "0", role: "group", "aria-label": label }, this._text);
    this._top = 0;
    this.box.addEventListener("scroll", () => this._scrolled(), { passive: true });
    new ResizeObserver(() => this._followed && this._follow()).observe(this.box); // it goes when the box goes
    this.more = el("button.small.more", { type: "button", hidden: true, onclick: () => this._showAll() });
    this.copy = copyButton(`Copy: ${label}`, () => this.text);
    this.element = el("div.capped", null, this.more, this.box, this.copy);
  }

  /** More text. Its end stays in view unless a reader has scrolled up. */
  append(text) {
    if (!text) return;
    this._put(text);
    if (!this._frame) this._frame = requestAnimationFrame(() => this._follow());
  }

  _follow() {
    this._frame = 0;
    if (!this._follows) return;
    this._followed = true; // a box that cannot be seen yet gets a size when it is opened
    this.box.scrollTop = this.box.scrollHeight;
    this._top = this.box.scrollTop;
  }

  _put(text) {
    this._pieces.push(text);
    this.length += text.length;
    const tooMuch = this._shown + text.length > MOST;
    if (this._held || (tooMuch && !this._follows && !this._whole)) this._held += text.length;
    else this._show(text);
    this._tell();
  }

  _show(text) {
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
  }

  /** The reader has come to the end of what is on the page. */
  _release() {
    if (!this._held) return;
    const held = this.text.slice(-this._held);
    this._held = 0;
    this._show(held);
    this._tell();
    this._follow();
  }

  /** Another text in its place, seen from its beginning; or the same with its end. */
  set(text) {
    if (!this.box.clientHeight) this._followed = false; // it does not grow any more: whoever opens it begins to read
    const known = this.text;
    if (known === text) return;
    if (known && text.startsWith(known)) {
      this._put(text.slice(known.length)); // only its end was missing, so nobody loses their place
      if (this.box.clientHeight) this._follow();
      return;
    }
    this._pieces = [];
    this._shown = this._held = this.length = 0;
    this._text.data = "";
    this._followed = false;
    if (text) {
      this._pieces.push(text);
      this.length = text.length;
      this._show(text);
    }
    this._tell();
  }

  /** A reader is to begin at the beginning. */
  toStart() {
    this._follows = this._followed = false;
    this._top = this.box.scrollTop = 0;
  }

  _scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (scrollHeight - scrollTop - clientHeight < NEAR) {
      this._follows = true;
      this._release();
    } else if (scrollTop < this._top - 1) {
      this._follows = this._followed = false; // only a reader goes up
      this.isRead = true;
    }
    this._top = this.box.scrollTop;
  }

  get text() {
    return this._pieces.join("");
  }

  _tell() {
    this.more.hidden = this._shown >= this.length;
    if (this.more.hidden) return;
    const before = this.length - this._shown - this._held;
    const left = [before && `the first ${size(before)}`, this._held && `the last ${size(this._held)}`].filter(Boolean);
    setText(this.more, `Show all (${size(this.length)}; ${left.join(" and ")} are left out)`);
  }

  /** What is in view stays in view. */
  _showAll() {
    const { box, text } = this;
    const before = text.slice(0, text.length - this._shown - this._held);
    const behind = text.slice(before.length + this._shown);
    const [top, high] = [box.scrollTop, box.scrollHeight];
    this._whole = true;
    this._text.insertData(0, before);
    box.scrollTop = top + box.scrollHeight - high;
    this._top = box.scrollTop;
    this._text.appendData(behind);
    this._shown = this.length;
    this._held = 0;
    this._tell();
    box.focus({ preventScroll: true });
  }
}
