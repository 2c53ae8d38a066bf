// What the console's fold says of runs. Reads `{name: [event, …]}` from its input and writes what it made of each.

import { readFileSync } from "node:fs";

import { RunFold } from "../src/turnbuckle/console/static/run_fold.js";

const runs = JSON.parse(readFileSync(0, "utf8"));
const made = {};
for (const [name, events] of Object.entries(runs)) {
  const fold = new RunFold();
  for (const event of events) fold.take(event);
  const drawn = fold.segments.filter((one) => one.kind === "text" || one.kind === "refusal");
  made[name] = {
    text: fold.output,
    drawn: drawn.map((one) => one.pieces.join("")),
    outcome: fold.status,
    why: fold.outcome ? fold.outcome.why : "",
    notices: fold.notices.map((one) => one.text),
  };
}
process.stdout.write(JSON.stringify(made));
