"""How full the window is, and when it is too full: pure, and the same for every surface.

What the next request takes is what the provider counted last, and an estimate for what came since. The
estimate is a quarter of the bytes, corrected by how wrong it was the last time. Before anybody has
counted, all of it is estimated.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from turnbuckle.turn.compaction import Measure
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.request import ToolSpec

BYTES_PER_TOKEN = 4
_PER_MESSAGE = 4
_PER_CALL = 12
_IMAGE = 1_200
"""Tokens of a picture, as most providers count one of usual size."""
_LOW_DETAIL = 100
_DOCUMENT = 40
"""Characters of a document's content (base64) for a token of it: a page is some 2,500 tokens, and 100,000
characters. No provider takes more pages than are `_LONGEST_DOCUMENT`."""
_LONGEST_DOCUMENT = 100_000
_DATA = 4 * _IMAGE
"""A word of more characters than this is not a word but data, such as a picture, and weighs as one."""
_LEAST_RATIO, _MOST_RATIO = 0.4, 4.0
_UNKNOWN_SHARE = 0.9
"""Of a request that was refused as too large, so much is taken to be the window where nobody names it."""
_GOAL = 0.6
"""A step of a compaction is enough if it leaves no more than this part of what may be used."""
_MOST = 0.95
_TAIL = 0.3
_RESULTS = 0.25


class WindowRoom(Struct, frozen=True):
    """How much there is. `limit`: above so many tokens the history is made smaller; `goal`: and not to
    more than this; `tail`: so much of its end stays as it is; `results`: so much of the newest results
    does. `most`: so many may be sent where nothing can be made smaller. `was_refused`: its provider has
    said no to a request of this turn."""

    window: int
    limit: int
    goal: int
    tail: int
    results: int
    most: int
    was_refused: bool = False


def room_of(window: int | None, refused: int, threshold: float, cap: int | None) -> WindowRoom | None:
    """The room of a route. `refused` is the size of a request that was too large, 0 if none was. None: nobody
    knows how large the window is, and nothing was refused."""
    known = [size for size in (window, int(refused * _UNKNOWN_SHARE)) if size]
    if not known:
        return None
    size = min(known)
    answer = min(cap or 0, size // 2)
    limit = max(min(int(size * threshold), size - answer), 1)
    most = max(limit, min(int(size * _MOST), size - answer))
    goal, tail, results = int(limit * _GOAL), int(limit * _TAIL), int(limit * _RESULTS)
    return WindowRoom(size, limit, goal, tail, results, most, was_refused=refused > 0)


def expected(guessed: int, messages: tuple[Message, ...], measure: Measure | None, model: str) -> int:
    """The tokens of the next request. `guessed` is what its messages and tools take by length alone."""
    if measure is None:
        return guessed
    if measure.model and measure.model != model:
        return int(guessed * measure.ratio)
    new = messages[max(len(messages) - measure.left, 0) :]
    return measure.tokens + int(estimate(new) * measure.ratio)


def corrected(reported: int, guessed: int) -> float:
    """By how much an estimate was wrong, within reason."""
    return min(max(reported / guessed, _LEAST_RATIO), _MOST_RATIO) if guessed else 1.0


def estimate(messages: Iterable[Message]) -> int:
    """The tokens of messages, as far as their length tells."""
    return sum([_PER_MESSAGE + sum(map(tokens_of_part, message.parts)) for message in messages])


def tokens_of_part(part: Part) -> int:
    match part:
        case TextPart(text):
            return tokens_of_text(text)
        case CallPart(_, name, arguments):
            return _PER_CALL + tokens_of_text(name) + tokens_of_text(arguments)
        case ResultPart(_, content):
            return _PER_CALL + sum(map(tokens_of_part, content))
        case ReasoningPart(text, state):
            return tokens_of_text(text) + (0 if text or state is None else _size_of(state.data))
        case OpaquePart(state):
            return _size_of(_without_data(state.data))
        case ImagePart(detail=detail):
            return _LOW_DETAIL if detail == "low" else _IMAGE
        case FilePart(data=data, media_type=media_type) if media_type.startswith("text/"):
            return len(data) * 3 // (4 * BYTES_PER_TOKEN)
        case FilePart(data=data):
            return _IMAGE + min(len(data) // _DOCUMENT, _LONGEST_DOCUMENT)
        case _:
            return tokens_of_text(part.text)


def unsure(messages: Iterable[Message]) -> int:
    """How much of an estimate is a guess about pictures and documents: only their provider can weigh them."""
    return sum(_unsure_of(part) for message in messages for part in message.parts)


def _unsure_of(part: Part) -> int:
    if isinstance(part, ResultPart):
        return sum(map(_unsure_of, part.content))
    return tokens_of_part(part) if isinstance(part, (ImagePart, FilePart, OpaquePart)) else 0


def _without_data(value: object) -> object:
    """A value with its data as short as a picture is light."""
    if isinstance(value, str):
        return value if len(value) <= _DATA or " " in value[:_DATA] else value[:_DATA]
    if isinstance(value, dict):
        return {name: _without_data(inner) for name, inner in value.items()}
    return [_without_data(inner) for inner in value] if isinstance(value, list) else value


def tokens_of_text(text: str) -> int:
    """A quarter of its bytes: a token of English is four letters, one of Chinese about a character."""
    return -(-(len(text) if text.isascii() else len(text.encode("utf-8", "replace"))) // BYTES_PER_TOKEN)


def tokens_of_tools(tools: tuple[ToolSpec, ...]) -> int:
    return sum(
        _PER_CALL + tokens_of_text(tool.name) + tokens_of_text(tool.description) + _size_of(tool.parameters)
        for tool in tools
    )


def _size_of(data: object) -> int:
    return -(-len(msgspec.json.encode(data)) // BYTES_PER_TOKEN)


def told(used: int, window: int | None) -> str:
    """Used and window for people."""
    if window is None:
        return f"{used:,} tokens, of how many is not known"
    return f"{used:,} of {window:,} tokens ({used * 100 // window} %)"
