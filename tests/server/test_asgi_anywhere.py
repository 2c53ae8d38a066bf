"""The app behind somebody else's ASGI server: a real uvicorn, which knows nothing of us."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest
import uvicorn

from turnbuckle.asgi import AsgiApp
from turnbuckle.config import load

LINE = b'{"model": "agent", "messages": [{"role": "user", "content": "%b"}], "stream": %b}'


class Announced(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config):
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.ready.set()


def app_of(folder):
    loaded = load(folder=folder, changes={"data": str(folder / "data")}, environment={})
    return AsgiApp(loaded, {})


@asynccontextmanager
async def served(folder):
    config = uvicorn.Config(
        app_of(folder), port=0, log_config=None, lifespan="on", timeout_graceful_shutdown=5
    )
    server = Announced(config)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client
    finally:
        server.should_exit = True
        await serving


def asked(words, *, stream):
    body = LINE % (words.encode(), b"true" if stream else b"false")
    return {"data": body, "headers": {"content-type": "application/json"}}


@pytest.mark.realtime
@pytest.mark.requirement("F1")
def test_a_turn_is_streamed_and_told_plainly_and_is_there_after_a_restart(tmp_path):
    async def scenario():
        async with served(tmp_path) as client:
            async with client.post("/v1/chat/completions", **asked("say hello", stream=True)) as answer:
                streamed = (await answer.read()).decode()
                run = answer.headers["x-turnbuckle-run"]
            async with client.post("/v1/chat/completions", **asked("say hello", stream=False)) as answer:
                plain = await answer.json()
        async with served(tmp_path) as client, client.get(f"/v1/runs/{run}") as answer:
            return streamed, plain, await answer.json()

    streamed, plain, kept = asyncio.run(scenario())
    assert streamed.endswith("data: [DONE]\n\n")
    assert plain["choices"][0]["finish_reason"] == "stop"
    assert kept["status"] == "completed"


@pytest.mark.realtime
@pytest.mark.requirement("F7")
def test_a_client_that_leaves_ends_its_run_there_too(tmp_path):
    async def scenario():
        async with served(tmp_path) as client:
            wish = asked("write a.txt with 4000 lines slowly", stream=True)
            wish["headers"]["x-turnbuckle-on-disconnect"] = "cancel"
            answer = await client.post("/v1/chat/completions", **wish)
            run = answer.headers["x-turnbuckle-run"]
            await answer.content.readany()
            answer.close()
            async with client.get(f"/v1/runs/{run}/events") as events:
                await events.read()
            async with client.get(f"/v1/runs/{run}") as seen:
                return (await seen.json())["status"]

    assert asyncio.run(asyncio.wait_for(scenario(), 100)) == "cancelled"


@pytest.mark.requirement("E10")
def test_a_folder_that_another_process_has_is_told_by_the_start(tmp_path):
    said = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        said.append(message)

    async def scenario():
        async with served(tmp_path):
            await app_of(tmp_path)({"type": "lifespan"}, receive, send)

    asyncio.run(scenario())
    assert [message["type"] for message in said] == ["lifespan.startup.failed"]
    assert str(tmp_path / "data") in said[0]["message"]
