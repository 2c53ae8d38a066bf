"""A run as its own facts: everything once, in order, under numbers that stay good forever."""

from typing import Any

import msgspec
import pytest
from support.narrate.sample_runs import ALL, RUN, items, one_by_one, run_named, whole
from support.turns.turn_facts import burst

from turnbuckle.journal.port import EPOCH_BITS, Item
from turnbuckle.server.faces.events import EventsRenderer
from turnbuckle.turn.facts import RunStarted, decode, encode
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import (
    FilePart,
    ImagePart,
    Message,
    ProviderState,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.request import RunOptions, ToolSpec

OPEN = b": open\n\n"


def read(data):
    """(id, name, JSON) of each event, as the standard reads them. Comments are left out."""
    found = []
    for block in data.decode().split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        if fields:
            found.append((fields.get("id"), fields["event"], msgspec.json.decode(fields["data"])))
    return found


def events(run=RUN, **options):
    return EventsRenderer(run, **options)


def started(*messages, **fields):
    fact = RunStarted(1.0, RunId("r"), SessionId("ann/s1"), messages, **fields)
    ((_, name, data),) = read(events().take(items(fact)))
    assert name == "run_started"
    return data


@pytest.mark.requirement("G4", "F5")
def test_the_beginning_says_what_the_user_is_to_be_told():
    origin = Origin(notice="New conversation.", notice_why="new", echo={"a": 1})
    told = started(origin=origin)
    assert (told["notice"], told["notice_why"], "echo" in told) == ("New conversation.", "new", False)
    assert "notice" not in started()


@pytest.mark.requirement("C6", "F5")
@pytest.mark.parametrize("name", ALL)
def test_in_its_second_form_every_event_has_what_is_told_of_it_and_nothing_of_the_fact(name):
    facts, told = read(whole(events(), run_named(name))), read(whole(events(told=True), run_named(name)))
    assert [(number, tag, data["at"]) for number, tag, data in told] == [
        (number, tag, data["at"]) for number, tag, data in facts
    ]
    assert all(data.keys() <= {"seq", "type", "at", "merged", "told"} for _, _, data in told)
    first, last = told[0][2]["told"][0], told[-1][2]["told"][-1]
    assert (first["type"], first["input"], last["type"]) == ("run_begun", facts[0][2]["input"], "run_over")


@pytest.mark.requirement("F5", "E4")
@pytest.mark.parametrize("name", ALL)
def test_every_fact_is_told_as_it_is_stored_under_its_number(name):
    run = run_named(name)
    first, *others = read(whole(events(), run))
    assert (first[0], first[1], first[2]["seq"]) == (str(run[0].seq), "run_started", run[0].seq)
    assert len(others) == len(run) - 1
    for item, (number, tag, data) in zip(run[1:], others, strict=True):
        assert (number, data["seq"]) == (str(item.seq), item.seq)
        del data["seq"]
        if tag == "user_spoke":
            assert data["input"] == [{"role": "user", "parts": [{"kind": "text", "text": "Do it."}]}]
            continue
        stored = msgspec.json.decode(item.data)
        if tag == "run_ended":  # without what the next run needs, and no reader
            ended = decode(item.data)
            stored = {"type": tag, "at": ended.at, "outcome": ended.outcome}
            stored |= {"spent": ended.spent} if ended.spent is not None else {}
            stored = msgspec.json.decode(msgspec.json.encode(stored))
        assert data == stored
        assert data["type"] == tag


@pytest.mark.requirement("F5", "E4")
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("name", ["one tool", "killed-in-tool", "consent", "handed over"])
def test_a_reader_that_comes_back_to_any_place_gets_exactly_the_rest(name, told):
    run, data = run_named(name), whole(events(told=told), run_named(name))
    pieces = data.removeprefix(OPEN).split(b"\n\n")[:-1]
    assert one_by_one(events(told=told), run) == data
    for at in range(len(run) + 1):
        rest = b"".join(piece + b"\n\n" for piece in pieces[at:])
        after = run[at - 1].seq if at else 0
        reader = events(after=after, told=told)
        assert reader.open() + reader.take(run) == OPEN + rest
        assert reader.ended


def test_numbers_of_a_later_epoch_are_told_as_they_are():
    run = [Item((3 << EPOCH_BITS) + 1, encode(burst(TextDelta(0, "a"))))]
    ((number, _, data),) = read(events(after=7).take(run))
    assert number == str(data["seq"]) == str(run[0].seq)


@pytest.mark.requirement("K6")
@pytest.mark.parametrize(
    "after, names", [(2, ["streamed"]), (3, ["reset", "streamed"])], ids=["kept", "lost"]
)
@pytest.mark.parametrize("form", [{}, {"told": True}, {"told": True, "joined": True}])
def test_a_client_with_events_that_are_lost_is_told_to_forget_them(after, names, form):
    pieces = [(1, "a"), (2, "b"), ((1 << EPOCH_BITS) + 1, "c")]
    told = read(
        events(after=after, **form).take(
            [Item(seq, encode(burst(TextDelta(0, text)))) for seq, text in pieces]
        )
    )
    assert [name for _, name, _ in told] == names
    if after == 3:
        assert (told[0][0], told[0][2]["after"], told[0][2]["snapshot"]["events"]) == ("2", 2, [])


@pytest.mark.parametrize("name", ALL)
def test_a_dialect_has_ended_with_the_last_item_and_not_before(name):
    reader = events()
    for item in run_named(name):
        assert not reader.ended
        reader.take([item])
    assert reader.ended
    assert (reader.beat(9.0), reader.interrupted()) == (b"", b"")


# The first fact


def test_the_start_tells_what_came_with_the_task_and_not_what_was_known_before():
    system, old, new = (
        Message(role, (TextPart(text),))
        for role, text in (("system", "Be kind."), ("user", "Hi"), ("user", "Do it."))
    )
    told = started(
        system,
        old,
        new,
        origin=Origin("chat", "agent", echo={"tools": ["x"]}),
        options=RunOptions(tools=(ToolSpec("edit"),)),
    )
    assert told == {
        "seq": 1, "type": "run_started", "at": 1.0, "run": "r", "session": "s1", "surface": "chat", "model": "agent",
        "input": [{"role": "user", "parts": [{"kind": "text", "text": "Do it."}]}],
    }  # fmt: skip
    assert len(started(old, new, fresh=2)["input"]) == 2
    assert started(old, new, fresh=0)["input"] == []
    assert len(started(old, fresh=9)["input"]) == 1


def test_the_start_carries_neither_bytes_of_pictures_nor_sealed_state():
    state = ProviderState("openai_responses", "m", {"encrypted_content": "gAAA"})
    data = "QUJD" * 100_000
    said = Message(
        "user",
        (
            ImagePart(data=data, media_type="image/png"),
            FilePart(name="a.pdf", data=data),
            ReasoningPart("Hm.", state),
        ),
    )
    back = Message("tool", (ResultPart("c1", (TextPart("see"), ImagePart(data=data))),))
    told = started(said, back, fresh=2)
    first, second = told["input"]
    assert first["parts"] == [
        {"kind": "image", "media_type": "image/png", "size": 300_000},
        {"kind": "file", "name": "a.pdf", "size": 300_000},
        {"kind": "reasoning", "text": "Hm."},
    ]
    assert second["parts"][0]["content"] == [
        {"kind": "text", "text": "see"},
        {"kind": "image", "size": 300_000},
    ]


def test_a_long_start_is_cut_down_and_says_so():
    page = Message("user", (TextPart("x" * 100_000),))
    told = started(*[page] * 5, fresh=5)
    assert (len(told["input"]), told["left_out"]) == (2, 3)
    ((part,),) = [
        message["parts"] for message in started(Message("user", (TextPart("x" * 900_000),)))["input"]
    ]
    assert (len(part["text"]), part["cut"]) == (256 * 1024, True)


# Heartbeats


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(
    "name, count, kind, since",
    [
        ("consent", 2, "provider_first_token", 2.0),
        ("stopped in text", 3, "provider", 3.0),
        ("consent", 4, "approval", 3.2),
        ("consent", 6, "tool", 4.0),
        ("rate limited", 4, "rate_limit", 3.5),
    ],
)
def test_a_heartbeat_says_what_is_waited_for_and_since_when(name, count, kind, since):
    run = run_named(name)
    for reader in (events(), events(after=run[count - 1].seq)):
        reader.take(run[:count])
        ((number, tag, data),) = read(reader.beat(42.0))
        assert (number, tag) == (None, "heartbeat")
        assert (data["type"], data["at"], data["waiting_on"]["kind"], data["waiting_on"]["since"]) == (
            "heartbeat",
            42.0,
            kind,
            since,
        )


@pytest.mark.requirement("F8")
def test_a_heartbeat_before_anything_is_known_waits_for_nothing():
    ((_, _, data),) = read(events().beat(1.0))
    assert data == {"type": "heartbeat", "at": 1.0, "waiting_on": None}


@pytest.mark.requirement("F5")
def test_a_server_that_stops_says_that_the_run_can_be_read_on_and_from_where():
    reader = events()
    reader.take(run_named("one tool")[:5])
    ((number, tag, data),) = read(reader.interrupted())
    assert (number, tag) == (None, "interrupted")
    assert data == {"type": "interrupted", "run": "r", "resumable": True, "after": 5}
    assert not reader.ended


def _pieces(told):
    """What is told, piece by piece: words of one kind that stand behind each other as one."""
    found: list[list[Any]] = []
    for _, _, data in told:
        for value in data["told"]:
            kind = {key: part for key, part in value.items() if key != "text"}
            joins = value["type"] in ("text", "reasoning", "call_grown") and not value.get("gap")
            if found and joins and found[-1][0] == kind:
                found[-1][1] += value["text"]
            else:
                found.append([kind, value.get("text", "")])
    return found


@pytest.mark.requirement("F5", "E4")
@pytest.mark.parametrize("name", ALL)
def test_joined_events_tell_the_same_under_numbers_that_are_cursors(name):
    run = run_named(name)
    apart = read(whole(events(told=True), run))
    joined = read(events(told=True, joined=True).take(run))
    assert _pieces(joined) == _pieces(apart)
    times = {number: data["at"] for number, _, data in apart}
    for number, tag, data in joined:
        assert (data["seq"], data["type"], data["at"]) == (int(number), tag, times[number])
        assert data.get("from", data["at"]) <= data["at"]
    assert [number for number, _, _ in joined] == sorted((number for number, _, _ in joined), key=int)
    assert joined[-1][:2] == apart[-1][:2]
    for number, _, _ in joined:
        rest = read(events(after=int(number), told=True, joined=True).take(run))
        assert [one for one in rest if one[1] != "reset"] == joined[
            [one[0] for one in joined].index(number) + 1 :
        ]
    assert read(one_by_one(events(told=True, joined=True), run)) == apart  # live, each as it comes


@pytest.mark.requirement("F5")
def test_a_thousand_pieces_are_one_event_and_a_silence_parts_them():
    words = [burst(TextDelta(0, f"{number} "), at=10 + number / 128) for number in range(1000)]
    later = [burst(TextDelta(0, "late "), at=30.0), burst(TextDelta(0, "more"), at=30.5)]
    told = read(events(told=True, joined=True).take(items(*words, *later)))
    shown = [(number, data.get("from"), data["at"], data["told"][0]["text"][-6:]) for number, _, data in told]
    assert shown[1:] == [
        ("1000", 10 + 1 / 128, 10 + 999 / 128, "8 999 "),
        ("1002", 30.0, 30.5, "e more"),
    ]
