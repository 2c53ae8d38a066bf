"""Which system prompt makes a small model act instead of only saying that it did?

    python benchmarks/system_prompt.py --base-url http://127.0.0.1:8099/v1 --model qwen2.5-coder-1.5b [--seeds
    1,2]

Tasks that need a tool first are put to a real model with the tools of `turnbuckle run`, once for each wording
and seed. Counted is the first reply: a call of a fitting tool is right; text that claims to have done it is a
false claim; anything else is neither. The wordings differ in one part only, so a row says what that part
does. Needs a real model, takes long, and belongs to no test suite; differences of three in twelve are noise.
"""

import argparse
import json
import urllib.error
import urllib.request
from typing import Any

import msgspec

from turnbuckle.runtime import context
from turnbuckle.tools.builtin import FAMILIES
from turnbuckle.tools.modules import registry_of
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL
from turnbuckle.wire.openai_chat import request as openai_chat

_START = "You carry out tasks for a user, with tools, in the folder {workspace}. Paths are relative to it. "
_LOOK = "Look before you change things, and check what you did. Do what was asked and no more. "
_RUNTIME = (
    "Messages that begin with [Runtime] come from the program that runs you, not from the user: they "
    "tell you "
    "truthfully what happened to the connection or to a tool."
)
WORDINGS = {
    "as it is": f"{context.SYSTEM} {context.RUNTIME}",
    "say what you did": _START
    + _LOOK
    + "When you are done, say in a few plain sentences what you did and what is open. "
    + _RUNTIME,
    "nothing about the end": _START + _LOOK + _RUNTIME,
    "tools for every step": _START
    + "Use the tools for every step. After the last tool result, sum up briefly. "
    + _LOOK
    + _RUNTIME,
    "the same, without [Runtime]": _START
    + "Use the tools for every step. After the last tool result, sum up briefly. "
    + _LOOK,
    "a call until it is done": _START
    + _LOOK
    + "Each reply is a tool call until the task is done; then sum up briefly. "
    + _RUNTIME,
}
TASKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Create hello.txt with the text: hello world", ("write_file", "shell")),
    ("What does config.json contain?", ("read_file", "shell")),
    ("Add the line 'done' to the end of notes.md", ("append_file", "read_file", "edit_file", "shell")),
    ("Which files are in the folder src?", ("list_files", "shell")),
    ("Find out where the function parse_date is defined.", ("search_files", "shell", "list_files")),
    ("Run the tests with pytest and tell me whether they pass.", ("shell",)),
    ("In app.py change the port from 8000 to 9000.", ("edit_file", "read_file", "search_files", "shell")),
    ("Write a Python script fib.py that prints the first 20 Fibonacci numbers.", ("write_file",)),
    ("How many lines has README.md?", ("read_file", "shell")),
    ("Delete the file old.log.", ("shell", "list_files", "read_file")),
    ("Write index.html: a page with a heading Welcome and a list of three fruits.", ("write_file",)),
    ("Is there a folder named build here?", ("list_files", "shell")),
)


def own_tools(*, with_finish_call: bool) -> tuple[ToolSpec, ...]:
    specs = registry_of(list(FAMILIES), [], ()).specs
    return tuple(spec for spec in specs if with_finish_call or spec.name != FINISH_CALL)


def asked(
    args: argparse.Namespace, system: str, task: str, seed: int, tools: tuple[ToolSpec, ...]
) -> dict[str, Any]:
    """The first reply to a task, as the server gives it."""
    messages = (
        Message("system", (TextPart(system.format(workspace="/srv/project")),)),
        Message("user", (TextPart(task),)),
    )
    request = ModelRequest(
        args.model,
        messages,
        tools,
        temperature=0.1,
        max_output_tokens=300,
        stream=False,
        extra={"seed": seed},
    )
    body = msgspec.json.encode(openai_chat.build(request, Quirks(output_cap_field="max_tokens")))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {args.key}"}
    url = f"{args.base_url}{openai_chat.endpoint(request)}"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=600) as answer:
        reply: dict[str, Any] = json.load(answer)["choices"][0]["message"]
    return reply


def judged(reply: dict[str, Any], fitting: tuple[str, ...]) -> str:
    calls = [call["function"]["name"] for call in reply.get("tool_calls") or ()]
    if calls:
        return "right" if calls[0] in fitting else "other tool"
    said = (reply.get("content") or "").lower()
    claims = (
        "i have ",
        "i've ",
        "has been ",
        "have been ",
        "successfully",
        "i created",
        "i added",
        "i deleted",
    )
    return "false claim" if any(words in said for words in claims) else "only text"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--key", default="sk-local")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--only", default="", help="wordings whose name holds this")
    parser.add_argument("--with-finish-call", action="store_true")
    args = parser.parse_args()
    tools = own_tools(with_finish_call=args.with_finish_call)
    for name, system in WORDINGS.items():
        if args.only not in name:
            continue
        counts: dict[str, int] = {}
        for seed in (int(one) for one in args.seeds.split(",")):
            for task, fitting in TASKS:
                try:
                    kind = judged(asked(args, system, task, seed, tools), fitting)
                except urllib.error.HTTPError as error:
                    kind = f"refused {error.code}"
                counts[kind] = counts.get(kind, 0) + 1
        n = sum(counts.values())
        row = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items(), key=lambda one: -one[1]))
        print(f"{name}: {counts.get('right', 0)} of {n} right ({row})", flush=True)


if __name__ == "__main__":
    main()
