"""Pages that providers of other protocols refer to, as citations of a message."""

from typing import Any

from turnbuckle.server.faces.chat.renderer import KEY
from turnbuckle.wire.across import as_message_citations, pages_cited


class CitedPages:
    """Knows where in the text its parts begin, and tells each page once. Keeps no text."""

    def __init__(self) -> None:
        self._length = 0  # characters of the text
        self._where = (0, 0)  # attempt and block of its last words
        self._began = 0  # where that block begins in it
        self._reply_began = 0  # and where that attempt does
        self._told: list[dict[str, Any]] = []

    def said(self, text: str, where: tuple[int, int]) -> None:
        """More of the text."""
        if where[0] != self._where[0]:
            self._reply_began = self._length
        if where != self._where:
            self._where, self._began = where, self._length
        self._length += len(text)

    def grew(self, text: str) -> None:
        """More of the same."""
        self._length += len(text)

    def of_part(self, protocol: str, state: dict[str, Any], where: tuple[int, int]) -> list[dict[str, Any]]:
        """What the state of a part tells that is new."""
        return self._fresh(protocol, state, self._began) if where == self._where else []

    def of_reply(self, protocol: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
        """What a provider says of its whole reply that is new."""
        return self._fresh(protocol, fields, self._reply_began)

    def _fresh(self, protocol: str, state: dict[str, Any], began: int) -> list[dict[str, Any]]:
        pages = pages_cited(protocol, state, began, self._length)
        fresh = [page for page in pages if page not in self._told]
        made = as_message_citations(fresh, len(self._told), KEY)
        self._told += fresh
        return made
