// A run's time spans to shapes on a plane: what is drawn where. Pure, so it can be tested without a page.
//
// Rows from the top: the words of recoveries, model calls with what came of them, tools (side by side if they overlap),
// waits, and the time axis. Times in which nobody drove the run go through all rows. There is never more than one shape
// per two pixels of a row, so a run of any length stays a drawing of some hundred shapes.

import { recoveryLabel, wordsOf } from "./steps.js";
import { LONG, Scale, endAhead } from "./timeline_scale.js";
import { TOOL_STATE, shortArgument, span as spanWords, waitingWords } from "./words.js";

const FINEST = 2; // pixels between two shapes
const LANES = 4; // rows of tools; more that overlap share the last one
const SILENT = 1; // seconds without a word that are worth showing
const PATIENT = 180; // seconds of a tool, a silence or a stall that are drawn as long as they are
const IDLE = new Set(["approval", "interrupted", "wait"]);
const LETTER = 6.1; // pixels, about, in the small type
const BOLD = 6.7;
const BAR = 20;
const SLIM = 15;
const GAP = 8;
const ENDS = { completed: "✓", partial: "◐", cancelled: "■", failed: "✕" };

/** `{width, height, shapes, texts, arcs, ticks, breaks, rows}`. A shape is `{kind, x, y, w, h, span, phase, words}`.
 *  `roomy`: rows that are empty have their place already, so that nothing moves when something comes into them. */
export function layout(fold, now, width, roomy = false) {
  return new Drawing(fold, now, width).made(roomy);
}

class Drawing {
  constructor(fold, now, width) {
    this.fold = fold;
    this.now = fold.endedAt ?? now;
    this.width = width;
    this.left = width < 480 ? 44 : 54;
    this.shapes = [];
    this.texts = [];
    this.arcs = [];
    this.rows = [];
    this.live = fold.outcome === null && fold.last > 0 && fold.status !== "interrupted";
    this.of = { model: [], tool: [], wait: [], recovery: [], band: [], mark: [] };
    for (const span of fold.spans) this.of[ROW[span.kind] || "mark"].push(span);
    this.quiet = this.silence();
    this.scale = this.scaled();
  }

  made(roomy) {
    let y = 4;
    if (roomy || this.of.recovery.length) y = this.recoveryWords(y);
    y = this.model(y);
    if (roomy || this.of.tool.length) y = this.tools(y + GAP);
    if (roomy || this.of.wait.length || this.quiet) y = this.waits(y + GAP);
    this.bottom = y + 6;
    this.bands();
    this.marks();
    const scale = this.scale;
    const end = this.fold.outcome ? ENDS[this.fold.outcome.kind] || "•" : "";
    return {
      width: this.width,
      left: this.left,
      bottom: this.bottom,
      height: this.bottom + 20,
      shapes: this.shapes,
      texts: this.texts,
      arcs: this.arcs,
      rows: this.rows,
      ticks: scale.ticks(this.width < 480 ? 56 : 76),
      breaks: scale.breaks,
      nowX: this.live ? scale.x(this.now) : null,
      endX: this.fold.outcome ? scale.to : null,
      end,
      endKind: this.fold.outcome ? this.fold.outcome.kind : "",
    };
  }

  // Time

  /** What is waited for without a span of its own: more words of the model. */
  silence() {
    if (!this.live) return null;
    const on = this.fold.waitingOn(this.now);
    if (!on || (on.kind !== "provider" && on.kind !== "provider_first_token")) return null;
    return this.now - on.since >= SILENT ? { kind: "quiet", start: on.since, end: null, on } : null;
  }

  scaled() {
    const { fold, now } = this;
    const end =
      fold.endedAt ??
      (this.live ? fold.startedAt + endAhead(now - fold.startedAt) : Math.max(fold.at, fold.startedAt + 1));
    const moments = [];
    for (const span of [...fold.spans, ...(this.quiet ? [this.quiet] : [])]) {
      moments.push(span.start, span.end ?? now);
      for (const phase of span.phases || []) moments.push(phase.start, phase.end);
    }
    if (this.live) moments.push(now);
    return new Scale(fold.startedAt, end, moments, this.left, this.width - 14, (from, to) =>
      this.patience((from + to) / 2),
    );
  }

  /** Seconds for which nothing may happen around this time before it is drawn shorter. */
  patience(at) {
    let idle = false;
    for (const span of this.fold.spans) {
      if (span.start > at || (span.end ?? this.now) < at) continue;
      if ((span.phases || []).some((phase) => phase.start <= at && phase.end >= at)) return Infinity;
      if (IDLE.has(span.kind)) idle = true;
    }
    return idle || at > this.now ? LONG : PATIENT;
  }

  place(span) {
    const x = this.scale.x(span.start);
    return { x, w: Math.max(this.scale.x(span.end ?? this.now) - x, FINEST) };
  }

  row(name, y, height) {
    this.rows.push({ name, y, height });
  }

  // The model and what it said

