// The timeline of a run: draws what `timeline_layout` has placed, and keeps it up to date while the run is under way.
//
// It is drawn at most ten times a second, less often when a pixel takes longer than that, and not at all while nobody
// can see it or nothing is left to come. Shapes are kept and moved, not made again. One can point at a shape, or go
// through them with the arrow keys; the same facts stand in words in the list of steps below.

import { el, newId, setText } from "./elements.js";
import { factsOf, stepsOf, summaryOf } from "./steps.js";
import { layout, shapeWords } from "./timeline_layout.js";
import { span as spanWords } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const OFTEN = 100; // ms
const SELDOM = 1000;
const SHARE = 20; // a drawing that takes long is made seldom: at most every twentieth moment goes into it
const REACH = 5; // pixels beside a shape that still count as on it
const LEGEND = [
  ["text", "text"],
  ["reasoning", "reasoning"],
  ["arguments", "arguments"],
  ["tool", "tool"],
  ["stall", "stall"],
  ["wait", "wait"],
  ["quiet", "silence"],
  ["approval", "a person is asked"],
  ["interrupted", "no process at work"],
];

export class Timeline {
  /** `now` gives the server's time in seconds. */
  constructor(now) {
    this._now = now;
    this._fold = null;
    this._made = null;
    this._width = 0;
    this._timer = 0;
    this._frame = 0;
    this._rest = 0;
    this._cost = 0; // ms of the last drawing
    this._inView = true;
    this._chosen = -1;
    this._roomy = null;
    this._build();
    this._listen();
  }

