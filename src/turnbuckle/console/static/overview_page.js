/** The server's status: what runs and waits, what it used, what was wasted and why, how the routes are, and the disk. */

import { addressOf } from "./address.js";
import { el, setText } from "./elements.js";
import { NodesPart } from "./nodes_part.js";
import { NumberTable } from "./number_table.js";
import { causeWords, clock, many, money, size, span, spentWords, whole } from "./words.js";

const EVERY = 4000; // ms; the numbers of days are asked for seldom
const SELDOM = 60_000;
const DAYS = 7;
const STANDING = { fit: "fine", benched: "paused", due: "will be tried again", probed: "being tried" };

export class OverviewPage {
  title = "Overview";
  #days = null;
  #daysAt = -Infinity;
  #timer = 0;
  #open = false;
  #drawn = "";

  /** @param {import("./main.js").Shell} shell */
  constructor(shell) {
    this.shell = shell;
    this.now = el("dl.about");
    this.queue = el("div");
    this.routes = el("div");
    this.waste = el("div");
    this.used = el("div");
    this.nodes = new NodesPart();
    this.problem = el("p.problem", { role: "alert", hidden: true });
    this.since = el("p.muted.small");
    const part = (title, content) => el("section.part", { "aria-label": title }, el("h2", null, title), content);
    this.element = el(
      "div.page.overview",
      null,
      this.problem,
      part("Now", this.now),
      this.nodes.element,
      part("Queue", this.queue),
      part("Routes", this.routes),
      part("Waste by day and cause", this.waste),
      part(`The last ${DAYS} days`, this.used),
      this.since,
    );
  }

  async open() {
    this.#open = true;
    await this.#look();
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
  }