  model(top) {
    const y = top + 14;
    this.row("Model", y, BAR);
    let lastEdge = -Infinity;
    let labelEdge = -Infinity;
    const spans = this.of.model;
    spans.forEach((span, at) => {
      const { x, w } = this.place(span);
      if (x + w < lastEdge + FINEST && at > 0) return; // too fine to be seen beside the one before
      lastEdge = x + w;
      const broke = span.attempt.decided ? " broke" : "";
      this.shapes.push({ kind: "model", look: `base${broke}`, x, y, w, h: BAR, span, phase: null });
      this.phases(span, y);
      const next = spans[at + 1];
      const begins = x + (span.attempt.after ? 7 : 0); // an arrow may come down there
      const room = (broke ? x + w - 7 : next ? this.scale.x(next.start) - 6 : this.width - 10) - begins;
      const label = fitting(labels(span.attempt), room);
      if (label && x >= labelEdge) {
        this.texts.push({ x: begins, y: y - 4, text: label, look: "label" });
        labelEdge = begins + label.length * LETTER;
      }
      if (broke && span.end !== null)
        this.shapes.push({ kind: "model", look: "cut", x: x + w - 1.5, y: y - 2, w: 3, h: BAR + 4, span, phase: null });
    });
    return y + BAR;
  }

  phases(span, y) {
    let last = null;
    const seen = new Set();
    const found = span.merged ? spread(span) : span.phases;
    for (const phase of found) {
      let x = this.scale.x(phase.start);
      const w = Math.max(this.scale.x(phase.end) - x, FINEST);
      if (last && x < last.x + FINEST && !seen.has(phase.kind)) x = last.x + FINEST; // each kind is to be seen once
      seen.add(phase.kind);
      if (last && last.kind === phase.kind && x - (last.x + last.w) < FINEST) {
        last.w = Math.max(last.w, x + w - last.x);
        continue;
      }
      if (last && x < last.x + FINEST) continue;
      if (last && x < last.x + last.w) last.w = x - last.x;
      last = { kind: phase.kind, look: "phase", x, y: y + 3, w, h: BAR - 6, span, phase };
      this.shapes.push(last);
    }
  }

  recoveryWords(top) {
    const y = top + 11;
    let edge = this.left - 20;
    for (const span of this.of.recovery) {
      const gaveUp = span.event.decision.type === "give_up";
      const from = this.scale.x(span.start);
      const waits = !span.next && !gaveUp && this.live;
      const to = span.next ? this.scale.x(span.next.start) : waits ? this.scale.x(this.now) : from;
      this.arcs.push({ from, to, y: y + 6, down: y + 20, gaveUp, waits });
      this.shapes.push({
        kind: "recovery",
        look: "mark",
        x: from - 5,
        y: y + 3,
        w: Math.max(to - from, 0) + 10,
        h: 17,
        span,
        phase: null,
      });
      const text = recoveryLabel(span);
      const long = text.length * BOLD;
      const x = Math.min(Math.max(from - 4, this.left), this.width - 20 - long);
      if (x < edge + 8) continue; // its words are in the list of steps, and in the tooltip
      this.texts.push({ x, y, text, look: gaveUp ? "recovery bad" : "recovery" });
      edge = x + long;
    }
    return y + 8;
  }

  // Tools and waits

  tools(top) {
    const ends = [];
    const first = top;
    let lowest = 0;
    this.of.tool.forEach((span) => {
      const { x, w } = this.place(span);
      const end = span.end ?? this.now;
      let lane = ends.findIndex((busy) => busy <= span.start);
      if (lane < 0) lane = Math.min(ends.length, LANES - 1);
      ends[lane] = Math.max(ends[lane] ?? 0, end);
      lowest = Math.max(lowest, lane);
      this.shapes.push({
        kind: "tool",
        look: toolLook(span),
        x,
        y: first + lane * (BAR + 3),
        w,
        h: BAR,
        span,
        phase: null,
        lane,
      });
    });
    this.toolLabels();
    const height = (lowest + 1) * (BAR + 3) - 3;
    this.row("Tools", first, BAR);
    return first + height;
  }

  toolLabels() {
    const lanes = new Map();
    for (const shape of this.shapes.filter((one) => one.kind === "tool")) {
      if (!lanes.has(shape.lane)) lanes.set(shape.lane, []);
      lanes.get(shape.lane).push(shape);
    }
    for (const row of lanes.values()) {
      row.forEach((shape, at) => {
        const { tool } = shape.span;
        const names = [`${tool.name} ${shortArgument(tool.arguments, 40)}`.trim(), tool.name];
        const inside = fitting(names, shape.w - 10);
        if (inside) {
          this.texts.push({
            x: shape.x + 5,
            y: shape.y + 14,
            text: inside,
            look: PALE.has(shape.look) ? "label" : "inside",
          });
          return;
        }
        const edge = row[at + 1] ? row[at + 1].x : this.width - 12;
        const beside = fitting(names, edge - shape.x - shape.w - 8);
        if (beside) {
          this.texts.push({ x: shape.x + shape.w + 4, y: shape.y + 14, text: beside, look: "label" });
          return;
        }
        const before = at === 0 ? fitting([tool.name], shape.x - this.left - 8) : "";
        if (before) this.texts.push({ x: shape.x - 4, y: shape.y + 14, text: before, look: "label end" });
      });
    }
  }

