"""A client's messages as a history: the other direction of `request.py`.

What has no place in our own values (cache marks, citations, who called) rides as state beside the part that
it was written in, and goes back to providers of this protocol from there. A block that only such a provider
understands is kept whole; where it has words that any model can read (search results, a document in pieces,
the summary of a compaction) it is a text for all others.

Thoughts count only with their signature, or as the secret that they are. A thought without one is told to
nobody of this protocol, since a provider refuses it: such thoughts are those of other models, or were cut.

A user's message holds the results of calls and what the user says beside them; here these are two messages.
An `mcp_tool_use` of this server, which is how our own tools are told, becomes the call that it was, with its
result behind it.
"""

import base64
from typing import Any

import msgspec
from msgspec.structs import replace

from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    ResultPart,
    Shown,
    TextPart,
)
from turnbuckle.wire.anthropic.request import BLOCK, IN_PLACE
from turnbuckle.wire.anthropic.request_fields import LONGEST_ID, LONGEST_NAME, MOST_MESSAGES, ROLES
from turnbuckle.wire.fields import Fields, Refused, Room
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.loose_json import objects, plain_text, word

OWN_SERVER = "turnbuckle"
"""The name under which our own tools are told."""
_CONTENT = "a string or an array of blocks"


def read_messages(body: Fields, kept: KeptFields) -> tuple[Message, ...]:
    """The messages of a request, without the system prompt. Raises `Refused`."""
    given = body.objects("messages", MOST_MESSAGES)
    if not given:
        raise body.refused("messages", "is empty; at least one message is needed.", "array_below_min_length")
    reader = _MessageReader(kept)
    made: list[Message] = []
    for fields in given:
        made += reader.messages(fields)
    if not any(message.parts for message in made):
        raise body.refused("messages", "say nothing: there is no text, picture, file or result in them.")
    return tuple(made)


def read_system(body: Fields, kept: KeptFields) -> tuple[Message, ...]:
    """The system prompt: one text, or blocks that stay apart. Raises `Refused`."""
    given = body.raw("system")
    if given is None or given == []:
        return ()
    parts = _MessageReader(kept).texts(body, "system")
    return (Message("system", parts, state=kept.sure({BLOCK: True}) if isinstance(given, list) else None),)


