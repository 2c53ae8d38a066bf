// A session as Markdown, for reading and for passing on. Pure.

const WHO = { user: "You", assistant: "Answer", tool: "Tool", system: "Instructions" };
const MOST_OUTPUT = 4000; // characters of a tool's output

/**
 * @param {string} title
 * @param {{role: string, text: string, at: number, parts?: object[], outcome?: string|null, why?: string|null}[]} messages
 */
export function sessionMarkdown(title, messages) {
  const blocks = [`# ${oneLine(title)}`];
  let last = "";
  for (const message of messages) {
    const said = [message.role === "tool" ? "" : message.text.trim(), ...(message.parts ?? []).map(partOf)].filter(Boolean);
    if (said.length && message.role !== last && message.role !== "tool") {
      blocks.push(`## ${WHO[message.role] ?? message.role}`, `*${new Date(message.at * 1000).toISOString().slice(0, 19)}Z*`);
      last = message.role;
    }
    blocks.push(...said);
    if (message.outcome && message.outcome !== "completed") {
      blocks.push(`*Ended: ${message.outcome}${message.why ? `, ${oneLine(message.why)}` : ""}*`);
    }
  }
  return `${blocks.join("\n\n")}\n`;
}

function partOf(part) {
  switch (part.type) {
    case "call":
      return `**${part.tool}**\n\n${fenced(argumentsOf(part.arguments), "json")}`;
    case "result":
      return `${part.failed ? "Failed:" : "Result:"}\n\n${fenced(shortened(part.text))}`;
    case "refusal":
      return `*Declined:* ${part.text}`;
    case "image":
      return `*A picture${part.media_type ? ` (${part.media_type})` : ""}*`;
    case "file":
      return `*A file${part.name ? `: ${oneLine(part.name)}` : ""}*`;
    default:
      return ""; // what the model thought stays where it is
  }
}

function argumentsOf(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

function shortened(text) {
  return text.length <= MOST_OUTPUT ? text : `${text.slice(0, MOST_OUTPUT)}\n… ${text.length - MOST_OUTPUT} characters more`;
}

/** In a fence that nothing inside of it can close. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`{3,}/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

function oneLine(text) {
  return text.replace(/\s+/g, " ").trim();
}
