"""A model with a window that only it knows: it refuses what is too long in the words of each protocol's provider."""

import json
from collections.abc import Iterable
from typing import Any

from support.server.live_server import gate

from turnbuckle.lab.received import messages_of
from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.messages import text_of

ROOM = 1_500
"""Tokens that fit behind what every request has."""
NOTES = "Task: count. Decisions: none. Done: some. Files: none. Open: the rest. Forbidden: none."
REFUSALS: dict[str, tuple[int, Any]] = {
    "openai_chat": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is WINDOW tokens. However, your messages resulted in "
                "TAKEN tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "openai_responses": (
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
                "type": "invalid_request_error",
                "param": "input",
                "code": "context_length_exceeded",
            }
        },
    ),
    "anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: TAKEN tokens > WINDOW maximum",
            },
        },
    ),
    "gemini": (
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (TAKEN) exceeds the maximum number of tokens allowed (WINDOW).",
                "status": "INVALID_ARGUMENT",
            }
        },
    ),
}


class NarrowModel:
    """A model with a window of its own. `waits`: the first summary stays away until the gate is opened."""

    def __init__(self, *, waits: bool = False) -> None:
        self.window = 0
        self.refused = self.summaries = 0
        self._waits = waits

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        taken = len(json.dumps(request.body)) // 4
        self.window = self.window or taken + ROOM
        if taken > self.window:
            self.refused += 1
            status, words = REFUSALS[request.protocol]
            told = json.dumps(words).replace("TAKEN", str(taken)).replace("WINDOW", str(self.window))
            return (Status(status, body=told),)
        usage = Usage(input=taken, output=20)
        if any("Write the notes now" in text_of(message.parts) for message in messages_of(request)):
            self.summaries += 1
            wait = (gate(1),) if self._waits and self.summaries == 1 else ()
            return (Say("Task: "), *wait, Say(NOTES.removeprefix("Task: ")), Finish(usage=usage))
        return (Say("One more. " * 60), Finish(usage=usage))


def long_turn(turn: int) -> str:
    """What a user says, so long that a few of them fill the window."""
    return f"Turn {turn}. " + "Count on. " * 60
