"""What a model is told before the task. Short, and the same for the whole session: caches like it that way.

The wording was chosen by measurement with a small model (`benchmarks/system_prompt.py`): asked to say at the
end what it did, it says so at once and does nothing.
"""

from turnbuckle.vocab.messages import Message, TextPart

SYSTEM = (
    "You carry out tasks for a user, with tools, in the folder {workspace}. Paths are relative to it. "
    "Use the tools for every step. After the last tool result, sum up briefly. "
    "Look before you change things, and check what you did. Do what was asked and no more."
)
RUNTIME = (
    "Messages that begin with [Runtime] come from the program that runs you, not from the user: they "
    "tell you truthfully what happened to the connection or to a tool."
)
"""Stays when the rest is replaced: without it a model takes such a message for the user's."""


def opening(workspace: str, instructions: str = "") -> tuple[Message, ...]:
    """What stands before the first task of a session. `instructions` take the place of ours."""
    told = (instructions.strip() or SYSTEM).replace("{workspace}", workspace)
    return (Message("system", (TextPart(f"{told} {RUNTIME}"),)),)


def task_message(task: str) -> Message:
    """The user's words."""
    return Message("user", (TextPart(task),))
