"""What a provider says beside its words, for clients of another protocol: pages that a text refers to, and
how likely each of its tokens was. Only what both protocols can say is told; of the rest there are names.

Positions are counted in characters of the text that the client has. A Messages provider gives none: what it
cites stands for the whole block.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_PLACES = ("start_index", "end_index")
_TOLD_OTHERWISE = ("content", "annotations", "citations")
"""Fields of a chat message that are translated, or looked into."""
_NO_NAMES = ("thought", "thoughtSignature", "text")
"""Fields of a part without a type that do not say what it is."""


def pages_cited(protocol: str, state: Mapping[str, Any], begins: int, ends: int) -> list[dict[str, Any]]:
    """The pages that a part of a text refers to, as annotations of Responses. The part stands between two
    places of the client's text."""
    return list(_pages(protocol, state, begins, ends))


def _pages(protocol: str, state: Mapping[str, Any], begins: int, ends: int) -> Iterator[dict[str, Any]]:
    listed = state.get("citations" if protocol == "anthropic" else "annotations")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            continue
        inner = one.get("url_citation")
        cited = inner if isinstance(inner, dict) else one
        url, title = cited.get("url"), cited.get("title")
        if not isinstance(url, str):
            continue
        start, end = (cited.get(name) for name in _PLACES)
        if not isinstance(start, int) or not isinstance(end, int):
            start, end = 0, ends - begins
        named = title if isinstance(title, str) else ""
        yield {
            "type": "url_citation",
            "url": url,
            "title": named,
            "start_index": start + begins,
            "end_index": end + begins,
        }


def moved(annotations: Any, by: int) -> list[Any]:
    """Annotations of either of OpenAI's protocols for a text that begins elsewhere."""
    return [_moved(one, by) for one in annotations] if isinstance(annotations, list) else []


def _moved(one: Any, by: int) -> Any:
    if not isinstance(one, dict) or not by:
        return one
    made = {
        name: value + by if name in _PLACES and type(value) is int else value for name, value in one.items()
    }
    return made | {name: _moved(value, by) for name, value in one.items() if isinstance(value, dict)}


def as_message_citations(pages: list[dict[str, Any]], known: int, mark: str) -> list[dict[str, Any]]:
    """The same as citations of Messages, of the kind that needs no seal of its provider. `known`: so many
    were told before. Under `mark` stands where in the text they belong, which also says that they are
    ours."""
    return [
        {
            "type": "search_result_location",
            "source": page["url"],
            "title": page["title"],
            "cited_text": "",
            "search_result_index": known + place,
            "start_block_index": 0,
            "end_block_index": 0,
            mark: {name: page[name] for name in _PLACES},
        }
        for place, page in enumerate(pages)
    ]


def as_chat_annotations(pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as annotations of a chat message."""
    return [
        {
            "type": "url_citation",
            "url_citation": {name: value for name, value in page.items() if name != "type"},
        }
        for page in pages
    ]


def token_odds(protocol: str, where: str, data: Mapping[str, Any]) -> list[Any]:
    """How likely the tokens of the next piece of text were, in the form of both of OpenAI's protocols."""
    found: Any = data.get("logprobs")
    if (protocol, where) == ("openai_chat", "choice") and isinstance(found, dict):
        found = found.get("content")
    elif (protocol, where) != ("openai_responses", "piece"):
        return []
    return found if isinstance(found, list) else []


def grounding_pages(found: Any, text: str) -> list[dict[str, Any]]:
    """What Gemini says of its searches, as annotations. It counts in bytes, of which the text makes
    characters."""
    if not isinstance(found, dict):
        return []
    chunks, supports = found.get("groundingChunks"), found.get("groundingSupports")
    webs = [one.get("web") if isinstance(one, dict) else None for one in chunks or ()]
    raw = text.encode("utf-8", "replace")
    made = []
    for support in supports or ():
        segment = support.get("segment") if isinstance(support, dict) else None
        if not isinstance(segment, dict):
            continue
        start, end = (_characters(raw, segment.get(name)) for name in ("startIndex", "endIndex"))
        for index in support.get("groundingChunkIndices") or ():
            web = webs[index] if isinstance(index, int) and 0 <= index < len(webs) else None
            if isinstance(web, dict) and isinstance(web.get("uri"), str):
                page = {"url": web["uri"], "title": str(web.get("title") or "")}
                made.append({"type": "url_citation", **page, "start_index": start, "end_index": end})
    return made


def _characters(raw: bytes, place: Any) -> int:
    return len(raw[: place if isinstance(place, int) else 0].decode("utf-8", "ignore"))


def item_name(data: Mapping[str, Any]) -> str:
    """What an item, block or part is, by its type; of a message, by what it holds; of what has no type, by
    the name of what it holds."""
    kind, content = data.get("type"), data.get("content")
    if kind == "message" and isinstance(content, list) and content and isinstance(content[0], dict):
        kind = content[0].get("type")
    if isinstance(kind, str) and kind:
        return kind
    return next((name for name in data if name not in _NO_NAMES), "unknown")


def untold_fields(protocol: str, where: str, data: Mapping[str, Any]) -> Iterator[str]:
    """The names of what a message says in fields of which no other protocol knows, such as its pictures."""
    if (protocol, where) == ("openai_chat", "message"):
        yield from (item_name(part) for part in data.get("content", ()))
        yield from (field for field in data if field not in _TOLD_OTHERWISE)
