// Calls that are over and stand behind each other become one line: "10 × shell". Pure.
//
// A call joins once something stands behind it, or the run is over, so what happens now is always seen by itself. Thoughts
// between two calls go along. Words, notices and whatever needs a look (a draft, a call that was stopped or not allowed)
// stand alone and end a group. Each segment is looked at once, so the work is the same however long the run is.

const LEAST = 3; // calls that are worth a line of their own
const JOINS = new Set(["finished", "failed", "timed_out"]);
const GOES_ON = new Set(["arriving", "ready", "running", "draft"]);

/** `inside`: how many of `members` belong to it; a thought behind the last call does not, until another call follows.
 *  @typedef {{members: object[], inside: number, counts: Map<string, number>, calls: number, failed: number,
 *    seconds: number}} Group */

export class ToolGroups {
  #looked = 0; // how many segments are decided
  #now = null; // the group that the next call may join
  #of = new Map();

  /** The group of a segment, or undefined. */
  of(segment) {
    return this.#of.get(segment);
  }

  /**
   * Look at what is new. @param {object[]} segments @param {boolean} isOver whether the run is
   * @returns {Set<Group>} groups that are new or have grown
   */
  take(segments, isOver) {
    const changed = new Set();
    for (; this.#looked < segments.length; this.#looked += 1) {
      const segment = segments[this.#looked];
      if (!isOver && (this.#looked === segments.length - 1 || isUnderWay(segment))) break;
      this.#join(segment, changed);
    }
    return changed;
  }

  #join(segment, changed) {
    const isThought = segment.kind === "reasoning";
    if (!isThought && !mayJoin(segment)) {
      this.#now = null;
      return;
    }
    if (!this.#now && isThought) return;
    this.#now ??= { members: [], inside: 0, counts: new Map(), calls: 0, failed: 0, seconds: 0 };
    const group = this.#now;
    group.members.push(segment);
    if (isThought) return;
    group.calls += 1;
    group.counts.set(segment.name, (group.counts.get(segment.name) ?? 0) + 1);
    group.seconds += segment.outcome?.seconds ?? 0;
    if (segment.state !== "finished") group.failed += 1;
    if (group.calls < LEAST) return;
    for (; group.inside < group.members.length; group.inside += 1) this.#of.set(group.members[group.inside], group);
    changed.add(group);
  }
}

/** "7 × shell, 5 × read_file" @param {Group} group */
export function groupWords({ counts }) {
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`)).join(", ");
}

function isUnderWay(segment) {
  if (segment.kind !== "tool") return false;
  return GOES_ON.has(segment.state) || segment.approval?.verdict === "pending";
}

function mayJoin(segment) {
  return segment.kind === "tool" && JOINS.has(segment.state) && !(segment.draft && !segment.draft.how);
}
