// Time to places on a line. Pure.
//
// Most of a run is over in seconds, but somebody may answer after two hours, and a night may lie between a crash and the
// next start. A stretch in which nothing was to be done, and that is long beside all the others, is drawn shorter, with
// a mark that says so and its true length. Everything else keeps its proportions: a stall is as long as it was.

import { span } from "./words.js";

export const LONG = 8; // seconds; nothing below is ever shortened
const TOO_LONG = 0.6; // part of all the rest from which on a stretch crowds it out
const DRAWN = 0.3; // part of all the rest that a shortened one gets
const LEAST = 1.5; // seconds that it gets at least
const STEPS = [1, 2, 5];

export class Scale {
  /** `moments` are the times at which something began or ended, in any order. `patience` says for two neighbours of
   *  them how many seconds may lie between before the stretch may be shortened. */
  constructor(start, end, moments, from, to, patience = () => LONG) {
    this.from = from;
    this.start = start;
    this.end = Math.max(end, start + 1e-3);
    this.pieces = shortened(cuts(this.start, this.end, moments), patience);
    const drawn = this.pieces.reduce((sum, piece) => sum + piece.drawn, 0);
    this.perSecond = (to - from) / drawn;
    let x = from;
    for (const piece of this.pieces) {
      piece.x = x;
      x += piece.drawn * this.perSecond;
    }
    this.to = to;
  }

  /** The place of a time. */
  x(at) {
    if (at <= this.start) return this.from;
    if (at >= this.end) return this.to;
    let low = 0;
    let high = this.pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.pieces[middle].start <= at) low = middle;
      else high = middle - 1;
    }
    const piece = this.pieces[low];
    const part = (at - piece.start) / (piece.end - piece.start);
    return piece.x + part * piece.drawn * this.perSecond;
  }

  /** Where a stretch was shortened: `{x, seconds}` at its middle. */
  get breaks() {
    return this.pieces
      .filter((piece) => piece.short)
      .map((piece) => ({
        x: piece.x + (piece.drawn * this.perSecond) / 2,
        seconds: piece.end - piece.start,
        start: piece.start,
        end: piece.end,
      }));
  }

  /** Marks in round steps: `{x, seconds, text}` since the start, none inside of what was shortened. */
  ticks(apart) {
    const step = roundStep(apart / this.perSecond);
    const found = [];
    let last = -Infinity;
    for (const piece of this.pieces) {
      if (piece.short) continue;
      const first = Math.ceil((piece.start - this.start) / step - 1e-9);
      const most = Math.floor((piece.end - this.start) / step + 1e-9);
      for (let count = first; count <= most; count += 1) {
        const x = this.x(this.start + count * step);
        if (x - last >= apart * 0.6) {
          found.push({ x, seconds: count * step, text: tickWords(count * step, step) });
          last = x;
        }
      }
    }
    return found;
  }
}

/** A time on the axis, with as many digits as tell two neighbours apart. */
function tickWords(seconds, step) {
  if (seconds === 0) return "0";
  if (seconds >= 60) return span(seconds);
  if (step < 0.01) return `${Math.round(seconds * 1000)} ms`;
  return `${seconds.toFixed(step < 0.1 ? 2 : step < 1 ? 1 : 0)} s`;
}

/** The smallest round number of seconds, minutes or hours that is at least this. */
export function roundStep(seconds) {
  for (let unit = 0.001; unit < 60; unit *= 10) {
    for (const step of STEPS) if (unit * step >= seconds && unit * step < 60) return unit * step;
  }
  for (const step of [60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400]) if (step >= seconds) return step;
  return Math.ceil(seconds / 86_400) * 86_400;
}

/** While a run is under way the line ends at a round time ahead, so that what is drawn stands still for a while. */
export function endAhead(seconds) {
  let ahead = 4;
  while (ahead < seconds * 1.02) ahead *= 1.3;
  return ahead;
}

function cuts(start, end, moments) {
  const times = [...new Set([start, ...moments.filter((at) => at > start && at < end), end])].sort((a, b) => a - b);
  const pieces = [];
  for (let at = 1; at < times.length; at += 1) {
    pieces.push({ start: times[at - 1], end: times[at], drawn: times[at] - times[at - 1], short: false, x: 0 });
  }
  return pieces;
}

function shortened(pieces, patience) {
  const long = pieces
    .filter((piece) => piece.drawn > LONG && piece.drawn > patience(piece.start, piece.end))
    .sort((a, b) => b.drawn - a.drawn);
  let all = pieces.reduce((sum, piece) => sum + piece.drawn, 0);
  for (const piece of long) {
    const rest = all - piece.drawn;
    const length = Math.max(rest * DRAWN, LEAST);
    if (piece.drawn <= rest * TOO_LONG || piece.drawn < length * 2) break;
    all = rest + length;
    piece.drawn = length;
    piece.short = true;
  }
  return pieces;
}
