// What a run is waiting for, and since when: a fold over its events, as the server's own (turn/waiting.py), so that the
// page can say it at once and not only with the next heartbeat. No clock: the time is handed in.
//
// A person comes first, then a tool that runs, then the model. Only content moves the time of the last word on, so a
// provider that merely pings is seen to be silent.

import { count, shortArgument, shortened, whole } from "./words.js";

const HEARD = { text: "text", refusal: "text", reasoning: "reasoning" };
const FULL_UP = new Set(["rate_limited", "overloaded"]);

export class Waiting {
  constructor() {
    this.model = "";
    this.doing = "text"; // what the model was at when it was last heard
    this.call = ""; // the tool whose arguments are coming in, and how much of them is here
    this.characters = 0;
    this.pause = 0;
    this.kind = null;
    this.since = 0;
    this.tools = new Map();
    this.approvals = new Map();
  }

  take(event, at) {
    switch (event.type) {
      case "streamed":
        this.#streamed(event, at);
        break;
      case "model_asked":
        this.model = event.model;
        this.#now("provider_first_token", at);
        break;
      case "decided":
        this.#decided(event, at);
        break;
      case "tool_started":
        this.tools.set(event.call_id, {
          kind: "tool",
          detail: `${event.name} ${shortArgument(event.arguments)}`.trim(),
          since: at,
        });
        break;
      case "tool_finished":
        this.tools.delete(event.call_id);
        this.kind = null;
        break;
      case "approval_asked": {
        const words = event.question
          ? shortened(event.question)
          : `${event.name} ${shortArgument(event.arguments)}`.trim();
        this.approvals.set(event.approval, { kind: "approval", detail: words, since: at });
        break;
      }
      case "approval_answered":
        this.approvals.delete(event.approval);
        break;
      case "run_claimed":
      case "run_left":
        this.kind = null; // what was under way died with its process; a person is still to answer
        this.tools.clear();
        break;
      case "calls_handed_over":
        this.kind = null;
        break;
      case "run_ended":
        this.kind = null;
        this.tools.clear();
        this.approvals.clear();
        break;
      default:
    }
  }

  /** What is waited for at this time: `{kind, detail, since}`, or null. */
  on(now) {
    const person = newest(this.approvals) || newest(this.tools);
    if (person) return person;
    if (this.kind === null) return null;
    if (this.kind === "rate_limit" || this.kind === "retry") {
      const left = Math.max(this.since + this.pause - now, 0);
      return { kind: this.kind, detail: `next try in ${Math.round(left)} s`, since: this.since };
    }
    return { kind: this.kind, detail: this.kind === "provider" ? this.#received() : this.model, since: this.since };
  }

  #now(kind, at) {
    this.kind = kind;
    this.since = at;
  }

  #received() {
    if (this.doing === "arguments") return `${this.model}: ${this.call}, ${whole(this.characters)} characters`;
    return `${this.model}: ${this.doing}`;
  }

  #decided(event, at) {
    const after = event.decision.after || 0;
    if (after <= 0 || (event.decision.type !== "retry" && event.decision.type !== "reask")) return;
    const told = event.failure;
    const fullUp = told && (FULL_UP.has(told.kind) || told.retry_after !== null);
    this.#now(fullUp ? "rate_limit" : "retry", at);
    this.pause = after;
  }

  #streamed(event, at) {
    let heard = false;
    for (const one of event.events) {
      if (HEARD[one.type]) {
        this.doing = HEARD[one.type];
      } else if (one.type === "call_args") {
        this.doing = "arguments";
        this.characters += count(one.text);
      } else if (one.type === "call_started") {
        this.doing = "arguments";
        this.call = one.name || "a call";
        this.characters = 0;
      } else if (one.type === "call_named") {
        this.doing = "arguments";
        this.call = one.name || this.call;
      } else {
        continue;
      }
      heard = true;
    }
    if (heard) this.#now("provider", at);
  }
}

function newest(waits) {
  let last = null;
  for (const one of waits.values()) last = one; // a handful: tools that run at once, questions that are open
  return last;
}
