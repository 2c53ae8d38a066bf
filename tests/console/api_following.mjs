// A reader of a run comes back behind what it has, whatever cuts it off; every answer of the server has its meaning.
import assert from "node:assert/strict";
import test from "node:test";

globalThis.document = Object.assign(new EventTarget(), { visibilityState: "visible", hidden: false });
globalThis.window = new EventTarget();
const { Api } = await import("../../src/turnbuckle/console/static/api.js");

const FACTS = ["run_started", "streamed", "heartbeat", "streamed", "run_ended"];
const FRAMES = FACTS.map((name, at) => {
  const id = name === "heartbeat" ? "" : `id: ${at + 1}\n`;
  return `: keepalive\n\n${id}event: ${name}\ndata: {"type":"${name}","n":${at + 1},"at":1}\n\n`;
});
const json = (status, body, headers = {}) => new Response(JSON.stringify(body), { status, headers });
const refusal = (status, message) => json(status, { error: { message, code: "x" } });

/** The server as a list of answers, each a function of the address; what was asked is kept. It is always well. */
function serving(answers) {
  const asked = [];
  globalThis.fetch = async (address, { method = "GET", headers = {}, body, signal } = {}) => {
    signal?.throwIfAborted();
    if (address === "/healthz") return json(200, {});
    asked.push({ address, method, headers, body });
    const answer = answers.shift();
    if (!answer) throw new TypeError("no route to the server");
    return answer(address);
  };
  return asked;
}

/** The rest of the run behind the cursor of an address, cut off after so many characters. */
function stream(address, most = Infinity) {
  const after = Number(/after=(\d+)/.exec(address)[1]);
  const text = FRAMES.filter((_, at) => at + 1 > after).join("").slice(0, most);
  return new Response(new Blob([text]).stream(), { status: 200 });
}

/** Follow until it is over. Whoever waits to come back is woken at once. */
function followed(api, after = 0) {
  const events = [];
  const states = [];
  return new Promise((resolve) => {
    const state = (word, detail) => {
      states.push(word);
      if (word === "lost") setTimeout(() => window.dispatchEvent(new Event("online")));
      if (word === "ended" || word === "refused") resolve({ events, states, detail });
    };
    api.follow("r1", after, { event: (name, data, id) => events.push([name, data.n, id]), state });
  });
}

const told = ({ events }) => events.filter(([name]) => name !== "heartbeat").map(([, number]) => number);

test("a run that is read in one go is told once and ends", async () => {
  const asked = serving([(address) => stream(address)]);
  const read = await followed(new Api("secret"));
  assert.deepEqual(told(read), [1, 2, 4, 5]);
  assert.deepEqual(read.states, ["connecting", "open", "ended"]);
  assert.deepEqual(read.events[2], ["heartbeat", 3, 0]); // it is no place to come back to
  assert.equal(asked[0].headers.authorization, "Bearer secret");
  assert.ok(!asked[0].address.includes("secret"));
});

test("a stream that is cut at any character loses nothing and tells nothing twice", async () => {
  for (let most = 0; most < FRAMES.join("").length; most += 1) {
    serving([(address) => stream(address, most), (address) => stream(address)]);
    const read = await followed(new Api());
    assert.deepEqual(told(read), [1, 2, 4, 5], `cut after ${most}`);
    assert.deepEqual(read.states, ["connecting", "open", "lost", "connecting", "open", "ended"], `cut after ${most}`);
  }
});

test("a server that is away, busy or stopping is asked again", async () => {
  const away = () => {
    throw new TypeError("refused");
  };
  const busy = () => refusal(503, "the server is stopping");
  const gateway = () => new Response("<h1>Bad gateway</h1>", { status: 502 });
  for (const answer of [away, busy, gateway]) {
    serving([answer, (address) => stream(address)]);
    const read = await followed(new Api());
    assert.deepEqual(told(read), [1, 2, 4, 5]);
    assert.deepEqual(read.states, ["connecting", "lost", "connecting", "open", "ended"]);
  }
});

