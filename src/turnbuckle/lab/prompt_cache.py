"""A provider's prompt cache: how much of a request it has seen before, counted as the provider counts it.

A request is taken apart into the blocks in which a provider reads it: tools, system, then what was said.
OpenAI keeps whatever it was sent, and Gemini too; what is found again is the longest beginning that two
requests share, in steps of 128 tokens from 1,024 on. Anthropic keeps what is marked with `cache_control`, and
looks for it at each mark and at most 20 blocks before it. A token is four characters.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from turnbuckle.lab.script import LabRequest
from turnbuckle.vocab.events import Usage
from turnbuckle.wire.registry import PROTOCOLS

MARK = "cache_control"
_TOKEN = 4
_LEAST, _STEP = 1024, 128
_LOOKS_BACK = 20
_MOST_KEPT = 10_000
"""Beginnings that are remembered; then it forgets all, as caches do."""
_ORDER = ("tools", "system", "systemInstruction", "instructions", "messages", "input", "contents")
_INNER = ("content", "parts")


class PromptCache:
    """One provider's. `usage` is what it says of a request that made so many tokens of output."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # a beginning, and how many characters it has

    def usage(self, request: LabRequest, output: int = 0) -> Usage:
        """What it counts for this request, which it remembers from here on."""
        marked = bool(PROTOCOLS[request.protocol].rules.cache_mark)
        beginnings: list[tuple[int, int, bool]] = []
        number, characters = hash(request.model), 0
        for block, mark in blocks(request.body):
            number, characters = hash((number, block)), characters + len(block)
            beginnings.append((number, characters, mark))
        found = self._found(beginnings, marked)
        kept = [(number, size) for number, size, mark in beginnings if mark or not marked]
        if len(self._seen) > _MOST_KEPT:
            self._seen.clear()
        self._seen.update(kept)
        cached, whole = found // _TOKEN, characters // _TOKEN
        if not marked:
            cached = cached // _STEP * _STEP if cached >= _LEAST else 0
            return Usage(whole, output, cached)
        written = max((size // _TOKEN for _, size in kept), default=0) - cached
        return Usage(whole, output, cached, max(written, 0))

    def _found(self, beginnings: list[tuple[int, int, bool]], marked: bool) -> int:
        places = range(len(beginnings))
        if marked:
            marks = [place for place in places if beginnings[place][2]]
            near = {place - back for place in marks for back in range(_LOOKS_BACK + 1)}
            places = [place for place in places if place in near]  # type: ignore[assignment]
        return max((self._seen.get(beginnings[place][0], 0) for place in places), default=0)


def blocks(body: dict[str, Any]) -> Iterator[tuple[bytes, bool]]:
    """The blocks of a request in the order in which they are read, and whether each is marked."""
    for name in _ORDER:
        said = body.get(name)
        for one in said if isinstance(said, list) else [] if said is None else [said]:
            inner = next(
                (key for key in _INNER if isinstance(one, dict) and isinstance(one.get(key), list)), ""
            )
            if not inner:
                yield _block(one)
                continue
            yield _block({key: value for key, value in one.items() if key != inner})
            yield from (_block(part) for part in one[inner])


def _block(value: Any) -> tuple[bytes, bool]:
    if not isinstance(value, dict):
        return msgspec.json.encode(value), False
    return msgspec.json.encode({key: item for key, item in value.items() if key != MARK}), MARK in value
