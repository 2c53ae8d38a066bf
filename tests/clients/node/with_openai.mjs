// The official package for Node, in all the ways in which it can ask.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { run, startOver, TOOLS, used, Weather } from "./seen.mjs";

const ROUNDS = 4;

export async function ask(job, seen) {
  const client = new OpenAI({ baseURL: job.base_url, apiKey: job.api_key, timeout: 30_000 });
  if (job.way === "form") return form(client, job, seen);
  if (job.way === "resume") return resumed(client, job, seen);
  if (job.surface === "responses") return responses(client, job, seen);
  if (job.way === "runner") return runner(client, job, seen);
  return chat(client, job, seen);
}

// Chat completions

async function chat(client, job, seen) {
  const messages = [{ role: "user", content: job.prompt }];
  const tools = job.tools ? { tools: TOOLS.map((tool) => ({ type: "function", function: tool })) } : {};
  for (let round = 0; round < ROUNDS; round++) {
    const fresh = await CHAT_ROUNDS[job.way](client, { model: job.model, messages, ...tools }, seen);
    if (!fresh.length) break;
    seen.calls.push(...fresh);
    const tool_calls = fresh.map(({ id, name, arguments: args }) => ({
      id,
      type: "function",
      function: { name, arguments: args },
    }));
    messages.push({ role: "assistant", content: seen.text || null, tool_calls });
    for (const call of fresh) {
      const content = run(seen, call.name, JSON.parse(call.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
  if (job.then) {
    messages.push({ role: "assistant", content: seen.text }, { role: "user", content: job.then });
    startOver(seen);
    await CHAT_ROUNDS[job.way](client, { model: job.model, messages, ...tools }, seen);
  }
}

async function chatPlain(client, asked, seen) {
  return takeCompletion(await client.chat.completions.create(asked), seen);
}

async function chatStream(client, asked, seen) {
  const stream = await client.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  const calls = [];
  for await (const chunk of stream) {
    seen.chunks += 1;
    for (const { delta, finish_reason } of chunk.choices) {
      seen.text += delta.content ?? "";
      seen.reasoning += delta.reasoning_content ?? "";
      for (const piece of delta.tool_calls ?? []) {
        const call = (calls[piece.index] ??= { id: "", name: "", arguments: "" });
        call.id += piece.id ?? "";
        call.name += piece.function?.name ?? "";
        call.arguments += piece.function?.arguments ?? "";
      }
      seen.finish = finish_reason ?? seen.finish;
    }
    if (chunk.usage) used(seen, chunk.usage.prompt_tokens, chunk.usage.completion_tokens);
    takeExtra(chunk, seen);
  }
  return calls.filter(Boolean);
}

async function chatHelper(client, asked, seen) {
  const stream = client.chat.completions.stream(asked);
  stream.on("content", (delta) => (seen.text += delta));
  stream.on("chunk", () => (seen.chunks += 1));
  const whole = { ...seen, text: "" };
  const calls = takeCompletion(await stream.finalChatCompletion(), whole);
  seen.final = (seen.final ?? "") + whole.text;
  seen.finish = whole.finish;
  return calls;
}

// The package's own loop, which runs tools by itself.
async function runner(client, job, seen) {
  const tools = TOOLS.map((tool) => ({
    type: "function",
    function: { ...tool, parse: JSON.parse, function: (given) => run(seen, tool.name, given) },
  }));
  const stream = client.chat.completions.runTools({
    model: job.model,
    messages: [{ role: "user", content: job.prompt }],
    stream: true,
    tools,
  });
  stream.on("content", (delta) => (seen.text += delta));
  stream.on("chunk", () => (seen.chunks += 1));
  stream.on("functionToolCall", (call) => seen.calls.push({ id: "", ...call }));
  const final = await stream.finalChatCompletion();
  seen.final = await stream.finalContent();
  seen.finish = final.choices[0].finish_reason;
}

function takeCompletion(whole, seen) {
  const { message, finish_reason } = whole.choices[0];
  seen.text += message.content ?? "";
  seen.reasoning += message.reasoning_content ?? "";
  seen.finish = finish_reason;
  if (whole.usage) used(seen, whole.usage.prompt_tokens, whole.usage.completion_tokens);
  takeExtra(whole, seen);
  return (message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function }));
}

function takeExtra(said, seen) {
  seen.outcome = said.turnbuckle?.outcome ?? seen.outcome;
  const tool = said.turnbuckle?.tool;
  if (tool) seen.shown.push(`${tool.tool} ${tool.status}`);
}

const CHAT_ROUNDS = { plain: chatPlain, stream: chatStream, helper: chatHelper };

// An answer that must have a form, on either surface.
async function form(client, job, seen) {
  if (job.surface === "chat") {
    const messages = [{ role: "user", content: job.prompt }];
    const response_format = zodResponseFormat(Weather, "Weather");
    const whole = await client.chat.completions.parse({ model: job.model, messages, response_format });
    seen.text = JSON.stringify(whole.choices[0].message.parsed);
  } else {
    const text = { format: zodTextFormat(Weather, "Weather") };
    const whole = await client.responses.parse({ model: job.model, input: job.prompt, text });
    seen.text = JSON.stringify(whole.output_parsed);
  }
}

// Responses

async function responses(client, job, seen) {
  let asked = { model: job.model, input: job.prompt };
  if (job.tools) asked.tools = TOOLS.map((tool) => ({ type: "function", ...tool, strict: false }));
  let whole;
  for (let round = 0; round < ROUNDS; round++) {
    whole = await RESPONSE_ROUNDS[job.way](client, asked, seen);
    const fresh = takeResponse(whole, seen);
    if (!fresh.length) break;
    seen.calls.push(...fresh);
    const input = fresh.map((call) => ({
      type: "function_call_output",
      call_id: call.id,
      output: run(seen, call.name, JSON.parse(call.arguments)),
    }));
    asked = { ...asked, input, previous_response_id: whole.id };
  }
  if (job.then) {
    startOver(seen);
    asked = { ...asked, input: job.then, previous_response_id: whole.id };
    takeResponse(await RESPONSE_ROUNDS[job.way](client, asked, seen), seen);
  }
}

async function responsePlain(client, asked, seen) {
  const whole = await client.responses.create(asked);
  seen.text += whole.output_text;
  return whole;
}

async function responseStream(client, asked, seen) {
  let last = null;
  for await (const event of await client.responses.create({ ...asked, stream: true })) {
    takeEvent(event, seen);
    last = event.response ?? last;
  }
  return last;
}

async function responseHelper(client, asked, seen) {
  const stream = client.responses.stream(asked);
  stream.on("event", (event) => takeEvent(event, seen));
  const whole = await stream.finalResponse();
  seen.final = (seen.final ?? "") + whole.output_text;
  return whole;
}

// Leaves the stream of a background response behind its nth event, and reads the rest by its number.
async function resumed(client, job, seen) {
  let made = "";
  const stream = await client.responses.create({
    model: job.model,
    input: job.prompt,
    background: true,
    stream: true,
  });
  for await (const event of stream) {
    made = event.response?.id ?? made;
    takeEvent(event, seen);
    if (seen.numbers.length >= job.leave_after) break;
  }
  const after = seen.numbers.at(-1);
  for await (const event of await client.responses.retrieve(made, { stream: true, starting_after: after })) {
    takeEvent(event, seen);
  }
  const whole = await client.responses.retrieve(made);
  seen.final = whole.output_text;
  seen.calls.push(...takeResponse(whole, seen));
}

function takeEvent(event, seen) {
  seen.chunks += 1;
  if (event.type !== "response.in_progress" || event.sequence_number !== seen.numbers.at(-1)) {
    seen.numbers.push(event.sequence_number); // a sign of life repeats the last number
  }
  if (event.type === "response.output_text.delta") seen.text += event.delta;
  if (event.type === "response.reasoning_text.delta" || event.type === "response.reasoning_summary_text.delta") {
    seen.reasoning += event.delta;
  }
}

function takeResponse(whole, seen) {
  seen.finish = whole.status;
  const answered = new Set(whole.output.filter((item) => item.type === "function_call_output").map((item) => item.call_id));
  const calls = [];
  for (const item of whole.output) {
    if (item.type === "function_call" && !answered.has(item.call_id)) {
      calls.push({ id: item.call_id, name: item.name, arguments: item.arguments });
    } else if (item.type === "function_call" || item.type === "mcp_call") {
      seen.shown.push(`${item.name} ${item.status}`);
    }
  }
  if (whole.usage) used(seen, whole.usage.input_tokens, whole.usage.output_tokens);
  if (whole.error) {
    seen.error = { kind: "response.error", message: whole.error.message, status: null, code: whole.error.code };
  }
  seen.outcome = whole.turnbuckle?.outcome ?? seen.outcome;
  return calls;
}

const RESPONSE_ROUNDS = { plain: responsePlain, stream: responseStream, helper: responseHelper };
