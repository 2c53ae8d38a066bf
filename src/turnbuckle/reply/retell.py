"""A history told in plain words: calls and their results become text, and what only a provider understands is
left out.

This is the last resort for a history that a provider refuses although it keeps every rule that we know.
Nothing is lost that the model needs, there is nothing left that could be paired wrongly, and the user's words
stay as they are.
"""

from collections.abc import Iterator

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
    text_of,
)

_ARGUMENTS = 2_000
"""Characters of a call's arguments that are worth telling; its result says what came of them."""


def can_retell(messages: tuple[Message, ...]) -> bool:
    """Whether telling the history in plain words would help: it holds calls, or what only a provider
    understands."""
    return any(_is_changed(part) for message in messages for part in message.parts)


def _is_changed(part: Part) -> bool:
    if isinstance(part, (TextPart, ReasoningPart)):
        return part.state is not None
    return isinstance(part, (CallPart, ResultPart, OpaquePart))


def retold(messages: tuple[Message, ...], count: int) -> tuple[Message, ...]:
    """The history with its first `count` messages told in plain words, message by message: those that have
    nothing left to tell stay, empty, and repair leaves them out. So whoever counts messages finds each in its
    place."""
    names = _names(messages)
    return (*(_retold(message, names) for message in messages[:count]), *messages[count:])


def _names(messages: tuple[Message, ...]) -> dict[str, str]:
    return {
        part.id: part.name for message in messages for part in message.parts if isinstance(part, CallPart)
    }


def _retold(message: Message, names: dict[str, str]) -> Message:
    role = "user" if message.role == "tool" else message.role
    note = message.note or message.role == "tool"
    return Message(role, tuple(_parts(message, names)), note=note, partial=message.partial)


def _parts(message: Message, names: dict[str, str]) -> Iterator[Part]:
    for part in message.parts:
        match part:
            case CallPart(_, name, arguments):
                cut = " …" if len(arguments) > _ARGUMENTS else ""
                yield TextPart(f"[I called {name} with {arguments[:_ARGUMENTS]}{cut}]\n")
            case ResultPart(call_id, content, failed):
                what = "failed" if failed else "gave"
                yield TextPart(
                    f"[Runtime] The call of {names.get(call_id, 'a tool')} {what}:\n{text_of(content)}\n"
                )
                yield from (other for other in content if isinstance(other, (ImagePart, FilePart)))
            case ReasoningPart() | OpaquePart():
                pass
            case TextPart(text):
                yield TextPart(text)
            case _:
                yield part
