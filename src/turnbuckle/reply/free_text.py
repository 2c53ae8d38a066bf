"""Turns the free text of some tools' calls into arguments, event by event, so that nothing behind it must
know of such calls. A cut leaves the object open, and so the call a draft like any other."""

from collections.abc import Sequence

from turnbuckle.vocab.events import CallArgs, CallClosed, CallNamed, CallRewritten, CallStarted, Event
from turnbuckle.vocab.free_text import CLOSING, OPENING, escaped, wrapped


class FreeTextCalls:
    """One attempt's. `names` are the tools whose calls this provider sends as plain text."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._open: set[int] = set()
        self._half: dict[int, str] = {}  # of a character that came in two pieces

    def take(self, events: list[Event]) -> list[Event]:
        if not self._names:
            return events
        return [made for event in events for made in self._turned(event)]

    def _turned(self, event: Event) -> Sequence[Event]:
        match event:
            case CallStarted(block, _, name) | CallNamed(block, _, name):
                if name not in self._names or block in self._open:
                    return (event,)
                self._open.add(block)
                return (event, CallArgs(block, OPENING))
            case CallArgs(block, text) if block in self._open:
                return (CallArgs(block, escaped(self._whole(block, text))),)
            case CallRewritten(block, arguments) if block in self._open:
                self._open.discard(block)
                return (CallRewritten(block, wrapped(arguments)),)
            case CallClosed(block) if block in self._open:
                self._open.discard(block)
                return (CallArgs(block, CLOSING), event)
            case _:
                return (event,)

    def _whole(self, block: int, text: str) -> str:
        text = self._half.pop(block, "") + text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half[block] = text[-1]
            return text[:-1]
        return text
