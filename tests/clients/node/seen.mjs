// What a user of a client gets to see of one turn. The fields are those of seen.py beside it.

import { z } from "zod";

// What is asked for where an answer must have a form.
export const Weather = z.object({ city: z.string(), sunny: z.boolean() });

export function freshSeen() {
  return {
    text: "",
    final: null,
    reasoning: "",
    calls: [],
    ran: [],
    shown: [],
    finish: null,
    usage: null,
    chunks: 0,
    numbers: [],
    outcome: null,
    error: null,
  };
}

export function failed(seen, error) {
  const body = error?.error ?? error?.data?.error;
  seen.error = {
    kind: error?.constructor?.name ?? error?.name ?? typeof error,
    message: String(error?.message ?? error),
    status: error?.status ?? error?.statusCode ?? null,
    code: error?.code ?? body?.code ?? null,
  };
}

// A second turn begins, and only that one counts.
export function startOver(seen) {
  Object.assign(seen, freshSeen());
}

export function used(seen, taken, given) {
  seen.usage = { input: taken ?? 0, output: given ?? 0 };
}

function tool(name, description, argument) {
  const properties = { [argument]: { type: "string" } };
  const parameters = { type: "object", properties, required: [argument], additionalProperties: false };
  return { name, description, parameters };
}

// The tools that the clients bring, and what they do.
export const TOOLS = [
  tool("get_weather", "The weather of a city.", "city"),
  tool("keep_text", "Keep a text for later.", "text"),
];

export function run(seen, name, given) {
  seen.ran.push(name);
  if (name === "get_weather") return `sunny in ${given.city}`;
  if (name === "keep_text") return `kept ${given.text.length} characters`;
  return "there is no such tool";
}