class _MessageReader:
    def __init__(self, kept: KeptFields) -> None:
        self._kept = kept
        self._room = Room()

    def messages(self, fields: Fields) -> list[Message]:
        """One message of the client, which may be several of ours."""
        role = fields.need_text("role")
        match role:
            case "user":
                return self._user(fields)
            case "assistant":
                return self._assistant(fields)
            case "system":
                return [
                    Message(
                        "system", self.texts(fields, "content"), state=self._kept.sure({IN_PLACE: "system"})
                    )
                ]
            case _:
                raise fields.refused("role", f"is {role[:64]!r}; known are {', '.join(ROLES)}.")

    def texts(self, fields: Fields, name: str) -> tuple[Part, ...]:
        """Blocks of a system prompt, which are texts."""
        made: list[Part] = []
        for block in self._blocks(fields, name):
            kind = block.need_text("type")
            made.append(self._text(block) if kind == "text" else self._opaque(self._checked(block), kind))
        return tuple(made)

    # Who speaks

    def _user(self, fields: Fields) -> list[Message]:
        results: list[Part] = []
        others: list[Part] = []
        for block in self._blocks(fields, "content"):
            if block.raw("type") == "tool_result":
                results.append(self._result(block))
            else:
                others.append(self._shown(self._checked(block)))
        made = [Message("tool", tuple(results))] if results else []
        made += [Message("user", tuple(others))] if others or not results else []
        return self._with_fields(made, fields)

    def _with_fields(self, made: list[Message], fields: Fields) -> list[Message]:
        """What stands beside the blocks of a message, with the last of ours that it became."""
        state = self._kept.state(fields.whole("role", "content"), fields)
        return made if state is None else [*made[:-1], replace(made[-1], state=state)]

    def _assistant(self, fields: Fields) -> list[Message]:
        made: list[Message] = []
        said: list[Part] = []
        for block in self._blocks(fields, "content"):
            kind = block.need_text("type")
            if kind == "mcp_tool_result" and self._is_ours(block, said, made):
                if said:
                    made.append(Message("assistant", tuple(said)))
                    said = []
                results = made.pop().parts if made[-1].role == "tool" else ()
                made.append(Message("tool", (*results, self._result(block))))
            else:
                said.append(self._said(block, kind))
        made += [Message("assistant", tuple(said))] if said or not made else []
        return self._with_fields(made, fields)

    def _is_ours(self, block: Fields, said: list[Part], made: list[Message]) -> bool:
        """Whether this is what a tool of ours gave: then its call stands in the same message."""
        before = [part for message in made for part in message.parts] + said
        called = block.raw("tool_use_id")
        return any(isinstance(part, CallPart) and part.id == called for part in before)

    # Blocks

    def _blocks(self, fields: Fields, name: str) -> list[Fields]:
        given = fields.raw(name)
        if given is None:
            raise fields.missing(name)
        if isinstance(given, str):
            return [Fields({"type": "text", "text": given}, fields.at(name))] if given else []
        if not isinstance(given, list):
            raise Refused(fields.at(name), f"{fields.at(name)} must be {_CONTENT}.", "invalid_type")
        blocks = self._room.objects(fields, name)
        for block in blocks:
            block.inner("cache_control")
        return blocks

    def _checked(self, block: Fields) -> Fields:
        """A block of a known type has what it needs also where it does not belong; there it goes on as it
        is."""
        match block.raw("type"):
            case "tool_use":
                block.need_text("id", most=LONGEST_ID)
                block.need_text("name", most=LONGEST_NAME)
                block.inner("input")
            case "tool_result":
                block.need_text("tool_use_id", most=LONGEST_ID)
                block.flag("is_error")
                for piece in self._blocks(block, "content") if block.has("content") else ():
                    _check_shown(piece, piece.need_text("type"))
            case "image" | "document" as kind:
                _check_shown(block, kind)
            case "thinking":
                block.text("thinking")
                block.text("signature")
        return block

    def _said(self, block: Fields, kind: str) -> Part:
        """A block of the assistant."""
        match kind:
            case "text":
                return self._text(block)
            case "thinking":
                text = block.text("thinking") or ""
                signature = block.text("signature")
                return ReasoningPart(text, self._vouched(block.whole("thinking")) if signature else None)
            case "redacted_thinking":
                return ReasoningPart("", self._vouched(block.whole()))
            case "tool_use":
                return self._call(block)
            case "mcp_tool_use" if block.raw("server_name") == OWN_SERVER:
                return self._call(block, "type", "server_name")
            case "compaction":
                return self._words(block, plain_text(block.raw("content")))
            case _:
                return self._opaque(self._checked(block), kind)

    def _shown(self, block: Fields) -> Shown:
        """A block of the user, or of a result."""
        kind = block.need_text("type")
        match kind:
            case "text":
                return self._text(block)
            case "image" | "document":
                return self._media(block, kind)
            case "search_result":
                found = (block.raw("title"), block.raw("source"), _texts(block.raw("content")))
                return self._words(block, "\n".join(word for word in found if isinstance(word, str)))
            case _:
                return self._opaque(block, kind)

    def _text(self, block: Fields) -> TextPart:
        text = block.text("text")
        if text is None:
            raise block.missing("text")
        beside = block.whole("type", "text")
        if isinstance(beside.get("citations"), list):
            # Pages of other providers, which we told in this protocol's words: nobody here vouches for them.
            theirs = [one for one in beside["citations"] if not (isinstance(one, dict) and OWN_SERVER in one)]
            beside = {**beside, "citations": theirs}
            if not theirs:
                del beside["citations"]
        return TextPart(text, self._kept.state(beside, block))

    def _words(self, block: Fields, words: str) -> TextPart | OpaquePart:
        """A block that is a text for those who do not know it."""
        if not words.strip():
            return OpaquePart(self._kept.sure(block.whole()))
        for name in block.whole("type", "title", "source", "content"):
            self._kept.name(block, name)
        return TextPart(words, self._kept.sure({BLOCK: block.whole()}))

    def _media(self, block: Fields, kind: str) -> Shown:
        """A picture or a document. What stands in a place of the provider's own is for it alone."""
        source, way = _source(block, kind)
        name = (block.text("title") or "") if kind == "document" else ""
        state = self._beside_media(block, source, "title" if kind == "document" else "")
        media_type = source.text("media_type") or ""
        match way:
            case "base64":
                data = source.need_text("data")
                if kind == "image":
                    return ImagePart(data=data, media_type=media_type, state=state)
                return FilePart(name=name, data=data, media_type=media_type, state=state)
            case "url":
                url = source.need_text("url")
                if kind == "image":
                    return ImagePart(url=url, state=state)
                return FilePart(name=name, url=url, state=state)
            case "text" if kind == "document":
                written = base64.b64encode((source.text("data") or "").encode()).decode()
                return FilePart(name=name, data=written, media_type="text/plain", state=state)
            case "content" if kind == "document":
                return self._words(block, _texts(source.raw("content")))
            case "file" if kind == "document":
                return FilePart(name=name, file_id=source.need_text("file_id"), state=state)
            case _:
                return self._opaque(block, f"{kind}.{way[:64]}")

    def _beside_media(self, block: Fields, source: Fields, title: str) -> ProviderState | None:
        beside = block.whole("type", "source", title)
        within = source.whole("type", "media_type", "data", "url", "file_id", "content")
        for name in within:
            self._kept.name(source, name)
        return self._kept.state({**beside, "source": within} if within else beside, block, beside)

    def _call(self, block: Fields, *but: str) -> CallPart:
        arguments = msgspec.json.encode(block.kept("input") or {}).decode()
        return CallPart(
            block.need_text("id", most=LONGEST_ID),
            block.need_text("name", most=LONGEST_NAME),
            arguments,
            self._beside(block, "type", "id", "name", "input", *but),
        )

    def _result(self, block: Fields) -> ResultPart:
        call_id = block.need_text("tool_use_id", most=LONGEST_ID)
        content = self._blocks(block, "content") if block.has("content") else []
        return ResultPart(
            call_id,
            tuple(self._shown(piece) for piece in content),
            bool(block.flag("is_error")),
            self._beside(block, "type", "tool_use_id", "content", "is_error")
            if block.raw("type") == "tool_result"
            else None,
        )

    def _opaque(self, block: Fields, kind: str) -> OpaquePart:
        self._kept.name(block, kind)
        return OpaquePart(self._kept.sure(block.whole()))

    def _vouched(self, data: dict[str, Any]) -> ProviderState:
        return self._kept.sure(data)

    def _beside(self, block: Fields, *but: str) -> ProviderState | None:
        return self._kept.state(block.whole(*but), block)


def _check_shown(block: Fields, kind: str) -> None:
    """Raise `Refused` if a text, a picture or a document is not there."""
    if kind == "text" and block.text("text") is None:
        raise block.missing("text")
    if kind in ("image", "document"):
        _source(block, kind)


def _source(block: Fields, kind: str) -> tuple[Fields, str]:
    """Where a picture or a document is, and in which way that is said."""
    source = block.need_inner("source")
    way = source.need_text("type")
    source.text("media_type")
    if kind == "document":
        block.text("title")
    match way:
        case "base64":
            source.need_text("data")
        case "url":
            source.need_text("url")
        case "text" if kind == "document":
            source.text("data")
        case "file" if kind == "document":
            source.need_text("file_id")
    return source, way


def _texts(content: object) -> str:
    """The texts of blocks inside a block, apart from each other."""
    if isinstance(content, str):
        return content
    return "\n\n".join(word(part.get("text")) for part in objects(content))
