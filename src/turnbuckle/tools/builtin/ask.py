"""Ask the person in front of the run."""

from typing import Annotated

from turnbuckle.tools.spec import ToolContext, ToolError, tool

A_DAY = 86_400.0


@tool(effect="read", timeout=A_DAY, asks=True)
async def ask_user(question: Annotated[str, "One clear question."], context: ToolContext) -> str:
    """Ask the user a question and wait for the answer. Only for what you cannot find out or decide
    yourself."""
    if context.ask is None:
        raise ToolError("There is nobody to ask in this run. Decide yourself, and say what you assumed.")
    answer = await context.ask(question)
    return answer if answer.strip() else "(the user gave an empty answer)"
