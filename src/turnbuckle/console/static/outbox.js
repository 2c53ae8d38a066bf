/**
 * What somebody typed and the server does not have yet, by session. It outlives a reload of its tab.
 *
 * A draft is text in the box. A letter is a message on its way: it has a key, and is sent under that key until the
 * server says that it is stored, so that however often it is sent it is said once.
 */

const DRAFT = "turnbuckle.draft.";
const LETTER = "turnbuckle.letter.";

/** @typedef {{text: string, key: string, model: string, busy: string, attached?: string, refused?: boolean,
 *   files?: {name: string, size: number, part: object}[]}} Letter `attached` says what `files` are, which are missing if a reload lost them */

export class Outbox {
  #kept;
  #files = new Map(); // what is attached, by the letter's key: too large for a store, so a reload loses it

  /** @param {Storage|null} storage @param {(prefix?: string) => string} newName */
  constructor(storage, newName) {
    this.#kept = storage ?? new Drawer();
    this.newName = newName;
  }

  draft(session) {
    return this.#get(DRAFT + session) ?? "";
  }

  keepDraft(session, text) {
    if (text) this.#set(DRAFT + session, text);
    else this.#kept.removeItem(DRAFT + session);
  }

  /** @returns {Letter|null} the message that is on its way */
  letter(session) {
    try {
      const letter = JSON.parse(this.#get(LETTER + session) ?? "null");
      if (!letter || typeof letter.text !== "string" || !letter.key) return null;
      return { ...letter, files: this.#files.get(letter.key) ?? [] };
    } catch {
      return null;
    }
  }

  /** Put a message on its way. The same words under the same conditions keep their key. @returns {Letter} */
  post(session, text, model, busy, files = []) {
    const before = this.letter(session);
    const attached = files.map(({ name, size }) => `${name} ${size}`).join();
    const sameWords = before && before.text === text && before.model === model && before.busy === busy;
    const same = sameWords && (before.attached ?? "") === attached;
    const letter = { text, key: same ? before.key : this.newName("c"), model, busy, attached };
    this.#files.clear();
    this.#files.set(letter.key, files);
    this.#set(LETTER + session, JSON.stringify(letter));
    this.keepDraft(session, text);
    return { ...letter, files };
  }

  /** The server has it. */
  stored(session) {
    this.#kept.removeItem(LETTER + session);
    this.#kept.removeItem(DRAFT + session);
  }

  /** The server said no. It is not sent again by itself, but under the same key if somebody wants it. */
  refused(session) {
    const letter = this.letter(session);
    if (letter) this.#set(LETTER + session, JSON.stringify({ ...letter, files: undefined, refused: true }));
  }

  /** It is not to be sent after all; the words stay as a draft. */
  takeBack(session) {
    this.#kept.removeItem(LETTER + session);
  }

  #get(name) {
    return this.#kept.getItem(name);
  }

  #set(name, value) {
    try {
      this.#kept.setItem(name, value);
    } catch {
      // no room: it is kept in the box only
    }
  }
}

/** Keeps things for as long as the page is open, where the browser keeps nothing. */
class Drawer {
  #things = new Map();
  getItem(name) {
    return this.#things.get(name) ?? null;
  }
  setItem(name, value) {
    this.#things.set(name, value);
  }
  removeItem(name) {
    this.#things.delete(name);
  }
}

/** A store of the browser, or nothing where it is forbidden. @param {"localStorage"|"sessionStorage"} name */
export function storeOf(name) {
  try {
    return window[name];
  } catch {
    return null;
  }
}
