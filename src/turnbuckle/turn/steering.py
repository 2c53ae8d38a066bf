"""What people say into a turn that is under way, and when the model is told."""

from msgspec.structs import replace

from turnbuckle.turn.state import Turn

_HELD_BACK = 2
"""Model calls for which what people said waits behind a text that was cut."""


def heard(turn: Turn) -> Turn:
    """The model is told what people said. Not at once behind a text that was cut: it should first come to the
    end of what it was saying; but if that takes long, they have waited long enough."""
    if not turn.spoken:
        return turn
    if turn.open_text and turn.unheard < _HELD_BACK:
        return replace(turn, unheard=turn.unheard + 1)
    new = tuple(message for spoken in turn.spoken for message in spoken.messages)
    steered = (*turn.steered, *(spoken.id for spoken in turn.spoken))
    messages, task = (*turn.messages, *new), (*turn.task, *new)
    return replace(turn, messages=messages, task=task, spoken=(), steered=steered, unheard=0)
