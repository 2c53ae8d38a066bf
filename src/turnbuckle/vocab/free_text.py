"""Calls whose input is text of any kind. Inside the house their arguments are an object with that one text,
so that they are judged, kept as drafts, finished and told to any provider like all others; only where a
protocol knows such calls are they written as what they are."""

import msgspec

from turnbuckle.vocab.arguments import judge

INPUT = "input"
OPENING = f'{{"{INPUT}":"'
CLOSING = '"}'


def escaped(text: str) -> str:
    """Text as it stands inside a JSON string."""
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()[1:-1]


def wrapped(text: str) -> str:
    """The input of a call as arguments."""
    return f"{OPENING}{escaped(text)}{CLOSING}"


def unwrapped(arguments: str) -> str:
    """The input that arguments hold; what was never wrapped is the input itself."""
    value = judge(arguments).value if arguments.lstrip().startswith("{") else None
    found = value.get(INPUT) if value is not None and len(value) == 1 else None
    return found if isinstance(found, str) else arguments
