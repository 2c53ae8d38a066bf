"""Chat Completions with several choices: the first is read as any reply is, the others are told as they came.

Of several answers that come side by side none can be gone on with alone. So nothing is understood of the
others but whether they came to their end: a stream in which one of them did not, or failed, is cut. What else
a chunk holds is read with the first.
"""

from typing import Any

import msgspec

from turnbuckle.vocab.events import ChoiceNoted, Cut, Ended, Event, LastWord
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire import failures
from turnbuckle.wire.answer_fields import shallow
from turnbuckle.wire.loose_json import whole_number
from turnbuckle.wire.openai_chat.decode import ChatDecoder
from turnbuckle.wire.openai_chat.finishes import is_failure
from turnbuckle.wire.openai_chat.request_fields import MOST_CHOICES
from turnbuckle.wire.payload import Unreadable, read_any
from turnbuckle.wire.sse import Frame

_NOT_SAID = ("index",)


class SeveralDecoder(ChatDecoder):
    """One stream's state."""

    def __init__(self, quirks: Quirks = Quirks()) -> None:  # noqa: B008 (a frozen value)
        super().__init__(quirks)
        self._others: dict[int, bool] = {}  # whether each has its reason to stop
        self._failed = ""  # how the first of them ended that its host failed at

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        for frame in batch:
            last = super().frames([self._with_the_first(frame, out)], out)
            if last is not None:
                return self._weighed(last)
        return None

    def answer(self, document: object, out: list[Event]) -> LastWord:
        rest = self._without_others(document, out)
        return self._weighed(super().answer(document if rest is None else rest, out))

    def end(self, out: list[Event]) -> LastWord:
        return self._weighed(super().end(out))

    def _with_the_first(self, frame: Frame, out: list[Event]) -> Frame:
        name, data = frame
        if data is None:
            return frame
        try:
            rest = self._without_others(read_any(data), out)
        except Unreadable:
            return frame  # its reader says so
        return frame if rest is None else (name, msgspec.json.encode(rest))

    def _without_others(self, document: object, out: list[Event]) -> dict[str, Any] | None:
        """What is left for the first, if there was anything else."""
        choices = document.get("choices") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(choices, list):
            return None
        first: list[Any] = []
        for choice in choices:
            index = whole_number(choice.get("index")) if isinstance(choice, dict) else None
            if not index:
                first.append(choice)
            elif 0 < index < MOST_CHOICES and not self._hole:
                self._others[index] = self._others.get(index, False) or bool(choice.get("finish_reason"))
                if is_failure(choice.get("finish_reason")) and not self._failed:
                    self._failed = f"the provider ended choice {index} with {choice['finish_reason']!r}"
                data = {key: value for key, value in choice.items() if key not in _NOT_SAID}
                out.append(ChoiceNoted(index, shallow(data)))
        return None if len(first) == len(choices) else {**document, "choices": first}

    def _weighed(self, last: LastWord) -> LastWord:
        """The stream is whole if all of its choices are. One that its host failed at is not, though it has a
        reason to stop: of a single answer the same word is a failure."""
        if isinstance(last, Ended) and self._failed:
            return Cut(failure("server", self._failed))
        left = [index for index, ended in self._others.items() if not ended]
        if isinstance(last, Ended) and left and not self._quirks.finishless:
            return Cut(failures.incomplete(f"the stream ended without a finish reason of choice {left[0]}"))
        return last
