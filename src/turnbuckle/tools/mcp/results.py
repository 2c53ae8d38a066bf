"""What a tool of a server gave, as our own tools give it. Pure."""

import base64
import binascii

import msgspec
from msgspec import Raw, Struct

from turnbuckle.tools.mcp.messages import Unreadable
from turnbuckle.vocab.visible import visible_line

MOST_PARTS = 1000
MOST_FILES = 10


class _Resource(Struct, frozen=True, gc=False):
    uri: str = ""
    mimeType: str = ""
    text: str | None = None
    blob: str | None = None


class _Part(Struct, frozen=True, gc=False):
    type: str = ""
    text: str = ""
    data: str = ""
    mimeType: str = ""
    uri: str = ""
    name: str = ""
    resource: _Resource | None = None


class _Result(Struct, frozen=True, gc=False):
    content: list[_Part] = []
    structuredContent: Raw = Raw(b"")
    isError: bool = False
    resultType: str = "complete"


class FoundFile(Struct, frozen=True):
    """Bytes that are not text: a picture, a sound, a file. `place` is the line of the text that names it."""

    place: int
    kind: str
    data: bytes


class CallResult(Struct, frozen=True):
    """`lines` are the result; some of them stand for `files`."""

    lines: list[str]
    failed: bool
    files: tuple[FoundFile, ...] = ()


def read_result(result: bytes) -> CallResult:
    """Raises Unreadable: the call has been made, and what it gave cannot be told."""
    try:
        found = msgspec.json.decode(result, type=_Result)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"its result cannot be read: {error}") from None
    if found.resultType != "complete":
        raise Unreadable("it wants to be told more before it works, which is not offered here")
    lines: list[str] = []
    files: list[FoundFile] = []
    for part in found.content[:MOST_PARTS]:
        held = part.resource or _Resource()
        kind = visible_line((part.mimeType or held.mimeType)[:80])
        if part.type in ("image", "audio"):
            _take_file(part.data, kind or part.type, lines, files)
        elif part.type == "resource" and held.blob is not None:
            _take_file(held.blob, kind or visible_line(held.uri[:200]), lines, files)
        elif part.type == "resource":
            lines.append(f"[{visible_line(held.uri[:500])}]\n{held.text or ''}")
        elif part.type == "resource_link":
            lines.append(f"[{visible_line(part.name[:200])}: {visible_line(part.uri[:500])}]")
        elif part.type == "text":
            lines.append(part.text)
        else:
            lines.append(f"[a part of the kind {visible_line(part.type[:40])!r}, which is not known here]")
    if len(found.content) > MOST_PARTS:
        lines.append(f"[… {len(found.content) - MOST_PARTS:,} parts left out …]")
    if not any(lines) and found.structuredContent:
        lines.append(bytes(found.structuredContent).decode("utf-8", "replace"))
    return CallResult(lines, found.isError, tuple(files))


def _take_file(data: str, kind: str, lines: list[str], files: list[FoundFile]) -> None:
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        lines.append(f"[{kind}: it cannot be read]")
        return
    if len(files) < MOST_FILES:
        files.append(FoundFile(len(lines), kind, content))
    lines.append(f"[{kind}, {len(content):,} bytes, which cannot be shown here]")
