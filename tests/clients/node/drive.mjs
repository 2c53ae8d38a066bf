// Runs Node clients by jobs: one JSON object for each line of input, and one line for each answer. A job names the
// client, the surface (chat or responses) and the way to ask; the answer is what a user of that client would see.

import { createInterface } from "node:readline";
import { failed, freshSeen } from "./seen.mjs";
import * as aiSdk from "./with_ai_sdk.mjs";
import * as openai from "./with_openai.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const ASK = { "openai-node": openai.ask, "ai-sdk-compatible": aiSdk.ask, "ai-sdk-openai": aiSdk.ask };
const PATIENCE = 90_000;

async function carryOut(job) {
  const seen = freshSeen();
  const began = performance.now();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${PATIENCE} ms`)), PATIENCE);
  });
  try {
    await Promise.race([ASK[job.client](job, seen), late]);
  } catch (error) {
    failed(seen, error);
  } finally {
    clearTimeout(timer);
  }
  return { ...seen, seconds: Math.round(performance.now() - began) / 1000 };
}

const say = (value) => process.stdout.write(JSON.stringify(value, (_, held) => held ?? null) + "\n");

say({ ready: Object.keys(ASK).sort() });
for await (const line of createInterface({ input: process.stdin })) say(await carryOut(JSON.parse(line)));
