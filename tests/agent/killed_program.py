"""A program that embeds an agent and is killed on the way, by the fault that its environment names."""

import sys
from pathlib import Path

from turnbuckle import Agent, ToolContext, tool, was_written, write_text


@tool(effect="write")
def ring_bell(context: ToolContext) -> str:
    """Ring a bell that somebody hears: nobody can find out later whether it rang."""
    with open(context.workspace / "bell.txt", "a") as file:
        file.write("ding\n")
    return "It rang."


@tool(effect="write", probe=lambda arguments, context: was_written(context, "saved.txt"))
def save(context: ToolContext) -> str:
    """Save something, in such a way that one can look whether it was done."""
    with open(context.workspace / "saves.txt", "a") as file:
        file.write("once\n")
    write_text(context, "saved.txt", "saved\n")
    return "It is saved."


TOOLS = (ring_bell, save)


def made(folder: Path) -> Agent:
    return Agent("rehearsal", tools=TOOLS, workspace=folder, data=folder / "data", config=None)


if __name__ == "__main__":
    with made(Path(sys.argv[1])) as agent:
        agent.run_sync(sys.argv[2], session="work", key="job 1")
