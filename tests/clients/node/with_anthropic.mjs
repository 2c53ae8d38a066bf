// The official package of Anthropic for Node: one job from the command line, what was seen as JSON on the output.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

const { url, prompts } = JSON.parse(process.argv[2]);
const client = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
const asked = (prompt, more = {}) => ({ model: "lab", max_tokens: 9000, messages: [{ role: "user", content: prompt }], ...more });

const seen = {};
const plain = await client.messages.create(asked(prompts.happy));
seen.plain = plain.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const stream = client.messages.stream(asked(prompts.stall));
let streamed = "";
stream.on("text", (text) => (streamed += text));
const final = await stream.finalMessage();
seen.streamed = streamed;
seen.stop = final.stop_reason;
const kept = [];
const tool = betaTool({
  name: "keep_text",
  description: "Keep a text.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  run: ({ text }) => {
    kept.push(text);
    return "kept";
  },
});
const last = await client.beta.messages.toolRunner({ ...asked(prompts.long), tools: [tool], stream: false });
seen.kept = kept;
seen.last = last.content.filter((block) => block.type === "text").map((block) => block.text).join("");
seen.count = (await client.messages.countTokens({ model: "lab", messages: [{ role: "user", content: "hello" }] })).input_tokens;
seen.models = [];
for await (const model of client.models.list()) seen.models.push(model.id);
try {
  await client.messages.create(asked("hi", { model: "gone" }));
} catch (error) {
  seen.refused = [error.constructor.name, error.status, error.error?.error?.type];
}
console.log(JSON.stringify(seen));
