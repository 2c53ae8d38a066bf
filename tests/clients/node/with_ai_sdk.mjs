// The Vercel AI SDK, with its provider for compatible servers and its provider for OpenAI on both surfaces.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { failed, run, startOver, TOOLS, used, Weather } from "./seen.mjs";

function modelOf(job) {
  const access = { baseURL: job.base_url, apiKey: job.api_key };
  if (job.client === "ai-sdk-compatible") {
    return createOpenAICompatible({
      name: "turnbuckle",
      includeUsage: true,
      supportsStructuredOutputs: true,
      ...access,
    })(job.model);
  }
  const provider = createOpenAI(access);
  return job.surface === "chat" ? provider.chat(job.model) : provider.responses(job.model);
}

export async function ask(job, seen) {
  if (job.way === "form") {
    const output = Output.object({ schema: Weather, name: "Weather" });
    const made = await generateText({ model: modelOf(job), prompt: job.prompt, output });
    seen.text = JSON.stringify(made.output);
    return;
  }
  const own = TOOLS.map(({ name, description, parameters }) => [
    name,
    tool({ description, inputSchema: jsonSchema(parameters), execute: async (given) => run(seen, name, given) }),
  ]);
  const asked = {
    model: modelOf(job),
    stopWhen: stepCountIs(4),
    // Between its own tries it waits for seconds, whatever the server says about trying again.
    maxRetries: job.retries ?? 2,
    ...(job.tools ? { tools: Object.fromEntries(own) } : {}),
  };
  const turn = job.way === "plain" ? plain : stream;
  const messages = [{ role: "user", content: job.prompt }];
  const said = await turn({ ...asked, messages }, seen);
  if (job.then) {
    startOver(seen);
    await turn({ ...asked, messages: [...messages, ...said, { role: "user", content: job.then }] }, seen);
  }
}

async function plain(asked, seen) {
  const result = await generateText(asked);
  for (const step of result.steps) {
    seen.text += step.text;
    seen.reasoning += step.reasoningText ?? "";
    for (const part of step.content) takeCall(part, seen);
  }
  seen.finish = result.finishReason;
  const total = result.totalUsage ?? result.usage;
  used(seen, total.inputTokens, total.outputTokens);
  return result.responseMessages;
}

async function stream(asked, seen) {
  const result = streamText({ ...asked, onError: () => {} });
  for await (const part of result.fullStream) {
    seen.chunks += 1;
    if (part.type === "text-delta") seen.text += part.text;
    else if (part.type === "reasoning-delta") seen.reasoning += part.text;
    else if (part.type === "error") failed(seen, part.error);
    else if (part.type === "finish") {
      seen.finish = part.finishReason;
      used(seen, part.totalUsage?.inputTokens, part.totalUsage?.outputTokens);
    } else takeCall(part, seen);
  }
  if (seen.error !== null) return [];
  seen.final = (await result.steps).map((step) => step.text).join("");
  return result.responseMessages;
}

function takeCall(part, seen) {
  if (part.type === "tool-call" && part.providerExecuted) seen.shown.push(`${part.toolName} called`);
  else if (part.type === "tool-call") {
    seen.calls.push({ id: part.toolCallId, name: part.toolName, arguments: JSON.stringify(part.input) });
    if (!TOOLS.some((tool) => tool.name === part.toolName)) seen.ran.push(part.toolName);
  } else if (part.type === "tool-result" && part.providerExecuted) seen.shown.push(`${part.toolName} completed`);
}
