"""What is there already: keys in the environment, model servers on this machine, and the models of a
provider."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from turnbuckle.call.pool import proxy_for
from turnbuckle.call.presets import PRESETS, Preset
from turnbuckle.call.routes import Route, is_local
from turnbuckle.call.transport import from_exception
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.wire import failures
from turnbuckle.wire.registry import PROTOCOLS

PATIENCE = 15.0
LOOK = 0.7
"""Seconds for a server on this machine to list its models: it does so from memory."""
MOST = 8 << 20  # bytes of a list of models; the longest that providers send have one or two million
_NO_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|moderation|image|audio|realtime|rerank|transcri|speech|sora|veo|imagen|guard|ocr|davinci"
    r"|babbage|clip",
    re.I,
)


class FoundProvider(Struct, frozen=True):
    """A provider that could be used right away: by a key in the environment, or because it answers on this
    machine."""

    preset: str
    why: str
    models: tuple[str, ...] = ()


def keys_found(
    environment: Mapping[str, str], presets: Mapping[str, Preset] = PRESETS
) -> list[FoundProvider]:
    """The providers whose usual variable holds a key. A local server with a key set counts only if it
    answers."""
    seen: set[str] = set()
    found = []
    for name, preset in presets.items():
        if preset.key in seen or not preset.base_url or is_local(preset.base_url):
            continue  # two presets of one provider are told once
        if environment.get(preset.key, "").strip():
            seen.add(preset.key)
            found.append(FoundProvider(name, f"key in {preset.key}"))
    return found


async def servers_found(presets: Mapping[str, Preset] = PRESETS) -> list[FoundProvider]:
    """The model servers that answer on this machine, at their usual ports. They are shown no key."""
    local = {name: preset for name, preset in presets.items() if is_local(preset.base_url or "http://x.y")}

    async def look(name: str, preset: Preset) -> FoundProvider | None:
        listed = await models_at(preset.base_url, {}, seconds=LOOK)
        if isinstance(listed, Failure):
            return None
        count = f"{len(listed)} model{'' if len(listed) == 1 else 's'}"
        return FoundProvider(name, f"answers at {preset.base_url}, {count}", listed)

    looked = await asyncio.gather(*(look(name, preset) for name, preset in local.items()))
    return [found for found in looked if found is not None]


async def models_of(route: Route) -> tuple[str, ...] | Failure:
    """The models that a provider lists, the newest first where it says when they came."""
    headers = {**PROTOCOLS[route.protocol].headers(route.api_key.reveal(), route.quirks), **route.headers}
    return await models_at(route.base_url, headers)


async def models_at(
    base_url: str, headers: dict[str, str], seconds: float = PATIENCE
) -> tuple[str, ...] | Failure:
    """The models listed under an address, or why there is no list."""
    url = f"{base_url}/models"
    proxy, credentials = proxy_for(url)
    headers = {**headers, "accept": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(seconds), cookie_jar=aiohttp.DummyCookieJar()
            ) as client,
            client.get(
                url,
                headers=headers,
                allow_redirects=False,
                proxy=proxy,
                proxy_headers=credentials,
                params=_ALL,
            ) as answer,
        ):
            body = await answer.content.read(MOST)
            if answer.status >= 300:
                named = {name.lower(): value for name, value in answer.headers.items()}
                return failures.from_response(answer.status, named, body)
    except TimeoutError:
        return failure("stalled", f"no list of models within {seconds:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return from_exception(error)
    return _listed(body)


_ALL = {"limit": "1000"}  # Anthropic lists 20 unless told otherwise; the others do not mind


def _listed(body: bytes) -> tuple[str, ...] | Failure:
    try:
        document: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return failure("garbage", "the list of models is not JSON")
    rows = document.get("data", document.get("models")) if isinstance(document, dict) else document
    if not isinstance(rows, list):
        return failure("garbage", "the list of models is not a list")
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str) and row["id"]]
    if all(isinstance(row.get("created"), int | float) for row in named):
        named.sort(key=lambda row: -float(row["created"]))
    return tuple(row["id"] for row in named)


def for_chat(models: tuple[str, ...]) -> tuple[str, ...]:
    """Without those whose names say that they do something else; all of them if none is left."""
    return tuple(model for model in models if not _NO_CHAT.search(model)) or models
