"""What a provider says beside its words, for clients of another protocol: pages that a text refers to, and
how likely each of its tokens was. Only what both protocols can say is told; of the rest there are names.

Positions are counted in characters of the text that the client has. A Messages provider gives none: what it
cites stands for the whole block.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from turnbuckle.wire.registry import protocol_called

_PLACES = ("start_index", "end_index")


def pages_cited(protocol: str, state: Mapping[str, Any], begins: int, ends: int) -> list[dict[str, Any]]:
    """The pages that a part of a text refers to, as annotations of Responses. The part stands between two
    places of the client's text."""
    return list(_pages(protocol, state, begins, ends))


def _pages(protocol: str, state: Mapping[str, Any], begins: int, ends: int) -> Iterator[dict[str, Any]]:
    spoken = protocol_called(protocol)
    citations = state.get(spoken.citations_field) if spoken is not None else None
    for citation in citations if isinstance(citations, list) else ():
        if not isinstance(citation, dict):
            continue
        inner = citation.get("url_citation")
        cited = inner if isinstance(inner, dict) else citation
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
    return [_moved(page, by) for page in annotations] if isinstance(annotations, list) else []


def _moved(page: Any, by: int) -> Any:
    if not isinstance(page, dict) or not by:
        return page
    places = {name: page[name] + by for name in _PLACES if type(page.get(name)) is int}
    inner = {name: _moved(value, by) for name, value in page.items() if isinstance(value, dict)}
    return page | places | inner


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
    spoken = protocol_called(protocol)
    odds = spoken.token_odds(where, data) if spoken is not None else None
    return odds if isinstance(odds, list) else []


def untold_fields(protocol: str, where: str, data: Mapping[str, Any]) -> Iterable[str]:
    """The names of what a message says in fields of which no other protocol knows, such as its pictures."""
    spoken = protocol_called(protocol)
    return spoken.untold_fields(where, data) if spoken is not None else ()
