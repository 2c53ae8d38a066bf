"""`reasoning_details`, OpenRouter's list of reasoning pieces: merged so that they can be sent back as they
were."""

from typing import Any

_JOINED = ("text", "summary", "data")


class ReasoningDetails:
    """Fragments with the same index and type are one detail; Gemini sends two types under one index."""

    def __init__(self) -> None:
        self._order: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._at: dict[tuple[object, object], int] = {}

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, found: list[Any]) -> str:
        """Take a chunk's fragments; the readable text among them."""
        shown: list[str] = []
        for detail in found:
            if not isinstance(detail, dict):
                continue
            where = self._place(detail)
            for key, value in detail.items():
                if key in _JOINED and isinstance(value, str):
                    self._pieces[where].setdefault(key, []).append(value)
                    if key != "data":
                        shown.append(value)
                elif value is not None:
                    self._order[where][key] = value
        return "".join(shown)

    def whole(self) -> list[dict[str, Any]]:
        """All details, each in one piece, in the order in which they began."""
        return [
            {**detail, **{key: "".join(parts) for key, parts in pieces.items()}}
            for detail, pieces in zip(self._order, self._pieces, strict=True)
        ]

    def _place(self, detail: dict[str, Any]) -> int:
        index, kind = detail.get("index"), detail.get("type")
        hashable = isinstance(index, int | str | None) and isinstance(kind, str | None)
        key = (index, kind) if hashable and index is not None else (None, len(self._order))
        if key not in self._at:
            self._at[key] = len(self._order)
            self._order.append({})
            self._pieces.append({})
        return self._at[key]
