"""Two things that are read of a chunk as a whole: which of its choices counts, and whether it is an error."""

from turnbuckle.vocab.events import Cut, LastWord
from turnbuckle.wire import failures
from turnbuckle.wire.loose_json import whole_number
from turnbuckle.wire.openai_chat.frames import Choice, Chunk
from turnbuckle.wire.openai_chat.told import field
from turnbuckle.wire.payload import Unreadable, read_any


class MainChoice:
    """Requests ask for one choice; a server that sends more has its first one heard, whatever its number."""

    __slots__ = ("_known", "number")

    def __init__(self) -> None:
        self.number = 0
        self._known = False

    def heard(self, choices: list[Choice]) -> list[Choice]:
        """Those of a chunk that count. The same one may stand there more than once."""
        if len(choices) == 1:  # as usual
            number = whole_number(choices[0].index)
            if number is not None and not self._known:
                self.number = number
            self._known = True
            return choices if number is None or number == self.number else []
        given = [whole_number(choice.index) for choice in choices]
        numbers = [self.number if number is None else number for number in given]
        if not self._known and numbers:
            self._known = True
            self.number = min(numbers)
        return [choice for choice, number in zip(choices, numbers, strict=True) if number == self.number]


def error_of(name: bytes, chunk: Chunk, data: bytes) -> LastWord | None:
    """The failure that a chunk tells of, under any name and in any envelope."""
    try:
        document = read_any(data)
    except Unreadable:
        document = {"error": chunk.error}
    error = failures.error_in(document) or field(chunk.x_groq, "error")
    if error is None and name == b"error" and not chunk.choices:
        error = document  # the bare error object, under its event's name
    return None if error is None else Cut(failures.from_error(error))
