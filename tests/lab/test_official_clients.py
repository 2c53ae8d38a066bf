"""Anybody's client can be pointed at the lab; here the official ones, over real sockets."""

import asyncio

import anthropic
import openai
import pytest

from turnbuckle.lab.provider import Provider
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

ANSWER = "A turnbuckle joins two ropes and takes up their slack, so that the line holds when the wind pulls."


async def _stream(provider: Provider, protocol: ProtocolName, model: str) -> str:
    """The text that the official client shows for one streamed reply."""
    ask = "What is a turnbuckle?"
    if protocol == "anthropic":
        claude = anthropic.AsyncAnthropic(api_key="any", base_url=provider.url, max_retries=0)
        asked = claude.messages.stream(
            model=model, max_tokens=100, messages=[{"role": "user", "content": ask}]
        )
        async with claude, asked as stream:
            return "".join([text async for text in stream.text_stream])
    pieces: list[str] = []
    async with openai.AsyncOpenAI(api_key="any", base_url=provider.url + "/v1", max_retries=0) as client:
        if protocol == "openai_responses":
            async for event in await client.responses.create(model=model, input=ask, stream=True):
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
        else:
            async for chunk in await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": ask}], stream=True
            ):
                pieces += [choice.delta.content or "" for choice in chunk.choices]
    return "".join(pieces)


def _shown(protocol: ProtocolName, model: str) -> str:
    async def main() -> str:
        async with Provider() as provider:
            return await _stream(provider, protocol, model)

    return asyncio.run(main())


@pytest.mark.requirement("H4")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("model", ["lab:happy", "lab:byte-by-byte"])
def test_an_official_client_reads_a_whole_reply(protocol: ProtocolName, model: str) -> None:
    assert _shown(protocol, model).startswith(ANSWER)


@pytest.mark.requirement("H4")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_an_official_client_meets_the_failure_that_the_case_names(protocol: ProtocolName) -> None:
    limited = (openai.RateLimitError, anthropic.RateLimitError)
    with pytest.raises(limited) as caught:
        _shown(protocol, "lab:rate-limited")
    assert "slow down" in str(caught.value)


@pytest.mark.requirement("H4")
def test_official_clients_list_the_cases_as_models() -> None:
    async def main() -> tuple[set[str], set[str]]:
        async with (
            Provider() as provider,
            openai.AsyncOpenAI(api_key="any", base_url=provider.url + "/v1") as client,
            anthropic.AsyncAnthropic(api_key="any", base_url=provider.url) as claude,
        ):
            return {model.id async for model in client.models.list()}, {
                model.id async for model in claude.models.list()
            }

    theirs, ours = asyncio.run(main())
    assert "lab:reset-in-text" in theirs
    assert theirs == ours
