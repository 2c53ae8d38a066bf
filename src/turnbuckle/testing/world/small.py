"""Small models, as they are met on people's own machines: they make a call, they go on with a text, they
write a text again; what they never do is to finish a draft by its name and its end. Each style is one that
was seen."""

from typing import Literal

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.model import Brain, Step
from turnbuckle.vocab.messages import ResultPart, text_of
from turnbuckle.vocab.request import ModelRequest

Style = Literal[
    "obeys",  # answers as it was asked
    "named fence",  # its code block names a language, and there are words around it
    "no fence",  # it answers in prose
    "short",  # it writes a shorter text in place of the whole
    "tail",  # it makes a new call of what it was shown last
    "leaves out",  # it leaves out what it thinks is known
    "quotes us",  # it says again what it was told
    "talks",  # it never does anything but talk
]


def small(path: str, text: str, style: Style = "obeys", *, prefills: bool = True, pieces: int = 30) -> Brain:
    """A small model that is to write this text to this path. Without `prefills` it answers again where it
    should go on behind what it had begun."""

    def brain(request: ModelRequest, number: int) -> list[Step]:
        if any(isinstance(part, ResultPart) and not part.failed for part in request.messages[-1].parts):
            return [Say("It is done.", pieces), Finish()]
        if request.prefill:
            begun = text_of(request.messages[-1].parts)
            return [Say(_gone_on(text, begun, style) if prefills else "I am a new answer.", pieces), Finish()]
        if request.tools:
            return [*_with_tools(path, text, request, style, pieces), Finish()]
        return [Say(_as_text(text, text_of(request.messages[-1].parts), style), pieces), Finish()]

    return brain


def _with_tools(path: str, text: str, request: ModelRequest, style: Style, pieces: int) -> list[Step]:
    if not any(message.note for message in request.messages):
        return [Call("write_file", {"path": path, "content": text}, pieces)]
    if style == "tail":
        return [Call("write_file", {"path": path, "content": text[len(text) // 2 :]}, pieces)]
    if style == "short":
        return [Call("write_file", {"path": path, "content": text[: len(text) // 4]}, pieces)]
    return [Say("I have written the file as you asked.", pieces)]


def _gone_on(text: str, begun: str, style: Style) -> str:
    kept = begun.split("\n", 1)[1] if begun.startswith("```") else begun
    if not text.startswith(kept):
        return "I cannot go on with that."
    return _styled(text[len(kept) :], style, fence="\n```" if begun.startswith("```") else "")


def _as_text(text: str, note: str, style: Style) -> str:
    anchor = note.rsplit("\n", 1)[-1]
    rest = text if note.startswith("Write the whole") else text[text.find(anchor) :]
    if style == "named fence":
        return f"Here it is:\n```python\n{rest}\n```\nI hope this helps."
    if style == "no fence":
        return f"The rest of the file is as follows: {rest}"
    return f"```\n{_styled(rest, style, fence=chr(10) + '```')}"


def _styled(rest: str, style: Style, fence: str) -> str:
    lines = rest.splitlines()
    match style:
        case "short":
            return "\n".join(lines[: max(len(lines) // 4, 1)]) + fence
        case "leaves out":
            return "\n".join([*lines[: max(len(lines) // 2, 1)], "# ... rest of the code"]) + fence
        case "quotes us":
            return f"[Runtime] The content was cut off.\n{rest}{fence}"
        case "talks" | "no fence" | "tail":
            return "I am sorry, but I cannot help with that."
        case _:
            return rest + fence
