"""One run as every surface tells it: each gives the text, the outcome and the notices, read from what it writes."""

import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from support.narrate.chat_output import asides, chat, deltas, plain
from support.narrate.messages_output import asides as message_asides
from support.narrate.messages_output import message, read_message, texts, tools, whole_message
from support.narrate.responses_output import events as response_events
from support.narrate.responses_output import response, socket_events
from support.narrate.sample_runs import RUN, frames, whole

from turnbuckle.agent.events import Cursor, EventRenderer
from turnbuckle.agent.result import result_of
from turnbuckle.cli.chat.renderer import ChatRunRenderer
from turnbuckle.cli.exits import EXIT_CODES
from turnbuckle.cli.pieces import Line, PieceRenderer, Words
from turnbuckle.cli.screen import Screen
from turnbuckle.journal.port import Item, StreamRow
from turnbuckle.narrate.line_ends import gap
from turnbuckle.narrate.told import Notice, RunOver, Text, ToolEnded
from turnbuckle.server.faces.events import EventsRenderer, event_line
from turnbuckle.service.run_view import RunFold
from turnbuckle.turn.facts import Fact, decode
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.ids import RouteName

NODE = Path(sys.executable).parent / "node"
NOTES = ("[Not finished: ", "[Stopped.")
_ROUTES = tuple(RouteFacts(RouteName(name), "openai_chat", "m") for name in ("main", "other", "spare"))
_ROW = StreamRow("r", "run", "s", "", "completed", "", 1.0, 2.0, 0, "")
Run = Sequence[Item]


class Rendering(Struct, frozen=True):
    """`text` is None where a surface has no place for it: an error in place of an answer."""

    text: str | None
    outcome: str
    why: str
    notices: tuple[str, ...]
    tools: tuple[tuple[str, str], ...] | None = None
    """Name and end of each call that began, where the surface tells of them."""


def joined(texts: Sequence[str]) -> str:
    """Texts that a surface keeps apart, as the paragraphs that they are."""
    made = ""
    for text in texts:
        made = f"{made}{gap(made, text)}{text}" if text else made
    return made


def without_note(text: str) -> str:
    for note in NOTES:
        text = text.partition(note)[0]
    return text.rstrip("\n")


def chat_streamed(run: Run) -> Rendering:
    data = whole(chat(), run)
    own = next(
        body["turnbuckle"] for _, body in frames(data) if body and "outcome" in body.get("turnbuckle", ())
    )
    text = joined((without_note("".join(deltas(data, "content"))), "".join(deltas(data, "refusal"))))
    notices = [one for one in asides(data, "notice") if not one.startswith("waiting ")]
    ends = [
        (tool["tool"], tool["status"].replace("completed", "finished"))
        for tool in asides(data, "tool")
        if tool["status"] != "running"
    ]
    return Rendering(text.rstrip("\n"), own["outcome"], own["why"], tuple(notices), tuple(ends))


def chat_plain(run: Run) -> Rendering:
    body = plain(run).body
    own, text = body["turnbuckle"], None
    if "choices" in body:
        message = body["choices"][0]["message"]
        text = joined((without_note(message["content"] or ""), message["refusal"] or "")).rstrip("\n")
    return Rendering(text, own["outcome"], own["why"], tuple(own.get("notices", ())))


def _items(output: list[dict[str, Any]]) -> str:
    parts = [item["content"][0] for item in output if item["type"] == "message"]
    return without_note(joined([part.get("text", part.get("refusal")) for part in parts]))


def responses_streamed(run: Run) -> Rendering:
    return _of_responses(response_events(whole(response(), run)))


def responses_socket(run: Run) -> Rendering:
    return _of_responses(socket_events(run))


def _of_responses(seen: list[dict[str, Any]]) -> Rendering:
    places: dict[int, list[str]] = {}
    for event in seen:
        if event["type"] in ("response.output_text.delta", "response.refusal.delta"):
            places.setdefault(event["output_index"], []).append(event["delta"])
    text = joined(["".join(places[place]) for place in sorted(places)])
    own = seen[-1]["response"]["turnbuckle"]
    ends = [
        (event["item"]["name"], "finished" if event["item"]["status"] == "completed" else "")
        for event in seen
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "mcp_call"
    ]
    notices = [event["turnbuckle"]["notice"] for event in seen if "notice" in event.get("turnbuckle", ())]
    return Rendering(without_note(text), own["outcome"], own["why"], tuple(notices), tuple(ends))


def responses_plain(run: Run) -> Rendering:
    dialect = response()
    whole(dialect, run)
    body = dialect.answer().body
    own = body["turnbuckle"]
    return Rendering(_items(body["output"]), own["outcome"], own["why"], tuple(own.get("notices", ())))


def messages_streamed(run: Run) -> Rendering:
    """A failed one has its words in the blocks that came before the error."""
    data = whole(message(), run)
    read = read_message(data)
    own, notices = read.made["turnbuckle"], tuple(message_asides(data, "notice"))
    text = without_note(joined(texts(read.content)))
    return Rendering(text, own["outcome"], own["why"], notices, tools(read.content))