  async #look() {
    clearTimeout(this.#timer);
    if (!document.hidden) {
      try {
        const now = performance.now();
        const ask = (path) => this.shell.api.ask("GET", path);
        const [overview, nodes] = await Promise.all([ask("/v1/overview"), ask("/v1/nodes")]);
        if (now - this.#daysAt > SELDOM) {
          this.#days = (await this.shell.api.ask("GET", `/v1/usage?days=${DAYS}`)).days;
          this.#daysAt = now;
        }
        if (this.#open) {
          this.#draw(overview);
          this.nodes.draw(nodes.data, this.shell.api.now());
        }
        this.problem.hidden = true;
      } catch (problem) {
        if (problem.name !== "ApiProblem") throw problem;
        setText(this.problem, problem.message);
        this.problem.hidden = problem.lost || problem.status === 401; // the banner or the login say so
      }
    }
    if (this.#open) this.#timer = setTimeout(() => void this.#look(), EVERY);
  }

  #draw(overview) {
    const waiting = this.shell.watch.approvals.length;
    const disk = [size(overview.disk.free ?? 0), size(overview.disk.journal ?? 0)];
    const waits = overview.queue.map(({ run, since }) => [run, span(this.shell.api.now() - since)]);
    const key = JSON.stringify([{ ...overview, disk, queue: waits }, this.#days, waiting]);
    if (key === this.#drawn) return; // nobody loses their place for nothing
    this.#drawn = key;
    this.now.replaceChildren(...pairs(nowOf(overview, waiting)));
    this.queue.replaceChildren(queueOf(overview, this.shell.api.now()));
    this.routes.replaceChildren(routesOf(overview.routes));
    this.waste.replaceChildren(wasteOf(overview.waste, overview.waste_ever));
    this.used.replaceChildren(daysOf(this.#days ?? []));
    setText(this.since, sinceWords(overview, this.shell.api.now()));
  }
}

function sinceWords({ since, complete }, now) {
  if (since === null) return "";
  const older = complete ? "" : " Older runs are still being counted.";
  return `Routes and waste count all runs since ${clock(since, now)}, also those that were deleted.${older}`;
}

/** What waits, for how long, and behind what. */
function queueOf({ queue, queued, queue_complete: complete }, now) {
  if (!queue.length) return el("p.muted", null, "The queue is empty.");
  const link = (page, id, words) => el("a", { href: addressOf({ page, id }) }, words);
  const rows = queue.map(({ run, session, title, since, behind, ahead }) => [
    link("session", session, title || run),
    span(now - since),
    behind ? link("run", behind, ahead ? "the message before it" : "the run under way") : "nothing: it is about to start",
  ]);
  const shown = table(["Message", "Waits for", "Behind"], rows, [1]);
  if (queued === queue.length && complete) return shown;
  const of = `${complete ? "" : "at least "}${many(queued, "message")}`;
  return el("div", null, shown, el("p.muted.small", null, `The ${whole(queue.length)} that have waited longest, of ${of}.`));
}

function nowOf({ runs, queued, queue_complete: complete, disk }, waiting) {
  const free = disk.total ? `${size(disk.free)} of ${size(disk.total)} free` : "not known";
  const yours = runs.yours === runs.all ? "" : `${whole(runs.yours)} of them yours, `;
  return [
    ["Runs under way", el("a", { href: "#/runs" }, `${whole(runs.all)} (${yours}${whole(runs.most)} at most)`)],
    ["In the queue", `${complete ? "" : "at least "}${many(queued, "message")}`],
    ["Waits for you", el("a", { href: "#/approvals" }, many(waiting, "question"))],
    ["Disk", disk.total && disk.free / disk.total < 0.05 ? el("strong.bad", null, free) : free],
    ["Journal", disk.journal === null ? "size not known" : size(disk.journal)],
  ];
}

function routesOf(routes) {
  const rows = routes.map(({ name, standing, calls, clocks, seconds, why }) => {
    const words = standing === "benched" ? `paused for ${span(seconds)}` : STANDING[standing];
    const state = el(standing === "fit" ? "span" : "span.warn", { title: why }, words);
    return [el("code", null, name), el("span", null, state, why && el("span.small.muted", null, ` ${why}`)), calls.calls,
      calls.breaks, calls.stalls, calls.recovered, calls.given_up, calls.stopped, clocksOf(clocks)];
  });
  const names = ["Route", "Health", "Calls", "Breaks", "Stalls", "Recovered", "Gave up", "Stopped", "Learned time limits"];
  return table(names, rows, [2, 3, 4, 5, 6, 7]);
}

function clocksOf({ first_event: first, gap, gap_in_call: inCall, reading }) {
  const times = (name, factor) => factor !== null && `${name} × ${factor.toFixed(2)}`;
  const parts = [times("first word", first), times("silence", gap), times("in a call", inCall)].filter(Boolean);
  if (reading !== null) parts.push(`reads 1,000 characters in ${span(reading)}`);
  return parts.join(", ") || "none yet";
}

/** The last days one by one, and under them all time. */
function wasteOf(lines, ever) {
  if (!ever.length) return el("p.muted", null, "Nothing broke.");
  const rows = [...lines, ...ever].map(({ day, cause, times, seconds, characters, cost }) => [
    day || "All time", causeWords(cause), times, span(seconds), characters, cost ? money(cost) : "none known",
  ]);
  return table(["Day (UTC)", "Cause", "Times", "Time in broken calls", "Characters lost", "Cost"], rows, [2, 3, 4, 5]);
}

function daysOf(days) {
  if (!days.length) return el("p.muted", null, "No runs.");
  const rows = days.map(({ day, runs, spent }) => [day, runs, spent.calls || 0, spent.input_tokens || 0, spent.output_tokens || 0,
    spentWords(spent).replace(/^[\d,]+ tokens?,? ?/, "").replace(/^(tokens and )?cost /, "") || "unknown"]);
  return table(["Day (UTC)", "Runs", "Model calls", "Tokens in", "Tokens out", "Cost"], rows, [1, 2, 3, 4, 5]);
}

function table(names, rows, right) {
  return new NumberTable(names, right).fill(rows).element;
}

function pairs(rows) {
  return rows.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]);
}