  waits(y) {
    const spans = this.quiet ? [...this.of.wait, this.quiet] : this.of.wait;
    this.row("Waits", y, SLIM);
    const taken = [];
    const places = spans.map((span) => {
      const { x, w } = this.place(span);
      const words =
        span.kind === "quiet" ? `Silent for ${spanWords(this.now - span.start)}: ${waitingWords(span.on)}` : "";
      this.shapes.push({
        kind: span.kind === "quiet" ? "wait" : span.kind,
        look: span.kind,
        x,
        y,
        w,
        h: SLIM,
        span,
        phase: null,
        words,
      });
      taken.push([x, x + w]);
      return { span, x, w };
    });
    const free = (from, to) =>
      from >= this.left && to <= this.width - 12 && !taken.some(([start, end]) => from < end && to > start);
    for (const { span, x, w } of places) {
      const words = waitLabel(span, this.now);
      for (const text of [words, words.split(",")[0]]) {
        const long = text.length * LETTER;
        const put = (at, look) => this.texts.push({ x: at, y: y + 11, text, look });
        if (long + 12 <= w) put(x + w / 2, `within ${span.kind}`);
        else if (free(x + w + 1, x + w + 8 + long)) put(x + w + 5, "label");
        else if (free(x - 8 - long, x - 1)) put(x - 5, "label end");
        else continue;
        const last = this.texts[this.texts.length - 1];
        if (last.look === "label") taken.push([x + w, x + w + 8 + long]);
        if (last.look === "label end") taken.push([x - 8 - long, x]);
        break;
      }
    }
    return y + SLIM;
  }

  // Through all rows

  bands() {
    for (const span of this.of.band) {
      const { x, w } = this.place(span);
      this.shapes.unshift({
        kind: "interrupted",
        look: "band",
        x,
        y: 2,
        w: Math.max(w, 4),
        h: this.bottom - 2,
        span,
        phase: null,
      });
    }
  }

  marks() {
    for (const span of this.of.mark) {
      const x = this.scale.x(span.start);
      const look = span.kind === "end" ? `end ${span.outcome.kind}` : "point";
      this.shapes.push({ kind: span.kind, look, x: x - 1, y: 2, w: 2, h: this.bottom - 2, span, phase: null });
    }
  }
}

const PALE = new Set(["unknown", "not_started", "denied"]);
const ROW = {
  model: "model",
  tool: "tool",
  stall: "wait",
  wait: "wait",
  approval: "wait",
  recovery: "recovery",
  interrupted: "band",
};

const WHY = {
  after_tools: "results",
  steered: "more said",
  retry: "again",
  continue: "goes on",
  finish_draft: "the rest",
  fallback: "elsewhere",
  reask: "changed",
};

function labels(attempt) {
  const name = attempt.route === attempt.model ? attempt.route : `${attempt.route} · ${attempt.model}`;
  const why = WHY[attempt.why] || "";
  return why ? [`${name}: ${why}`, `${attempt.route}: ${why}`, why] : [name, attempt.route];
}

function fitting(texts, room) {
  return texts.find((text) => text && text.length * LETTER <= room) || "";
}

function toolLook(span) {
  const { tool } = span;
  if (tool.span !== span) return "unknown";
  if (!tool.outcome) return span.end === null ? "running" : "unknown";
  return tool.outcome.status in TOOL_STATE ? tool.outcome.status : "failed";
}

function waitLabel(span, now) {
  const time = spanWords((span.end ?? now) - span.start);
  if (span.kind === "stall") return `stalled ${time}`;
  if (span.kind === "quiet") return `silent ${time}, ${span.on.detail}`;
  if (span.kind === "wait")
    return span.end === null ? `waits ${time}, of ${spanWords(span.seconds)}` : `waited ${time}`;
  const { verdict } = span.approval;
  return verdict === "pending" ? `a person is asked, ${time}` : `a person was asked, ${time}, ${verdict}`;
}

/** Of a run that ended long ago the times of single pieces are gone: they are spread over the call by their length. */
function spread(span) {
  const all = span.phases.reduce((sum, phase) => sum + phase.characters, 0) || 1;
  const first = span.phases.length ? span.phases[0].start : span.start;
  const begin = Math.min(first, span.start + (first - span.start) * 0.2);
  const perCharacter = (Math.max(span.heardAt ?? begin, begin) - begin) / all;
  let at = begin;
  return span.phases.map((phase) => {
    const start = at;
    at += phase.characters * perCharacter;
    return { ...phase, start, end: at };
  });
}

/** The words of a shape, for those who cannot see it. */
export function shapeWords(shape, now) {
  if (shape.words) return shape.words;
  if (!shape.phase) return wordsOf(shape.span, now);
  const { phase } = shape;
  const what = phase.kind === "arguments" ? `arguments of ${phase.name}` : phase.kind;
  return `${phase.characters} characters of ${what} in ${spanWords(phase.end - phase.start)}`;
}
