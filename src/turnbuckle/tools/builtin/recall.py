"""The conversation's own past, also the part that the model is no longer shown."""

from typing import Annotated

from turnbuckle.tools.spec import ToolContext, ToolError, tool


@tool(effect="read", timeout=60)
async def recall(
    query: Annotated[str, "Some words that stood there, or the id of a call."], context: ToolContext
) -> str:
    """Search all that was said and done in this conversation, also what was left out to save room."""
    if context.recall is None:
        raise ToolError("nothing of this conversation is stored")
    if not query.strip():
        raise ToolError("say what to look for")
    return await context.recall(query)
