"""The parts of a content that is a list: what each of them says, and what only its provider's clients
understand.

Words count as words whatever their part is called, so that none are lost; what else stands in such a part is
told beside them. A part without words is told whole, in its place.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from turnbuckle.wire.answer_fields import shallow, unknown_fields

_PLAIN = ("text", "output_text")
_THOUGHTS = ("thinking", "reasoning")
_NO_FIELDS: dict[str, Any] = {}


class ReadPart(NamedTuple):
    """`beside` is what else stands in it; of a `strange` one, all of it."""

    kind: Literal["text", "thought", "refusal", "strange"]
    text: str = ""
    beside: dict[str, Any] = _NO_FIELDS


_NOTHING = ReadPart("text")


def read_part(part: Any) -> ReadPart:
    """One entry of the list. What is neither an object nor a text says nothing."""
    if isinstance(part, str):
        return ReadPart("text", part)
    if not isinstance(part, dict):
        return _NOTHING
    kind, text = part.get("type"), part.get("text")
    if kind in _THOUGHTS:
        return _thought(part, kind)
    if kind == "refusal":
        said = part.get("refusal") or text
        return ReadPart(kind, said) if isinstance(said, str) else ReadPart("strange", "", shallow(part))
    if isinstance(text, (dict, list)) and text:
        return ReadPart("strange", "", shallow(part))
    beside = unknown_fields(part, {"text", "type"} if kind is None or kind in _PLAIN else {"text"})
    if isinstance(text, str) and (text or not beside):
        return ReadPart("text", text, beside)
    return ReadPart("strange", "", shallow(part)) if beside else _NOTHING


def _thought(part: dict[str, Any], kind: str) -> ReadPart:
    inner = part.get(kind, part.get("text"))
    pieces = inner if isinstance(inner, list) else [inner]
    texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    strange = [
        piece
        for piece, text in zip(pieces, texts, strict=True)
        if not isinstance(text, str) and piece is not None
    ]
    beside = unknown_fields(part, {"type", "text", kind, "closed"})  # what comes next shows that it is closed
    if strange or beside:
        beside = shallow({"type": kind, kind: strange, **beside})
    return ReadPart("thought", "".join(text for text in texts if isinstance(text, str)), beside)


def strange_parts(content: Any) -> Iterator[dict[str, Any]]:
    """The parts of a content that are told whole."""
    for part in content if isinstance(content, list) else ():
        read = read_part(part)
        if read.kind == "strange":
            yield read.beside


def told_content(pieces: list[tuple[str, dict[str, Any]]]) -> str | list[dict[str, Any]]:
    """A content as clients have it: one text, or a list, if there is more than text in it. A piece is words
    with what stands beside them, or a part without words."""
    if not any(beside for _, beside in pieces):
        return "".join(text for text, _ in pieces)
    made: list[dict[str, Any]] = []
    words: list[str] = []
    before: dict[str, Any] | None = None
    for text, beside in pieces:
        if text and beside == before:
            words.append(text)
            continue
        if before is not None:
            made[-1]["text"] = "".join(words)
        made.append({"type": "text", "text": text, **beside} if text else dict(beside))
        words, before = [text], beside if text else None
    if before is not None:
        made[-1]["text"] = "".join(words)
    return made


def whole_content(pieces: list[Any]) -> Any:
    """A content that came in pieces, each of them a text or a list."""
    if not any(isinstance(piece, list) for piece in pieces):
        texts = [piece for piece in pieces if isinstance(piece, str)]
        return "".join(texts) if texts else None
    made: list[dict[str, Any]] = []
    words: list[str] = []  # of the last part
    for part in (part for piece in pieces for part in _listed(piece)):
        last = made[-1] if made else {}
        if last.keys() == part.keys() == {"type", "text"} and last["type"] == part["type"]:
            words.append(str(part["text"]))
            continue
        if len(words) > 1:
            last["text"] = "".join(words)
        made.append(dict(part))
        words = [str(part["text"])] if part.keys() == {"type", "text"} else []
    if len(words) > 1:
        made[-1]["text"] = "".join(words)
    return made


def _listed(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content]
    return [{"type": "text", "text": content}] if content else []
