/** What can be done to a session, from the list and from its own page. */

import { newName } from "./api.js";
import { routesOf } from "./composer.js";
import { confirmed, prompted } from "./dialogs.js";
import { el } from "./elements.js";
import { sessionMarkdown } from "./session_markdown.js";

const NOTHING_TO_RETRY = "There is no message to retry.";
const UNDONE = {
  nothing: "There is nothing to undo.",
  undone: "Undone: the last message and its answer. What tools did stays done.",
  compaction_undone: "Undone: the model gets the full history again, as far as it fits.",
};
const CONTINUE = "Asks the model to continue. It knows what is already done.";
const RETRY = "Sends the last message again, as if it had not been answered. What tools did stays done.";
const RETRY_ON = "Sends the last message again, on another route";
const LONGEST_TITLE = 200; // the server's own limit

/** @param {import("./main.js").Shell} shell @param {{id: string, title: string}} session */
export function sessionEntries(shell, session) {
  const path = `/v1/sessions/${encodeURIComponent(session.id)}`;
  const act = (work) => () => void shell.perform(work);
  return [
    { text: "Rename", act: act(() => rename(shell, session, path)) },
    { text: "Fork", act: act(() => fork(shell, session, path)) },
    { text: "Retry the last message", act: act(() => retry(shell, session, path)) },
    { text: "Take back the last message", act: act(() => undo(shell, path)) },
    { text: "Start a new conversation", act: act(() => anew(shell, path)) },
    { text: "Export as Markdown", act: act(() => saveMarkdown(shell, session, path)) },
    { text: "Export", act: act(() => save(shell, session, path)) },
    { text: "Delete", danger: true, act: act(() => remove(shell, session, path)) },
  ];
}

/** What can be tried where the last run of a session came to nothing, for its card. `retry` takes a route, or none.
 * @param {string[]} models @param {() => Promise<void>} goOn @param {(route?: string) => Promise<void>} retry */
export function againEntries(models, goOn, retry) {
  const routes = routesOf(models);
  const others = (asked) => routes.filter((one) => one !== asked).map((one) => ({ text: one, act: () => retry(one) }));
  return [
    { words: "Continue", title: CONTINUE, act: () => goOn() },
    { words: "Retry", title: RETRY, act: () => retry() },
    ...(routes.length > 1 ? [{ words: "Retry on…", title: RETRY_ON, choices: others }] : []),
  ];
}

/** Retry what began the last run of a session. The key is made of the run's name: however often it is clicked, and in
 * however many windows, it is done once. False if there is nothing to retry, which is said. */
export async function retryRun(shell, path, run, route = "") {
  const key = { "idempotency-key": route ? `retry-${run}-${encodeURIComponent(route)}` : `retry-${run}` };
  const done = await shell.api.ask("POST", `${path}/retry`, route ? { route } : undefined, key);
  if (done.did === "nothing") shell.say(NOTHING_TO_RETRY);
  return done.did !== "nothing";
}

/** What asks the model to go on behind a run, once. */
export function goOnLetter(run) {
  return { text: "Continue.", key: `continue-${run}`, files: [] };
}

async function rename(shell, session, path) {
  const question = { title: "Rename the session", label: "Title", value: session.title, yes: "Rename" };
  const title = await prompted({ ...question, most: LONGEST_TITLE });
  if (title === null || title.trim() === session.title) return;
  await shell.api.ask("PATCH", path, { title: title.trim() });
}

async function fork(shell, session, path) {
  const title = `${session.title || session.id} (fork)`.slice(0, LONGEST_TITLE);
  const made = await shell.api.ask("POST", `${path}/fork`, { title }, { "idempotency-key": newName("c") });
  shell.go({ page: "session", id: made.id });
  shell.say("This is a fork: it shares the conversation so far, and continues separately.");
}

async function retry(shell, session, path) {
  const done = await shell.api.ask("POST", `${path}/retry`, undefined, { "idempotency-key": newName("c") });
  if (done.did === "nothing") shell.say(NOTHING_TO_RETRY);
  else shell.go({ page: "session", id: session.id });
}

async function undo(shell, path) {
  const done = await shell.api.ask("POST", `${path}/undo`);
  shell.say(UNDONE[done.did] || UNDONE.undone);
}

async function anew(shell, path) {
  await shell.api.ask("POST", `${path}/new`);
  shell.say("The next message starts a new conversation. Earlier messages are kept.");
}

async function save(shell, session, path) {
  offer(`${session.id}.jsonl`, await shell.api.download(`${path}/export`));
}

/** What was said and done, as a text that people read. */
async function saveMarkdown(shell, session, path) {
  const messages = await shell.api.every(`${path}/messages?limit=100`);
  const text = sessionMarkdown(session.title || session.id, messages);
  offer(`${session.id}.md`, new Blob([text], { type: "text/markdown;charset=utf-8" }));
}

function offer(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser has taken it by then
}

async function remove(shell, session, path) {
  const yes = await confirmed({
    title: "Delete the session?",
    text: `“${session.title || session.id}” and its runs are deleted forever. Files that tools wrote stay.`,
    yes: "Delete",
  });
  if (!yes) return;
  await shell.api.ask("DELETE", path);
  shell.left(session.id);
  shell.say("The session is deleted.");
}
