"""What a script's function may want to know about a request, whatever its protocol."""

from turnbuckle.lab.script import LabRequest
from turnbuckle.turn.prompt_reading import DraftNote, draft_note
from turnbuckle.vocab.messages import Message, ResultPart, text_of
from turnbuckle.wire.registry import PROTOCOLS


def messages_of(request: LabRequest) -> tuple[Message, ...]:
    """The history that it brings."""
    return PROTOCOLS[request.protocol].read_request(request.body).messages


def results_of(request: LabRequest) -> list[ResultPart]:
    """All tool results of the history."""
    messages = messages_of(request)
    return [part for message in messages for part in message.parts if isinstance(part, ResultPart)]


def brings_results(request: LabRequest) -> bool:
    """Whether tool results came since the model last spoke."""
    for message in reversed(messages_of(request)):
        if message.role in ("tool", "assistant"):
            return message.role == "tool"
    return False


def results_brought(request: LabRequest) -> int:
    """How many tool results there are in the whole history."""
    return len(results_of(request))


def last_user_text(request: LabRequest) -> str:
    """The newest text of the user."""
    texts = (text_of(message.parts) for message in reversed(messages_of(request)) if message.role == "user")
    return next((text for text in texts if text), "")


def last_result(request: LabRequest) -> str:
    """The text of the newest tool result."""
    results = results_of(request)
    return text_of(results[-1].content) if results else ""


def shown_draft(text: str) -> DraftNote | None:
    """The draft whose end the runtime's words show, to have it finished."""
    draft = draft_note(text)
    return draft if draft is not None and draft.tail else None


def asked_reading(text: str) -> str:
    """The draft about which the runtime asks how a rest belongs to it; empty if it asks nothing."""
    draft = draft_note(text)
    return draft.id if draft is not None and draft.asks else ""


def last_role(request: LabRequest) -> str:
    """Who has the last word in the history."""
    messages = messages_of(request)
    return messages[-1].role if messages else "user"
