"""The pages that Gemini found in its searches, and where its text refers to them."""

from typing import Any


def grounding_pages(metadata: Any, text: str) -> list[dict[str, Any]]:
    """What Gemini says of its searches, as annotations. It counts in bytes, of which the text makes
    characters."""
    if not isinstance(metadata, dict):
        return []
    chunks, supports = metadata.get("groundingChunks"), metadata.get("groundingSupports")
    webs = [chunk.get("web") if isinstance(chunk, dict) else None for chunk in chunks or ()]
    raw = text.encode("utf-8", "replace")
    pages = []
    for support in supports or ():
        segment = support.get("segment") if isinstance(support, dict) else None
        if not isinstance(segment, dict):
            continue
        start, end = (_characters(raw, segment.get(name)) for name in ("startIndex", "endIndex"))
        for index in support.get("groundingChunkIndices") or ():
            web = webs[index] if isinstance(index, int) and 0 <= index < len(webs) else None
            if isinstance(web, dict) and isinstance(web.get("uri"), str):
                page = {"url": web["uri"], "title": str(web.get("title") or "")}
                pages.append({"type": "url_citation", **page, "start_index": start, "end_index": end})
    return pages


def _characters(raw: bytes, place: Any) -> int:
    return len(raw[: place if isinstance(place, int) else 0].decode("utf-8", "ignore"))