test("a refusal is told as the server's sentence and not tried again", async () => {
  const asked = serving([() => refusal(404, "there is no run 'r1'")]);
  const read = await followed(new Api());
  assert.deepEqual([read.states, read.detail, asked.length], [["connecting", "refused"], "There is no run 'r1'.", 1]);
});

test("a reader that has more than is left of the run is told to forget it, and reads again from the first event", async () => {
  const error = { message: "there is no event 9 in this run", code: "x", param: "after" };
  const asked = serving([() => json(400, { error }), (address) => stream(address)]);
  const read = await followed(new Api(), 9);
  assert.equal(read.events[0][0], "reset");
  assert.deepEqual(told(read).slice(1), [1, 2, 4, 5]);
  assert.deepEqual(asked.map(({ address }) => /after=(\d+)/.exec(address)[1]), ["9", "0"]);
});

test("a reader that needs a key says so", async () => {
  serving([() => refusal(401, "a key is needed")]);
  const api = new Api();
  const wanted = [];
  api.addEventListener("login", ({ detail }) => wanted.push(detail));
  const read = await followed(api);
  assert.deepEqual([read.states.at(-1), wanted, api.locked], ["refused", ["A key is needed."], true]);
});

test("a reader that was closed is told nothing more", async () => {
  serving([(address) => stream(address)]);
  const heard = [];
  const following = new Api().follow("r1", 0, {
    event: (name) => {
      heard.push(name);
      following.close();
    },
    state: (word) => heard.push(word),
  });
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(heard, ["connecting", "open", "run_started"]);
});

test("one who begins behind an event gets only what follows", async () => {
  serving([(address) => stream(address)]);
  assert.deepEqual(told(await followed(new Api(), 2)), [4, 5]);
});

test("an answer is its JSON, and a change is told to the page", async () => {
  const nothing = () => new Response(null, { status: 204 });
  const asked = serving([() => json(200, { a: 1 }), () => json(202, { b: 2 }), nothing]);
  const api = new Api();
  const changes = [];
  api.addEventListener("changed", ({ detail }) => changes.push(detail));
  assert.deepEqual(await api.ask("GET", "/v1/x"), { a: 1 });
  assert.deepEqual(await api.ask("POST", "/v1/y", { say: "é" }, { "idempotency-key": "k" }), { b: 2 });
  assert.equal(await api.ask("DELETE", "/v1/z"), null);
  assert.deepEqual(changes, [{ method: "POST", path: "/v1/y" }, { method: "DELETE", path: "/v1/z" }]);
  assert.deepEqual(asked[1].headers, { "idempotency-key": "k", "content-type": "application/json" });
  assert.equal(asked[1].body, '{"say":"é"}');
  assert.deepEqual([asked[0].body, asked[0].headers], [undefined, {}]);
});

test("a refused change is a problem and changes nothing", async () => {
  const error = { message: "it is taken", code: "session_exists", param: "id" };
  serving([() => json(409, { error }, { "retry-after": "3" })]);
  const api = new Api();
  api.addEventListener("changed", () => assert.fail("nothing has changed"));
  await assert.rejects(api.ask("POST", "/v1/x", {}), {
    name: "ApiProblem",
    message: "It is taken.",
    status: 409,
    code: "session_exists",
    param: "id",
    retryAfter: 3,
    lost: false,
  });
});

test("a server that cannot be reached is looked for until it answers", async () => {
  const asked = [];
  globalThis.fetch = () => Promise.reject(new TypeError("no route to the server"));
  const api = new Api();
  const told = [];
  api.addEventListener("lost", () => told.push("lost"));
  const back = new Promise((resolve) => api.addEventListener("back", resolve, { once: true }));
  await assert.rejects(api.ask("GET", "/v1/x"), { name: "ApiProblem", status: 0, lost: true });
  await assert.rejects(api.ask("GET", "/v1/y"), { lost: true });
  assert.deepEqual([told, api.isLost], [["lost"], true]);
  globalThis.fetch = async (address) => {
    asked.push({ address });
    return json(200, {});
  };
  window.dispatchEvent(new Event("online"));
  await back;
  assert.deepEqual([api.isLost, asked.at(-1).address], [false, "/healthz"]);
});