  _build() {
    this.svg = shape("svg", { role: "img", tabindex: "0", "aria-label": "Timeline", class: "plot-svg" });
    const ids = { stall: newId("hatch"), quiet: newId("hatch"), band: newId("hatch") };
    this.fills = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, `url(#${id})`]));
    const defs = shape("defs", {});
    for (const [name, id] of Object.entries(ids)) defs.append(hatch(name, id));
    this.layers = {};
    this.svg.append(defs);
    for (const name of ["rows", "grid", "shapes", "arcs", "texts", "over"]) {
      this.layers[name] = new Pool(this.svg, name);
    }
    this.tip = el("div.tip", { role: "status", hidden: true });
    this.legend = el("ul.legend", { "aria-label": "Colours" });
    this.list = el("ol.steps");
    this.count = el("span.muted");
    this.details = el("details.stepbox", null, el("summary", null, "Steps: ", this.count), this.list);
    this.plot = el("div.plot", null, this.svg, this.tip);
    this.element = el("div.timeline", null, this.plot, this.legend, this.details);
  }

  _listen() {
    this.plot.addEventListener("pointermove", (event) => this._pointed(event));
    this.plot.addEventListener("pointerleave", () => this._choose(-1));
    this.svg.addEventListener("keydown", (event) => this._key(event));
    this.svg.addEventListener("blur", () => this._choose(-1));
    this.details.addEventListener("toggle", () => this.update());
    this._sizes = new ResizeObserver(([entry]) => this._resized(entry.contentRect.width));
    this._sight = new IntersectionObserver(([entry]) => this._seen(entry.isIntersecting), { rootMargin: "100px" });
    this._shown = () => this._tick();
  }

  /** Begin to follow a fold. */
  open(fold) {
    this._fold = fold;
    this._sizes.observe(this.plot);
    this._sight.observe(this.plot);
    document.addEventListener("visibilitychange", this._shown);
    this.update();
  }

  close() {
    this._sizes.disconnect();
    this._sight.disconnect();
    document.removeEventListener("visibilitychange", this._shown);
    clearTimeout(this._timer);
    clearTimeout(this._rest);
    cancelAnimationFrame(this._frame);
    this._timer = this._frame = this._rest = 0;
  }

  /** The fold has changed. */
  update() {
    if (this._frame || this._rest) return;
    const wait = this._cost * SHARE - OFTEN;
    if (wait > 0 && this._live) {
      this._rest = setTimeout(() => {
        this._rest = 0;
        this.update();
      }, wait);
      this._cost = 0;
    } else this._frame = requestAnimationFrame(() => this._draw());
  }

  _resized(width) {
    if (Math.abs(width - this._width) < 1) return;
    this._width = width;
    this._draw();
  }

  _seen(inView) {
    this._inView = inView;
    if (inView) this.update();
  }

  get _live() {
    return (
      this._fold !== null && this._fold.last > 0 && this._fold.outcome === null && this._fold.status !== "interrupted"
    );
  }

  _tick() {
    clearTimeout(this._timer);
    this._timer = 0;
    if (!this._live || !this._inView || document.hidden) return;
    const perPixel = ((this._now() - this._fold.startedAt) * 1000) / Math.max(this._width, 1);
    this._timer = setTimeout(() => this.update(), Math.min(Math.max(perPixel, OFTEN), SELDOM));
  }

  // Drawing

  _draw() {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    const fold = this._fold;
    if (!fold || !fold.last || this._width < 40) return;
    const began = performance.now();
    const now = Math.max(this._now(), fold.at);
    this._roomy ??= fold.outcome === null; // a run that is watched keeps its rows; one that is over needs only its own
    const made = layout(fold, now, this._width, this._roomy);
    this._made = made;
    this._drawnAt = now;
    set(this.svg, {
      width: made.width,
      height: made.height,
      viewBox: `0 0 ${made.width} ${made.height}`,
      "aria-label": summaryOf(fold, now),
    });
    this._drawGrid(made);
    this._drawShapes(made, now);
    this._drawTexts(made);
    this._drawSteps(fold, now);
    this._drawLegend(made);
    if (this._chosen >= 0) this._choose(this._chosen);
    this._cost = performance.now() - began;
    this._tick();
  }

  _drawGrid(made) {
    const { rows, grid, over } = this.layers;
    rows.begin();
    for (const row of made.rows) {
      rows.put("rect", {
        class: "lane",
        x: made.left,
        y: row.y,
        width: made.width - 14 - made.left,
        height: row.height,
        rx: 3,
      });
      rows.put("text", { class: "row", x: 0, y: row.y + row.height / 2 + 4 }, row.name);
    }
    rows.end();
    grid.begin();
    for (const tick of made.ticks) {
      grid.put("line", { class: "tick", x1: tick.x, x2: tick.x, y1: 18, y2: made.bottom + 3 });
      grid.put("text", { class: "time", x: tick.x, y: made.bottom + 15 }, tick.text);
    }
    grid.end();
    over.begin();
    for (const gap of made.breaks) {
      const y = made.bottom;
      over.put("path", { class: "break", d: `M${gap.x - 5} ${y + 4}l4 -8M${gap.x + 1} ${y + 4}l4 -8` });
      over.put("text", { class: "time strong", x: gap.x, y: y + 15 }, spanWords(gap.seconds));
    }
    if (made.nowX !== null) over.put("line", { class: "now", x1: made.nowX, x2: made.nowX, y1: 18, y2: made.bottom });
    if (made.endX !== null) {
      over.put("rect", {
        class: `endflag ${made.endKind}`,
        x: made.endX - 1,
        y: 10,
        width: 3,
        height: made.bottom - 10,
        rx: 1,
      });
      over.put("circle", { class: `endflag ${made.endKind}`, cx: made.endX + 0.5, cy: 9, r: 8 });
      over.put("text", { class: "endsign", x: made.endX + 0.5, y: 13 }, made.end);
    }
    over.end();
  }

  _drawShapes(made, now) {
    const { shapes, arcs } = this.layers;
    shapes.begin();
    for (const one of made.shapes) {
      const fill =
        one.look === "stall"
          ? this.fills.stall
          : one.look === "quiet"
            ? this.fills.quiet
            : one.look === "band"
              ? this.fills.band
              : null;
      const radius = one.look === "phase" || one.w < 6 ? 1 : 3;
      shapes.put("rect", {
        class: `shape ${one.look}`,
        "data-kind": one.kind,
        x: one.x,
        y: one.y,
        width: one.w,
        height: one.h,
        rx: radius,
        fill,
        "data-words": shapeWords(one, now),
      });
    }
    shapes.end();
    arcs.begin();
    for (const arc of made.arcs) {
      const look = arc.gaveUp ? "arc bad" : "arc";
      if (arc.gaveUp || (arc.to === arc.from && !arc.waits)) {
        arcs.put("path", { class: look, d: `M${arc.from} ${arc.down}V${arc.y + 2}` });
        continue;
      }
      const from = arc.from - 3;
      const to = Math.max(arc.to, arc.from) + 3;
      const bend = Math.min((to - from) / 2, 8);
      if (arc.waits) {
        arcs.put("path", {
          class: `${look} waits`,
          d: `M${from} ${arc.down}V${arc.y + bend}q0 ${-bend} ${bend} ${-bend}H${Math.max(to, from + bend)}`,
        });
        continue;
      }
      arcs.put("path", {
        class: look,
        d: `M${from} ${arc.down}V${arc.y + bend}q0 ${-bend} ${bend} ${-bend}H${to - bend}q${bend} 0 ${bend} ${bend}V${arc.down - 1}`,
      });
      arcs.put("path", { class: "head", d: `M${to - 3.5} ${arc.down - 5}h7l-3.5 6z` });
    }
    arcs.end();
  }

  _drawTexts(made) {
    const { texts } = this.layers;
    texts.begin();
    for (const one of made.texts) texts.put("text", { class: `words ${one.look}`, x: one.x, y: one.y }, one.text);
    texts.end();
  }

  _drawSteps(fold, now) {
    const troubled = fold.totals.recoveries > 0;
    if (troubled && this._width < 480 && !this._opened && !this._roomy) {
      this._opened = true; // on a phone these words are easier to read than the drawing; never while it runs
      this.details.open = true;
    }
    setText(this.count, String(fold.spans.length));
    if (!this.details.open) return; // what nobody reads is not written
    const steps = stepsOf(fold, now);
    while (this.list.children.length > steps.length) this.list.lastChild.remove();
    steps.forEach((step, at) => {
      let item = this.list.children[at];
      if (!item) {
        item = el("li", null, el("span.at"), el("span.what"));
        this.list.append(item);
      }
      if (item.dataset.kind !== step.kind) item.dataset.kind = step.kind;
      setText(item.firstChild, spanWords(step.at - fold.startedAt));
      setText(item.lastChild, step.words);
    });
  }

  _drawLegend(made) {
    const kinds = new Set(made.shapes.map((one) => (one.look === "quiet" ? "quiet" : one.kind)));
    const key = LEGEND.filter(([kind]) => kinds.has(kind))
      .map(([kind]) => kind)
      .join();
    if (key === this._legendKey) return;
    this._legendKey = key;
    this.legend.replaceChildren(
      ...LEGEND.filter(([kind]) => kinds.has(kind)).map(([kind, words]) =>
        el("li", null, el(`span.swatch.k-${kind}`, { "aria-hidden": "true" }), words),
      ),
    );
  }

  // Pointing

  _pointed(event) {
    if (!this._made || !(event.target instanceof SVGElement)) return;
    const box = this.svg.getBoundingClientRect();
    this._choose(this._at(event.clientX - box.left, event.clientY - box.top));
  }

  /** The topmost shape at a place: later ones lie over earlier ones, and narrow ones are met from nearby. */
  _at(x, y) {
    let found = -1;
    let nearest = Infinity;
    this._made.shapes.forEach((one, at) => {
      if (y < one.y - 2 || y > one.y + one.h + 2) return;
      const off = Math.max(one.x - x, x - one.x - one.w, 0);
      if (off > REACH) return;
      const distance = off * 10 + (one.look === "band" || one.kind === "end" ? 9 : 0) + (one.phase ? 0 : 1);
      if (distance <= nearest) {
        nearest = distance;
        found = at;
      }
    });
    return found;
  }

  _key(event) {
    if (!this._made) return;
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const order = this._order();
    if (event.altKey || event.ctrlKey || event.metaKey || !order.length) return;
    if (event.key in moves) {
      const place = order.indexOf(this._chosen) + moves[event.key];
      this._choose(
        order[
          this._chosen < 0
            ? moves[event.key] > 0
              ? 0
              : order.length - 1
            : Math.min(Math.max(place, 0), order.length - 1)
        ],
      );
    } else if (event.key === "Home" || event.key === "End") {
      this._choose(order[event.key === "Home" ? 0 : order.length - 1]);
    } else if (event.key === "Escape" && this._chosen >= 0) {
      this._choose(-1);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  _order() {
    const { shapes } = this._made;
    const worth = (one) => one.look !== "cut";
    return shapes
      .map((_, at) => at)
      .filter((at) => worth(shapes[at]))
      .sort((a, b) => shapes[a].x - shapes[b].x || a - b);
  }

  _choose(place) {
    const one = place >= 0 ? this._made.shapes[place] : null;
    this._chosen = one ? place : -1;
    for (const node of this.svg.querySelectorAll(".chosen")) node.classList.remove("chosen");
    this.tip.hidden = one === null;
    if (!one) return;
    this.layers.shapes.nodes[place].classList.add("chosen");
    const { title, rows } = one.words ? { title: one.words, rows: [] } : factsOf(one.span, this._drawnAt, one.phase);
    const facts = el("dl", null, ...rows.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
    this.tip.replaceChildren(el("strong", null, title), facts);
    const middle = one.x + Math.min(one.w, this._width) / 2;
    const half = this.tip.offsetWidth / 2;
    this.tip.style.left = `${Math.min(Math.max(middle - half, 0), Math.max(this._width - half * 2, 0))}px`;
    this.tip.style.top = `${one.y + one.h + 6}px`;
  }
}

/** Nodes of one layer, taken in order and kept for the next drawing. */
class Pool {
  constructor(parent, name) {
    this.layer = shape("g", { class: name });
    this.nodes = [];
    this.used = 0;
    parent.append(this.layer);
  }

  begin() {
    this.used = 0;
  }

  put(name, attributes, text = null) {
    let node = this.nodes[this.used];
    if (!node || node.localName !== name) {
      const made = shape(name, {});
      if (node) node.replaceWith(made);
      else this.layer.append(made);
      this.nodes[this.used] = node = made;
    }
    this.used += 1;
    set(node, attributes);
    if (text !== null && node.textContent !== text) node.textContent = text;
  }

  end() {
    for (const node of this.nodes.splice(this.used)) node.remove();
  }
}

function shape(name, attributes) {
  const node = document.createElementNS(SVG, name);
  set(node, attributes);
  return node;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = value === null ? null : typeof value === "number" ? String(Math.round(value * 10) / 10) : value;
    if (text === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

function hatch(name, id) {
  const pattern = shape("pattern", {
    id,
    class: `hatch ${name}`,
    width: 7,
    height: 7,
    patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)",
  });
  pattern.append(
    shape("rect", { class: "ground", width: 7, height: 7 }),
    shape("rect", { class: "stroke", width: name === "stall" ? 3.5 : 2, height: 7 }),
  );
  return pattern;
}
