// Words and numbers for people: times, sizes, money, and the plain names of things. Pure; no clock, no page.

const SHORT = 72;
const LOOKED_AT = 2000; // characters of an argument that a short line is made of
const TELLING = ["path", "command", "url", "pattern", "question", "draft"];
const SURROGATE = /[\ud800-\udfff]/;

/** How many characters a text has, counted as the server counts them. */
export function count(text) {
  if (!SURROGATE.test(text)) return text.length;
  let pairs = 0;
  for (let at = 0; at + 1 < text.length; at += 1) {
    const high = text.charCodeAt(at);
    const low = text.charCodeAt(at + 1);
    if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
      pairs += 1;
      at += 1;
    }
  }
  return text.length - pairs;
}

/** The first so many characters, counted as the server counts them. */
export function firstCharacters(text, many) {
  return SURROGATE.test(text) ? Array.from(text).slice(0, many).join("") : text.slice(0, many);
}

/** 12,345 */
export function whole(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** "1 line", "12 lines" */
export function many(number, thing) {
  return `${whole(number)} ${thing}${number === 1 ? "" : "s"}`;
}

/** 12.3 kB, 4.5 GB */
export function size(characters) {
  if (characters < 1000) return `${characters} B`;
  if (characters < 1e6) return `${(characters / 1000).toFixed(characters < 1e4 ? 1 : 0)} kB`;
  if (characters < 1e9) return `${(characters / 1e6).toFixed(1)} MB`;
  return `${(characters / 1e9).toFixed(1)} GB`;
}

/** A time span: 40 ms, 2.3 s, 48 s, 2 min 5 s, 3 h 2 min, 2 d 4 h */
export function span(seconds) {
  const s = Math.max(seconds, 0);
  if (s < 0.0005) return "0 s";
  if (s < 0.0995) return `${Math.max(Math.round(s * 1000), 1)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const two = (large, unit, small, under) => (small ? `${large} ${unit} ${small} ${under}` : `${large} ${unit}`);
  if (s < 3569.5) return two(Math.floor((s + 0.5) / 60), "min", Math.floor((s + 0.5) % 60), "s");
  const minutes = Math.round(s / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(minutes / 60);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** $0.0042; nothing where nobody knows. */
export function money(amount) {
  if (amount === null || amount === undefined) return "";
  if (amount === 0) return "$0";
  if (amount < 0.0001) return "under $0.0001";
  return `$${amount.toFixed(amount < 0.1 ? 4 : 2)}`;
}

/** Money, where some of it is not known: never 0 for what nobody knows. */
export function costWords(cost, unpriced) {
  if (!unpriced) return money(cost);
  return cost === null || cost === undefined
    ? "cost unknown"
    : `${money(cost)} + ${many(unpriced, "call")} of unknown price`;
}

/** Of model calls that all broke before anybody counted: that is not nothing. */
export const UNCOUNTED = "tokens and cost unknown";

/** What a run, a session or a day has used: tokens and money. Fields that are 0 are left out by the server. */
export function spentWords(spent) {
  if (!spent || !spent.calls) return "";
  const all = (spent.input_tokens || 0) + (spent.output_tokens || 0);
  const cost = costWords(spent.cost, spent.unpriced_calls || 0);
  if (!all && !cost) return UNCOUNTED;
  return cost ? `${many(all, "token")}, ${cost}` : many(all, "token");
}

/** The time of day, with its date if that is not today's. */
export function clock(at, now) {
  const then = new Date(at * 1000);
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (now !== undefined && then.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${then.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" })}, ${time}`;
}

/** One line, with its end left out if it is long. */
export function shortened(text, length = SHORT) {
  const line = text
    .slice(0, 4 * length)
    .replace(/\s+/g, " ")
    .trim();
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`;
}

/** The argument that tells most about a call, short enough for a line. */
export function shortArgument(args, length = SHORT) {
  if (args === null || typeof args !== "object") return "";
  const name = TELLING.find((one) => typeof args[one] === "string");
  const value = name === undefined ? Object.values(args)[0] : args[name];
  if (value === undefined) return "";
  return plainly(shortened((typeof value === "string" ? value : JSON.stringify(value)).slice(0, LOOKED_AT), length));
}

// What is not seen, or turns the order of what is: the same signs as in a terminal. Those that join letters and
// pictures stay where they do that.
const UNSEEN = new RegExp(
  "\\r(?!\\n)" +
    "|(?<![^\\u0000-\\u007f\\u200b-\\u200f\\ufe00-\\ufe0f\\u{e0000}-\\u{e0fff}])(?!(?<=\\ufe0f)\\u200d)" +
    "(?!(?<=[0-9#*])\\ufe0f\\u20e3)[\\u200c\\u200d\\ufe0e\\ufe0f]" +
    "|[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f" +
    "\\u0890\\u0891\\u08e2\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\u2800\\u3164\\ud800-\\udfff\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\u{110bd}\\u{110cd}" +
    "\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]",
  "gu",
);

/** A text in which everything can be seen, in its true order: for what a person allows. */
export function plainly(text) {
  return text.replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** A text whose order nobody can turn: an address that reads backwards is another address. Scripts that are written from
 * right to left need none of these signs. */
export function inOrder(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, plainly);
}

/** Who did it, if that needs saying: whoever sits at this machine has no name. */
export function byWhom(name) {
  return name && name !== "local" ? ` by ${name}` : "";
}

export function spaced(word) {
  return String(word).replace(/_/g, " ");
}

export function capital(words) {
  return words ? words[0].toUpperCase() + words.slice(1) : words;
}

export const STATUS = {
  connecting: "Connecting",
  queued: "Waits for its turn",
  running: "Running",
  waiting_for_approval: "Waits for you",
  interrupted: "Interrupted",
  completed: "Completed",
  partial: "Partial",
  cancelled: "Stopped",
  failed: "Failed",
};

export const WHY_ASKED = {
  first: "the task",
  after_tools: "with the tools' results",
  steered: "with what was said since",
  retry: "asked again",
  continue: "asked to go on",
  finish_draft: "asked for the rest of the call",
  fallback: "asked on another route",
  reask: "asked in another way",
};

const WAITS = {
  provider_first_token: (detail) => `waiting for the first word of ${detail}`,
  provider: (detail) => `waiting for more from ${detail}`,
  tool: (detail) => `running ${detail}`,
  approval: (detail) => `waiting for a person: ${detail}`,
  rate_limit: (detail) => `the provider asked to wait, ${detail}`,
  retry: (detail) => `a pause before the next try, ${detail}`,
  turn: (detail) => detail,
  storage: (detail) => `waiting for the store: ${detail}`,
};

/** What is waited for, in words. */
export function waitingWords(on) {
  return on ? (WAITS[on.kind] || ((detail) => detail))(on.detail) : "";
}

const BROKE = {
  reset: "cut",
  incomplete: "cut",
  connect: "no connection",
  garbage: "not a valid answer",
  oversize: "too much at once",
  cancelled: "stopped",
  repeated: "went round in circles",
  budget: "limit of the run",
  server: "server error",
  timeout: "provider timed out",
  auth: "key refused",
  permission: "not permitted",
  billing: "no credit",
  not_found: "not found there",
  context: "prompt too long",
  too_large: "request too large",
  pairing: "history refused",
  unstreamable: "does not stream",
  unsupported: "field refused",
  malformed_call: "unreadable call",
  invalid: "request refused",
};

/** What broke calls, by the name that the server counts it under. Those that would read the same keep their names. */
export function causeWords(cause) {
  return cause === "reset" || cause === "incomplete" ? cause : BROKE[cause] || spaced(cause);
}

/** Why an attempt broke, in two or three words. */
export function brokeWords(decided) {
  const told = decided.failure;
  if (told) return BROKE[told.kind] || spaced(told.kind);
  const words = {
    cut_by_length: "output limit",
    cut_by_transport: "cut",
    thinking_exhausted: "only thoughts",
    empty: "nothing came",
    malformed: "unreadable call",
  };
  return words[decided.verdict] || spaced(decided.verdict);
}

const CHANGED = {
  nothing: "asked again",
  plain: "asked without streaming",
  more_room: "more room",
  less_effort: "less effort",
  say_something: "asked again",
  valid_calls: "a valid call asked for",
  retold: "history in plain words",
  less_room: "a smaller limit",
  cap_field: "asked again",
};

const WENT_ON = {
  length: "continued",
  text: "continued",
  call: "smaller calls asked for",
  unreadable: "a readable call asked for",
  paused: "continued",
};

/** What was done about it, in two or three words. */
export function didWords(decision) {
  switch (decision.type) {
    case "retry":
      return "asked again";
    case "continue":
      return WENT_ON[decision.kind] || "continued";
    case "finish_draft":
      return "rest asked for";
    case "fallback":
      return `on to ${decision.route}`;
    case "reask":
      return CHANGED[decision.change] || "asked again";
    case "give_up":
      return decision.kind === "cancelled" ? "stopped" : "gave up";
    default:
      return spaced(decision.type);
  }
}

export const TOOL_STATE = {
  arriving: "arriving",
  ready: "arrived whole",
  running: "running",
  draft: "cut, kept as a draft",
  dropped: "cut, nothing ran",
  superseded: "replaced by another call",
  handed: "handed to the client",
  finished: "done",
  failed: "failed",
  killed: "killed while running",
  timed_out: "ended by its time limit",
  unknown: "started, end unknown",
  not_started: "not run",
  denied: "not allowed, not run",
};
