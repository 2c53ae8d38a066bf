"""Every endpoint of the server, as a page made from the OpenAPI document.

What holds for any request is said once, by hand, at the top of the page. Bodies are told where they are sent;
the shapes of answers stand together at the end, each once.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from pages.schema_words import Words

JSON = "application/json"
STREAM = "text/event-stream"
EVERYWHERE = frozenset({"400", "401", "403", "421", "429", "431", "500", "503"})
"""What any request may be answered with; the page says so once."""
RUN_EVENTS = "RunStreamEvent"

# A body that works with the rehearsal model; `test_docs_http.py` sends every line of the page to a real
# server.
BODIES = {
    "createChatCompletion": '{"model": "agent", "messages": [{"role": "user", "content": "list files"}]}',
    "createMessage": (
        '{"model": "agent", "max_tokens": 1000, "messages": [{"role": "user", "content": "list files"}]}'
    ),
    "countMessageTokens": '{"model": "agent", "messages": [{"role": "user", "content": "list files"}]}',
    "createResponse": '{"model": "agent", "input": "list files"}',
    "compactResponse": '{"model": "agent", "input": "list files"}',
    "createConversation": "{}",
    "createRun": '{"input": "write hello.txt with 300 lines and cut"}',
    "answerApproval": '{"decision": "allow"}',
    "undoChange": '{"path": "hello.txt"}',
    "saveDraft": "{}",
    "createSession": '{"title": "Work"}',
    "renameSession": '{"title": "More work"}',
    "sayInSession": '{"input": "read hello.txt"}',
    "forkSession": "{}",
    "compactSession": '{"keep": "the names of all files"}',
    "retrySession": '{"route": "rehearsal"}',
}
FILES = {"importSession": "work.jsonl"}


def page(document: dict[str, Any]) -> str:
    """The made part of the page."""
    words = Words(document["components"]["schemas"])
    operations = list(_operations(document))
    made = [_contents(document, operations)]
    for tag in document["tags"]:
        made.append(f"## {tag['name'].capitalize()}\n\n{tag.get('description', '')}")
        made += [
            _operation(method, path, told, words)
            for method, path, told in operations
            if tag["name"] in told["tags"]
        ]
    made.append(_shapes(words))
    return "\n\n".join(made)


def curl(method: str, path: str, told: dict[str, Any]) -> str:
    """A line that does it. Open parts of the path are shell variables."""
    at = re.sub(r"\{(\w+)\}", lambda part: f"${part[1].upper()}", path)
    line = ["curl"]
    if any(STREAM in answer.get("content", {}) for answer in told["responses"].values()):
        line.append("-N")
    body = BODIES.get(told["operationId"])
    if method != "get" and not (method == "post" and body is not None):
        line.append(f"-X {method.upper()}")
    line.append(f'"$AT{at}"')
    if body is not None:
        line.append(f"-H 'Content-Type: application/json' -d {shlex.quote(body)}")
    elif file := FILES.get(told["operationId"]):
        line.append(f"-H 'Content-Type: application/x-ndjson' --data-binary @{file}")
    return " ".join(line)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            yield method, path, told


def _contents(document: dict[str, Any], operations: list[tuple[str, str, dict[str, Any]]]) -> str:
    lines = ["| | | |", "|---|---|---|"]
    for tag in document["tags"]:
        for method, path, told in operations:
            if tag["name"] in told["tags"]:
                lines.append(
                    f"| {method.upper()} | [`{path}`](#{_anchor(method, path)}) | {told['summary']} |"
                )
    return "\n".join(lines)


def _anchor(method: str, path: str) -> str:
    """The anchor that a reader of the page gives to the heading."""
    return re.sub(r"[^a-z0-9 _-]", "", f"{method} {path}".lower()).replace(" ", "-")


def _operation(method: str, path: str, told: dict[str, Any], words: Words) -> str:
    made = [f"### {method.upper()} {path}", f"{told['summary']}.".replace("?.", "?")]
    if "description" in told:
        made.append(told["description"])
    made.append(f"```sh\n{curl(method, path, told)}\n```")
    if parameters := [
        each for each in told["parameters"] if each["in"] != "path" or each["description"] != "Its id."
    ]:
        rows = [
            f"| `{each['name']}` | {each['in']} | {words.kind(each['schema'])} | {each['description']} |"
            for each in parameters
        ]
        made.append("\n".join(["| parameter | in | may be | |", "|---|---|---|---|", *rows]))
    if body := told.get("requestBody"):
        made.append(_body(body, words))
    made.append(_answers(told, words))
    return "\n\n".join(made)


def _body(body: dict[str, Any], words: Words) -> str:
    (content_type, content), *_ = body["content"].items()
    schema = words.found(content["schema"])
    optional = "" if body["required"] else " It may be left out."
    if content_type != JSON:
        return f"The body is `{content_type}`: {schema['description']}{optional}"
    about = f"{words.sentence(schema)}{optional}".strip()
    return "\n\n".join(filter(None, [about, words.body(schema)]))


def _answers(told: dict[str, Any], words: Words) -> str:
    lines, responses = [], told["responses"]
    for status, answer in responses.items():
        if "$ref" in answer:
            continue
        kinds = [
            f"{_content(kind, content['schema'], words)}"
            for kind, content in answer.get("content", {}).items()
        ]
        headers = [f"`{name}`" for name in answer.get("headers", {}) if name != "x-request-id"]
        more = f" Headers: {', '.join(headers)}." if headers else ""
        about = (
            "" if answer["description"] == told["summary"] and kinds else answer["description"].rstrip(".")
        )
        lines.append(f"- **{status}** {about}{': ' if about and kinds else ''}{', or '.join(kinds)}.{more}")
    if errors := [
        status for status, answer in responses.items() if "$ref" in answer and status not in EVERYWHERE
    ]:
        lines.append(f"- Errors: {', '.join(errors)}")
    return "\n".join(lines)


def _content(kind: str, schema: dict[str, Any], words: Words) -> str:
    if kind == JSON:
        return words.kind(schema)
    return f"events of {words.kind(schema)}" if kind == STREAM else f"`{kind}`"


def _shapes(words: Words) -> str:
    """Everything that a link of the page leads to, by name. Telling of one may name more."""
    made: dict[str, str] = {}
    while waiting := words.named - made.keys():
        for name in sorted(waiting):
            made[name] = _events(words) if name == RUN_EVENTS else words.shape(name)
    return "\n\n".join(["## Shapes", *(f"### {name}\n\n{made[name]}" for name in sorted(made))])


def _events(words: Words) -> str:
    """The events of a run: one row each, since each is a fact with a few fields."""
    schema = words.schemas[RUN_EVENTS]
    data = schema["properties"]["data"]["contentSchema"]["anyOf"]
    kinds = [kind for each in data for kind in words.choices(each)]
    told = next(kind for kind in kinds if "told" in kind["properties"])
    facts = _rows(words, "event", [kind for kind in kinds if kind is not told])
    meanings = _rows(words, "told", list(words.choices(told["properties"]["told"]["items"])))
    number = schema["properties"]["id"]["description"]
    return "\n\n".join([schema["description"], facts, number, words.sentence(told), meanings])


def _rows(words: Words, head: str, kinds: list[dict[str, Any]]) -> str:
    lines = [f"| {head} | what happened | fields besides `seq` and `at` |", "|---|---|---|"]
    for kind in kinds:
        fields = kind["properties"]
        mark = fields["type"].get("const") or fields["type"]["enum"][0]
        names = ", ".join(f"`{name}`" for name in fields if name not in ("type", "seq", "at", "cursor"))
        lines.append(f"| `{mark}` | {words.sentence(kind)} | {names} |")
    return "\n".join(lines)
