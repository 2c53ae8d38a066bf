"""A run as its own facts, for clients that know us: every item of the journal, with its number as the event's
id.

The number is the cursor: a client that comes back says the last one that it has, and gets what follows. Facts
go out as they are stored, without being made again; only what users say is cut down, so that no event has
megabytes. A heartbeat says what is being waited for; it has no id, so it never becomes a cursor. That it
stands in the journal that a run was waited for is left out: it says less.

For those that draw a run there is a second form, in which each event has what is told of its fact (`narrate`)
in place of the fact. The console is drawn from that.

Events of a run that ended long ago may have been merged since a client saw some of them. One that comes back
from the middle of those gets a `reset` first: it is to forget what it had behind the event `after`, and to
take the snapshot. So does one that has events which a failed database lost together with the server that
drove the run; then there is nothing in the snapshot.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from turnbuckle.journal.port import EPOCH_BITS, Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import ForClients, RunBegun, Text, UserSaid
from turnbuckle.narrate.waiting import WaitingFold, WaitingOn
from turnbuckle.server.faces.joined_events import PieceJoiner
from turnbuckle.turn.facts import Fact, RunEnded, RunStarted, Streamed, UserSpoke, Waited, decode, decode_all
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message
from turnbuckle.wire.sse import comment, frame

_HEAD = b'{"type":"'
_MOST_INPUT = 256 * 1024  # characters of the task's own messages in an event; a page shows far less
_json = msgspec.json.encode


class EventsRenderer:
    """Items up to `after` are not written. What is waited for is folded from the items, so they must come
    from the first one on."""

    def __init__(
        self,
        run: RunId,
        after: int = 0,
        queued: WaitingOn | None = None,
        *,
        told: bool = False,
        joined: bool = False,
    ) -> None:
        """`queued`: the run has not begun, and waits for that. `told`: what is told of each fact goes out in
        its place; `joined`: pieces that are stored already as one, see `joined_events`."""
        self.ended = False
        self._queued = queued
        self._run = run
        self._after = after
        self._comes_back = after > 0
        self._last = 0
        self._narration = Narration(run, arguments=True) if told else None
        self._waiting = WaitingFold() if self._narration is None else self._narration.waiting
        self._joined = joined

    def open(self) -> bytes:
        queued = self._queued
        return comment("open") + (self.beat(queued.since) if queued is not None else b"")

    def take(self, items: Sequence[Item]) -> bytes:
        self._queued = None if items else self._queued
        if self._joined and self._narration is not None and len(items) > 1:
            return self._take_joined(items, self._narration)
        out: list[bytes] = []
        for item in items:
            data = item.data
            tag = data[len(_HEAD) : data.index(b'"', len(_HEAD))]  # a stored fact begins with its tag
            fact = decode(data)
            told = None if self._narration is None else _told(self._narration, fact)
            if self._narration is None:
                self._waiting.take(fact)
            if tag == b"run_ended":
                self.ended = True
            before, self._last = self._last, item.seq
            if item.seq > self._after and tag != b"waited":
                reset, is_told = self._coming_back(before, item, fact)
                self._after = item.seq
                out.append(reset)
                if is_told:
                    continue
                data = told if told is not None else _for_clients(tag, fact, data)
                out.append(b'id: %d\nevent: %b\ndata: {"seq":%d,%b\n\n' % (item.seq, tag, item.seq, data[1:]))
        return b"".join(out)

    def _take_joined(self, items: Sequence[Item], narration: Narration) -> bytes:
        joiner, out = PieceJoiner(), []
        for item, fact in zip(items, decode_all([item.data for item in items]), strict=True):
            text = narration.going_on(fact)
            before, self._last = self._last, item.seq
            known = item.seq <= self._after or self._comes_back
            if text and not known and isinstance(fact, Streamed) and not fact.merged:  # nearly always
                self._after = item.seq
                out.append(joiner.words(item.seq, fact.at, text))
                continue
            values = [] if text else _shown(narration, fact)
            self.ended = self.ended or isinstance(fact, RunEnded)
            if item.seq <= self._after or isinstance(fact, Waited):
                continue
            reset, is_told = self._coming_back(before, item, fact)
            self._after = item.seq
            out.append(reset)
            if is_told:
                continue
            sent: bytes | None
            if isinstance(fact, Streamed) and fact.merged:
                sent = None
            elif text:
                sent = joiner.words(item.seq, fact.at, text)
            else:
                sent = joiner.values(item.seq, fact.at, values)
            if sent is None:
                values = [Text(text)] if text else values
                sent = joiner.flush() + _frame_of(item.seq, fact, values)
            out.append(sent)
        out.append(joiner.flush())
        return b"".join(out)

    def _coming_back(self, before: int, item: Item, fact: Fact) -> tuple[bytes, bool]:
        """What a client that comes back must forget, told once, in front of the first item that is new to it;
        and whether that tells the item, too. `before` is the item in front of it."""
        if not self._comes_back:
            return b"", False
        self._comes_back = False
        if 0 < before < self._after and before >> EPOCH_BITS < item.seq >> EPOCH_BITS:
            return _reset_to(before, fact.at), False
        reset = _reset(item, self._after) if isinstance(fact, Streamed) else b""
        return reset, bool(reset)

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        if self.ended:
            return b""
        on = waits or self._queued or self._waiting.on(now)
        return frame(_json({"type": "heartbeat", "at": now, "waiting_on": on}), "heartbeat")

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        event = {"type": "interrupted", "run": self._run, "resumable": True, "after": self._after}
        event |= {"why": why, "code": code} if why else {}
        return frame(_json(event), "interrupted")


def event_line(item: Item) -> bytes:
    """A stored item as one line of JSON: the data of its event. Nothing if it has none."""
    fact = decode(item.data)
    tag = str(fact.__struct_config__.tag).encode()
    if tag == b"waited":
        return b""
    return b'{"seq":%d,%b\n' % (item.seq, _for_clients(tag, fact, item.data)[1:])


def _for_clients(tag: bytes, fact: Fact, data: bytes) -> bytes:
    return _json(_cut_down(fact)) if tag in (b"run_started", b"user_spoke", b"run_ended") else data


def _told(narration: Narration, fact: Fact) -> bytes:
    """What is told of a fact, with its tag and its time. Most of it is words that go on."""
    if text := narration.going_on(fact):
        return b'{"type":"streamed","at":%b,"told":[{"type":"text","text":%b}]}' % (
            _json(fact.at),
            _json(text),
        )
    return _told_json(fact, _shown(narration, fact))


def _shown(narration: Narration, fact: Fact) -> list[Any]:
    """What clients are told of a fact that does more than go on."""
    values: list[Any] = []
    for value in narration.take(fact):
        if isinstance(value, (RunBegun, UserSaid)):
            values.append(
                {**_cut_down(fact), "type": "run_begun" if isinstance(value, RunBegun) else "user_said"}
            )
        elif not isinstance(value, ForClients):
            values.append(value)
    return values


def _frame_of(seq: int, fact: Fact, values: list[Any]) -> bytes:
    tag = str(fact.__struct_config__.tag).encode()
    return b'id: %d\nevent: %b\ndata: {"seq":%d,%b\n\n' % (seq, tag, seq, _told_json(fact, values)[1:])


def _told_json(fact: Fact, values: list[Any]) -> bytes:
    tag = fact.__struct_config__.tag
    merged = {"merged": fact.merged} if isinstance(fact, Streamed) and fact.merged else {}
    return _json({"type": tag, "at": fact.at, **merged, "told": values})


def _reset(item: Item, after: int) -> bytes:
    """What a client that comes back from inside of merged events must know; nothing, if it does not."""
    fact = decode(item.data)
    assert isinstance(fact, Streamed)
    begins = item.seq - fact.merged + 1
    if not fact.merged or begins > after:
        return b""
    event = {
        "type": "reset",
        "seq": item.seq,
        "at": fact.at,
        "after": begins - 1,
        "snapshot": msgspec.Raw(item.data),
    }
    return b"id: %d\nevent: reset\ndata: %b\n\n" % (item.seq, _json(event))


def _reset_to(seq: int, at: float) -> bytes:
    """A client that comes back has events that a failed store lost: it is to forget all behind the last that
    is left."""
    event = {"type": "reset", "seq": seq, "at": at, "after": seq, "snapshot": Streamed(at, 0, ())}
    return b"id: %d\nevent: reset\ndata: %b\n\n" % (seq, _json(event))


def _cut_down(fact: Fact) -> dict[str, Any]:
    """What came with the task, or was said later, without what only the server and the model need."""
    if isinstance(fact, UserSpoke):
        shown, left_out = _input(fact.messages)
        event: dict[str, Any] = {"type": "user_spoke", "at": fact.at, "id": fact.id, "input": shown}
    elif isinstance(fact, RunEnded):
        ended = {"type": "run_ended", "at": fact.at, "outcome": fact.outcome}
        return ended if fact.spent is None else {**ended, "spent": fact.spent}
    else:
        assert isinstance(fact, RunStarted)
        shown, left_out = _input(fact.messages[max(len(fact.messages) - fact.fresh, 0) :])
        session = fact.session.rpartition("/")[2]
        event = {"type": "run_started", "at": fact.at, "run": fact.run, "session": session, "input": shown}
        origin = fact.origin
        shown_of = {"model": origin.model, "notice": origin.notice, "notice_why": origin.notice_why}
        event |= {"surface": origin.surface, **{key: value for key, value in shown_of.items() if value}}
    return {**event, "left_out": left_out} if left_out else event


def _input(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], int]:
    """The newest messages that fit, and how many do not."""
    room = _MOST_INPUT
    shown: list[dict[str, Any]] = []
    for message in reversed(messages):
        parts = [_part(part) for part in msgspec.to_builtins(message.parts)]
        room -= len(_json(parts))
        if room < 0 and shown:
            break
        shown.append({"role": message.role, "parts": parts})
    return shown[::-1], len(messages) - len(shown)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part without its provider's state, and without the bytes of pictures and files: only how many there
    are."""
    kept = {
        key: value for key, value in part.items() if key not in ("state", "data") and value not in ("", None)
    }
    if "content" in part:
        kept["content"] = [_part(inner) for inner in part["content"]]
    if part.get("data"):
        kept["size"] = len(part["data"]) * 3 // 4
    if isinstance(part.get("text"), str) and len(part["text"]) > _MOST_INPUT:
        kept |= {"text": part["text"][:_MOST_INPUT], "cut": True}
    return kept
