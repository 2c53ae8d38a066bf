/**
 * Splits a stream of server-sent events. Text goes in as it arrives, in pieces of any size; whole events come out.
 *
 * Pieces of an unfinished line are kept in a list and joined once, when the line ends, so the work is the same for
 * every character however large an event is. Comments say nothing and come out as nothing.
 */

/** Characters of one event. The server stores no item above 64 MiB; a line longer than that is not its own. */
export const LONGEST = 80 * 1024 * 1024;

export class EventSplitter {
  #pieces = [];
  #length = 0;
  #afterReturn = false;
  #name = "";
  #data = [];
  #id = "";

  /**
   * @param {string} text
   * @returns {{name: string, data: string, id: string}[]} the events that are whole now
   */
  feed(text) {
    const events = [];
    let start = 0;
    if (this.#afterReturn && text) {
      this.#afterReturn = false;
      if (text[0] === "\n") start = 1; // the second half of a line end that was cut in two
    }
    for (let at = start; at < text.length; at += 1) {
      const sign = text.charCodeAt(at);
      if (sign !== 10 && sign !== 13) continue;
      this.#line(this.#taken(text.slice(start, at)), events);
      if (sign === 13) {
        if (at + 1 === text.length) this.#afterReturn = true;
        else if (text.charCodeAt(at + 1) === 10) at += 1;
      }
      start = at + 1;
    }
    if (start < text.length) this.#keep(text.slice(start));
    return events;
  }

  #keep(piece) {
    this.#length += piece.length;
    if (this.#length > LONGEST) throw new Error("an event is too large");
    this.#pieces.push(piece);
  }

  #taken(rest) {
    if (!this.#pieces.length) return rest;
    this.#pieces.push(rest);
    const line = this.#pieces.join("");
    this.#pieces = [];
    this.#length = 0;
    return line;
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push({ name: this.#name || "message", data: this.#data.join("\n"), id: this.#id });
      this.#name = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }
}
