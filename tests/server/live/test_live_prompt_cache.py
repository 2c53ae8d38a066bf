"""The agent's requests are made for prompt caches: each begins with the one before, and says so where it must be said."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.prompt_cache import PromptCache
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

ROUNDS = 8
SAID = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}
FIXED = ("tools", "system", "instructions", "systemInstruction", "model")


def diligent(request: LabRequest) -> Iterable[ScriptItem]:
    if request.number % (ROUNDS + 1) == 0:
        return (Say("Done."), Finish())
    return (
        Say("Next."),
        Call("write_file", {"path": f"{request.number}.txt", "content": "x"}),
        Finish("calls"),
    )


def marks(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "cache_control" in value:
            yield value
        for inner in value.values():
            yield from marks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from marks(inner)


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


async def two_turns(server: LiveServer) -> list[dict[str, Any]]:
    for text in ("Look around.", "Look again."):
        body = {"model": "agent", "messages": [{"role": "user", "content": text}]}
        reply = await server.post("/v1/chat/completions", body, x_turnbuckle_session="s")
        assert reply.status == 200, reply.body
    return [request.body for request in server.lab.requests]


@pytest.mark.requirement("I7")
@pytest.mark.parametrize("protocol", SAID)
def test_each_request_of_a_long_run_begins_with_the_one_before(tmp_path: Path, protocol: str) -> None:
    bodies = run_scenario(two_turns, tmp_path, diligent, protocol=protocol, tools='enable = ["files"]')
    assert len(bodies) == 2 * (ROUNDS + 1)
    for before, after in pairwise(bodies):
        for name in FIXED:
            assert unmarked(before.get(name)) == unmarked(after.get(name))
        said, more = (unmarked(body[SAID[protocol]]) for body in (before, after))
        if protocol in ("anthropic", "gemini"):  # what the user says behind results stands in their message
            assert more[: len(said) - 1] == said[:-1]
            inner = "content" if protocol == "anthropic" else "parts"
            assert more[len(said) - 1][inner][: len(said[-1][inner])] == said[-1][inner]
        else:
            assert more[: len(said)] == said


@pytest.mark.requirement("I7")
def test_the_agent_marks_what_a_messages_provider_may_keep_and_a_relay_marks_nothing(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        bodies = await two_turns(server)
        body = {"model": "lab", "messages": [{"role": "user", "content": "Hi."}]}
        await server.post("/v1/chat/completions", body)
        return bodies, server.lab.requests[-1].body

    bodies, relayed = run_scenario(scenario, tmp_path, diligent, protocol="anthropic")
    assert list(marks(relayed)) == []
    for body in bodies:
        assert 2 < len(list(marks(body))) <= 4
        assert "cache_control" in body["tools"][-1]
        assert "cache_control" in body["system"][-1]
        assert "cache_control" in body["messages"][-1]["content"][-1]


class CachingModel:
    """Looks at large files, behind a provider that counts what it has seen before."""

    def __init__(self) -> None:
        self.cache = PromptCache()

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        usage = self.cache.usage(request, output=20)
        if request.number == ROUNDS + 1:
            return (Say("Done."), Finish(usage=usage))
        content = f"{request.number} " * 800
        return (
            Say("Next."),
            Call("write_file", {"path": "x", "content": content}),
            Finish("calls", usage=usage),
        )


@pytest.mark.requirement("I7")
@pytest.mark.parametrize("protocol", SAID)
def test_a_caching_provider_finds_most_of_a_long_run_and_every_surface_says_so(
    tmp_path: Path, protocol: str
) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {"model": "agent", "messages": [{"role": "user", "content": "Look around."}]}
        reply = await server.post("/v1/chat/completions", body)
        counted = reply.json["usage"]
        cached = counted["prompt_tokens_details"]["cached_tokens"]
        assert cached > 0.6 * counted["prompt_tokens"]
        run = await server.run(reply.headers["x-turnbuckle-run"])
        assert (run["usage"]["input"], run["usage"]["cached"]) == (counted["prompt_tokens"], cached)
        assert run["spent"]["cached_tokens"] == cached
        written = run["usage"]["cache_written"]
        assert written == run["spent"].get("cache_written_tokens", 0)
        assert written == counted["prompt_tokens_details"].get("cache_write_tokens", 0)
        assert (written > 0) == (protocol == "anthropic")
        assert cached + written <= counted["prompt_tokens"]
        metrics = (await server.get("/metrics")).body.decode()
        assert f'turnbuckle_tokens_total{{direction="cached"}} {float(cached)}' in metrics
        assert f'turnbuckle_tokens_total{{direction="cache_written"}} {float(written)}' in metrics
        # At the price of the settings, what came from the cache costs a tenth.
        plain = counted["prompt_tokens"] - cached - written
        cost = (plain * 10 + cached * 1 + written * 12 + counted["completion_tokens"] * 50) / 1e6
        assert run["spent"]["cost"] == pytest.approx(cost)

    price = "price = { input = 10, cached = 1, cache_written = 12, output = 50 }"
    run_scenario(
        scenario, tmp_path, CachingModel(), protocol=protocol, tools='enable = ["files"]', route=price
    )
