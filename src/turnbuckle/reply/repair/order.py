"""Passes over the order of messages: who may speak first, after whom, and last."""

from msgspec.structs import replace

from turnbuckle.reply.repair.history import History, Passed, Terms, open_messages
from turnbuckle.vocab.messages import Message, Part, ProviderState, TextPart

OPENING = "(The earlier part of this conversation is not shown.)"
RESULTS_SEEN = "(The results arrived.)"
GO_ON = "Continue."


def joined_turns(messages: History, terms: Terms) -> Passed:
    """Assistant messages behind each other are one turn and become one message: text and calls of one turn in
    two messages tear calls from their results."""
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        if len(out) > terms.sealed and message.role == "assistant" and out[-1].role == "assistant":
            did.append((index, "joined two assistant messages"))
            out[-1] = _join(out[-1], message, terms)
        else:
            out.append(message)
    return Passed(tuple(out), did)


def first_is_user(messages: History, terms: Terms) -> Passed:
    """Where the first word must be the user's and is not, a note says that something is missing."""
    first = next((index for index, message in enumerate(messages) if message.role != "system"), None)
    if not terms.rules.user_first or first is None or first < terms.sealed or messages[first].role == "user":
        return Passed(messages, [])
    opening = Message("user", (TextPart(OPENING),), note=True)
    return Passed(
        (*messages[:first], opening, *messages[first:]), [(first, "opened with a note as the user")]
    )


def no_user_after_tools(messages: History, terms: Terms) -> Passed:
    """Where a host refuses the user's word directly behind results, a short note as the assistant stands
    between.

    The other ways are worse: before its call the message would answer something that was not yet said, and
    inside a result it would no longer be the user's."""
    if terms.quirks.text_after_tools:
        return Passed(messages, [])
    did: list[tuple[int, str]] = []
    out = list(messages[: terms.sealed])
    for index, message in open_messages(messages, terms):
        if message.role in ("user", "system") and out and out[-1].role == "tool":
            did.append((index, "put a note between results and the next message"))
            out.append(Message("assistant", (TextPart(RESULTS_SEEN),), note=True))
        out.append(message)
    return Passed(tuple(out), did)


def ends_open(messages: History, terms: Terms) -> Passed:
    """If the history is to be answered, there must be something to answer, and the assistant may not have had
    the last word: newer models refuse to go on from their own words. Only when asked for, since a paused turn
    is sent back exactly as it is."""
    spoken = [message for message in messages if message.role != "system"]
    if terms.to_ask and terms.rules.system_apart and not spoken and len(messages) > terms.sealed:
        last = Message("user", messages[-1].parts)
        return Passed((*messages[:-1], last), [(len(messages) - 1, "said the system prompt as the user")])
    if not terms.to_ask or not spoken or spoken[-1].role != "assistant":
        return Passed(messages, [])
    go_on = Message("user", (TextPart(GO_ON),), note=True)
    return Passed((*messages, go_on), [(len(messages), "asked the assistant to continue")])


def _join(one: Message, other: Message, terms: Terms) -> Message:
    between: tuple[Part, ...] = ()
    if terms.rules.runs_text_together and not one.partial and _has_text(one) and _has_text(other):
        between = (TextPart("\n\n"),)
    parts = (*one.parts, *between, *other.parts)
    return Message(
        "assistant", parts, note=one.note and other.note, partial=other.partial, state=_joined(one, other)
    )


def _joined(one: Message, other: Message) -> ProviderState | None:
    """What was written beside two messages that become one. Of the same field the later one counts."""
    if one.state is None or other.state is None or one.state.protocol != other.state.protocol:
        return other.state or one.state
    return replace(other.state, data={**one.state.data, **other.state.data})


def _has_text(message: Message) -> bool:
    return any(isinstance(part, TextPart) and part.text for part in message.parts)
