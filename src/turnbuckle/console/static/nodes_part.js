/** The servers that work on one journal, as a part of the overview: who is there, how busy each is, and how late. */

import { el } from "./elements.js";
import { NumberTable } from "./number_table.js";
import { span, whole } from "./words.js";

const LATE = 1; // seconds after which the others begin to doubt a node that did not look around

/**
 * What is said of one node. `late` asks for attention.
 *
 * @param {{name: string, version: string, started: number, runs: number, max_runs: number, lag: number, here: boolean, labels: string[]}} node
 * @param {number} now seconds
 */
export function nodeWords(node, now) {
  return {
    name: node.name,
    here: node.here ? "this server" : "",
    version: node.version,
    up: span(Math.max(now - node.started, 0)),
    runs: node.max_runs ? `${whole(node.runs)} of ${whole(node.max_runs)}` : whole(node.runs),
    lag: node.lag < 0.001 ? "none" : span(node.lag),
    late: node.lag >= LATE,
    labels: node.labels.join(", "),
  };
}

/** What is said of all of them together; nothing of a single one. */
export function sumWords(nodes) {
  if (nodes.length < 2) return "";
  const versions = new Set(nodes.map((node) => node.version));
  const runs = nodes.reduce((sum, node) => sum + node.runs, 0);
  const mixed = versions.size > 1 ? `, in ${versions.size} versions` : "";
  return `${whole(nodes.length)} servers${mixed}, ${whole(runs)} ${runs === 1 ? "run" : "runs"} under way`;
}

export class NodesPart {
  #drawn = "";

  constructor() {
    this.sum = el("p.muted.small", { hidden: true });
    this.table = new NumberTable(["Server", "Version", "Labels", "Up", "Runs", "Lag"], [3, 4, 5]);
    const title = el("h2", null, "Servers");
    this.element = el("section.part", { "aria-label": "Servers" }, title, this.table.element, this.sum);
  }

  /** Draw them as they are; nothing is touched if nothing that is shown has changed. */
  draw(nodes, now) {
    const shown = nodes.map((node) => nodeWords(node, now));
    const key = JSON.stringify(shown);
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.table.fill(shown.map(cellsOf));
    this.sum.textContent = sumWords(nodes);
    this.sum.hidden = !this.sum.textContent;
  }
}

function cellsOf({ name, here, version, up, runs, lag, late, labels }) {
  const title = el("span", null, el("code", null, name), here && el("span.small.muted", null, ` ${here}`));
  return [title, version, labels, up, runs, late ? el("strong.bad", null, lag) : lag];
}