def messages_plain(run: Run) -> Rendering:
    body = whole_message(run).body
    own = body["turnbuckle"]
    text = without_note(joined(texts(body["content"]))) if body["type"] == "message" else None
    return Rendering(text, own["outcome"], own["why"], tuple(own.get("notices", ())))


def _fold(run: Run) -> RunFold:
    fold = RunFold(Policy(_ROUTES))
    for item in run:
        fold.take(item.seq, decode(item.data))
    return fold


def runs_view(run: Run) -> Rendering:
    view = _fold(run).view(_ROW, "local", live=False, now=9.0)
    assert view.outcome is not None
    return Rendering(view.output.rstrip("\n"), view.status, view.outcome.why, view.notices)


def agent_result(run: Run) -> Rendering:
    result = result_of(_fold(run), _ROW)
    return Rendering(result.text.rstrip("\n"), result.outcome, result.why, result.notices)


def agent_events(run: Run) -> Rendering:
    renderer = EventRenderer(RUN, Cursor())
    events = [event for item in run for event in renderer.take(item)]
    text = "".join(event.text for event in events if isinstance(event, Text))
    notices = tuple(event.text for event in events if isinstance(event, Notice))
    last = events[-1]
    assert isinstance(last, RunOver)
    ends = [(event.tool, event.status) for event in events if isinstance(event, ToolEnded) and event.began]
    return Rendering(text.rstrip("\n"), last.outcome, last.why, notices, tuple(ends))


def _by_lines(facts: Sequence[Fact], lines: Sequence[str], text: str) -> Rendering:
    """The last line says how it ended; of the others those count that are no tool's and no person's."""
    lines = [line for line in lines if not line.startswith(("wasted: ", "draft kept: "))]
    kind, _, why = lines[-1].partition(" after ")
    quiet = tuple(line for line in lines[:-1] if line[:2] not in ("→ ", "✓ ", "✗ ", "? ", "  "))
    assert kind in EXIT_CODES
    return Rendering(text.rstrip("\n"), kind, why.partition(": ")[2], quiet)


def cli_plain(run: Run) -> Rendering:
    """As it is in a pipe: the text on the one side, everything else on the other."""
    out, err, renderer = io.StringIO(), io.StringIO(), PieceRenderer()
    screen = Screen(out, err)
    facts = [decode(item.data) for item in run]
    for fact in facts:
        screen.show(renderer.take(fact))
    return _by_lines(facts, err.getvalue().splitlines(), out.getvalue())


def cli_json(run: Run) -> Rendering:
    """The facts themselves, folded again from what a program reads. What was said to the model comes as the
    `input` of the events, and is put back."""
    read = [msgspec.json.decode(line) for line in b"".join(map(event_line, run)).splitlines()]
    said = {
        item.seq: item
        for item in run
        if msgspec.json.decode(item.data)["type"] in ("run_started", "user_spoke")
    }
    facts = [
        said.get(one["seq"])
        or Item(
            one["seq"],
            msgspec.json.encode({"type": one.pop("type"), **{k: v for k, v in one.items() if k != "seq"}}),
        )
        for one in read
    ]
    return runs_view(facts)


def chat_cli(run: Run) -> Rendering:
    renderer = ChatRunRenderer()
    facts = [decode(item.data) for item in run]
    pieces = [
        piece
        for number, fact in enumerate(facts)
        for piece in renderer.take(number, fact)
        if not _is_answer(fact)
    ]
    text = "".join(f"{piece.apart}{piece.text}" for piece in pieces if isinstance(piece, Words))
    return _by_lines(facts, [piece.text for piece in pieces if isinstance(piece, Line)], text)


def _is_answer(fact: Fact) -> bool:
    return type(fact).__name__ == "ApprovalAnswered"


SURFACES: dict[str, Callable[[Run], Rendering]] = {
    "chat, streamed": chat_streamed,
    "chat, plain": chat_plain,
    "responses, streamed": responses_streamed,
    "responses, WebSocket": responses_socket,
    "responses, plain": responses_plain,
    "messages, streamed": messages_streamed,
    "messages, plain": messages_plain,
    "GET /v1/runs": runs_view,
    "Agent: result": agent_result,
    "Agent: events": agent_events,
    "turnbuckle run": cli_plain,
    "turnbuckle run --json": cli_json,
    "turnbuckle chat": chat_cli,
}


def console(runs: dict[str, Run]) -> dict[str, tuple[Rendering, str]]:
    """What the page's fold makes of the events of many runs, and the texts that it draws."""
    sent = {
        name: [
            body
            for _, body in frames(EventsRenderer(RUN, told=True).take(run))
            if body["type"] != "heartbeat"
        ]
        for name, run in runs.items()
    }
    script = Path(__file__).parent / "console_surface.mjs"
    done = subprocess.run(
        [NODE, script], input=msgspec.json.encode(sent), capture_output=True, timeout=120, check=True
    )
    made = msgspec.json.decode(done.stdout)
    return {
        name: (
            Rendering(
                one["text"].rstrip("\n"),
                one["outcome"],
                one["why"],
                tuple(one["notices"]),
                tuple((name, end) for name, end in one["tools"]),
            ),
            joined(one["drawn"]).rstrip("\n"),
        )
        for name, one in made.items()
    }
