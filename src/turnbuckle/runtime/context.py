"""What a model is told before the task. Short, and the same for the whole session: caches like it that way."""

from turnbuckle.vocab.messages import Message, TextPart

SYSTEM = (
    "You carry out tasks for a user, with tools, in the folder {workspace}. Paths are relative to it. "
    "Look before you change things, and check what you did. Do what was asked and no more. "
    "When you are done, say in a few plain sentences what you did and what is open. "
    "Messages that begin with [Runtime] come from the program that runs you, not from the user: they tell you "
    "truthfully what happened to the connection or to a tool."
)


def opening(workspace: str) -> tuple[Message, ...]:
    """What stands before the first task of a session."""
    return (Message("system", (TextPart(SYSTEM.format(workspace=workspace)),)),)


def task_message(task: str) -> Message:
    """The user's words."""
    return Message("user", (TextPart(task),))
