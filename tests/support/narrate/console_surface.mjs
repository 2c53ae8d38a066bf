// What the console's fold says of runs. Reads `{name: [event, …]}` from its input and writes what it made of each.

import { readFileSync } from "node:fs";

import { RunModel } from "../../../src/turnbuckle/console/static/run_model.js";

const runs = JSON.parse(readFileSync(0, "utf8"));
const made = {};
for (const [name, events] of Object.entries(runs)) {
  const fold = new RunModel();
  const ends = [];
  for (const event of events) {
    fold.take(event);
    for (const one of event.told)
      if (one.type === "tool_ended" && one.began !== false) ends.push([one.tool, one.outcome.status]);
  }
  const drawn = fold.segments.filter((one) => one.kind === "text" || one.kind === "refusal");
  made[name] = {
    text: fold.output,
    drawn: drawn.map((one) => one.pieces.join("")),
    outcome: fold.status,
    why: fold.outcome ? fold.outcome.why : "",
    tools: ends,
    notices: fold.notices.map((one) => one.text),
  };
}
process.stdout.write(JSON.stringify(made));
