"""A run of many events and a session of many runs, as a server would tell them, for the console alone."""

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

AT = 1_790_000_000.0
PAGE = 100


def run_events(count: int) -> list[dict[str, Any]]:
    """So many events: words in small pieces, with a call between them each hundred."""
    events = [
        _event(1, "run_started", {"type": "run_begun", "run": "big", "session": "", "input": [_said()]})
    ]
    call = {"type": "model_called", "attempt": 1, "route": "main", "model": "m", "why": "first"}
    events.append(_event(2, "model_asked", call))
    for seq in range(3, count):
        place, card = seq % 100, seq // 100
        events.append(_event(seq, "streamed", *_told(place, card)))
    end = {"type": "run_over", "end": {"kind": "completed", "why": ""}}
    return [*events, _event(count, "run_ended", end)]


def _told(place: int, card: int) -> list[dict[str, Any]]:
    tool = {"card": card, "tool": "read_file", "call": f"c{card}"}
    match place:
        case 96:
            return [{"type": "call_arriving", "card": card, "name": "read_file", "attempt": 1}]
        case 97:
            return [{"type": "tool_begun", **tool, "arguments": {"path": f"{card}.txt"}}]
        case 98:
            outcome = {"status": "finished", "text": "done", "seconds": 0.1, "killed": [], "survivors": []}
            return [{"type": "tool_ended", **tool, "outcome": outcome}]
        case _ if card % 10 == 0:
            return [{"type": "text", "text": f"word {place} " if place else "\n\nA new paragraph. "}]
        case _:
            return [{"type": "reasoning", "text": "thinking "}]


def _event(seq: int, name: str, *told: dict[str, Any]) -> dict[str, Any]:
    return {"type": name, "seq": seq, "at": AT + seq / 100, "told": list(told)}


def _said() -> dict[str, Any]:
    return {"role": "user", "parts": [{"kind": "text", "text": "do it"}]}


def frames(events: list[dict[str, Any]]) -> str:
    return "".join(f"id: {one['seq']}\nevent: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def fake_run(page: "Page", count: int) -> list[str]:
    """The run `big`. Gives the requests that are made for it, as they come."""
    body, asked = frames(run_events(count)), []

    def answer(route: "Route") -> None:
        asked.append(route.request.url)
        if "/events" in route.request.url:
            route.fulfill(body=body, content_type="text/event-stream")
        else:
            view = {"id": "big", "session": "", "status": "completed", "title": "Big", "last_event": count}
            route.fulfill(json=view)

    page.route("**/v1/runs/big**", answer)
    return asked


def fake_session(page: "Page", runs: int) -> list[str]:
    """The session `many`, each of whose runs is a question and an answer."""
    asked: list[str] = []
    view = {"id": "many", "title": "Many", "created_at": AT, "updated_at": AT, "running": None}

    def session(route: "Route") -> None:
        asked.append(route.request.url)
        address = urlsplit(route.request.url)
        if address.path.endswith("/messages"):
            route.fulfill(json=_messages(runs, parse_qs(address.query)))
        elif address.path.endswith("/inbox"):
            route.fulfill(json={"data": [], "has_more": False, "next": None})
        else:
            route.fulfill(json=view)

    def run(route: "Route") -> None:
        asked.append(route.request.url)
        if "/events" in route.request.url:
            route.fulfill(body=frames(run_events(20)), content_type="text/event-stream")
        else:
            route.fulfill(json={"status": "completed", "last_event": 20})

    page.route("**/v1/sessions/many**", session)
    page.route("**/v1/runs/run-**", run)
    return asked


def _messages(runs: int, query: dict[str, list[str]]) -> dict[str, Any]:
    """A page from the newest back."""
    start = int(query["after"][0]) if "after" in query else 2 * runs
    numbers = range(start - 1, max(start - 1 - PAGE, -1), -1)
    data = [
        {
            "id": str(number),
            "run": f"run-{number // 2}",
            "role": "assistant" if number % 2 else "user",
            "text": f"message {number}",
            "at": AT + number,
            "shared": False,
        }
        for number in numbers
    ]
    more = bool(numbers) and numbers[-1] > 0
    return {"data": data, "has_more": more, "next": str(numbers[-1]) if more else None}
