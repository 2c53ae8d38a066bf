// The server's time, from what it says of it. Pure: the time of this machine is handed in.
//
// Whatever the server dated was dated before it arrived here, so every difference to our clock is at least the true one
// and the smallest is the best. The `Date` of an answer is the second in which it was written: it says where the
// clock stands even if all events are old, and notices that our own clock was set again.

const LATE = 6; // s that an answer may take; a `Date` that is further away says that a clock was changed

export class ServerClock {
  #ahead = null; // how far our clock is ahead of the server's

  /** Something carried this time. @param {number} at the server's seconds @param {number} here ours */
  heard(at, here) {
    if (this.#ahead === null || here - at < this.#ahead) this.#ahead = here - at;
  }

  /** An answer was dated. @param {string|null} date its `Date` header @param {number} here */
  dated(date, here) {
    const at = Date.parse(date ?? "") / 1000;
    if (!Number.isFinite(at)) return;
    if (this.#ahead !== null && here - at - this.#ahead > LATE) this.#ahead = null;
    this.heard(at, here);
  }

  /** @param {number} here @returns {number} the server's seconds */
  now(here) {
    return here - (this.#ahead ?? 0);
  }
}
