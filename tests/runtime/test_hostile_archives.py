"""Files that are no honest export: refused in words, in linear time, and without leaving anything that costs later."""

import asyncio
import cProfile
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.errors import ImportRefused
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.runtime.archive import Importer
from turnbuckle.runtime.archive_file import (
    MOST_CHANGES,
    MOST_RUNS,
    MOST_WAITING,
    Archive,
    made_ready,
    read_archive,
)
from turnbuckle.runtime.environment import Environment
from turnbuckle.session import facts as session_facts
from turnbuckle.session.facts import (
    MessageAccepted,
    MessageInjected,
    MessageRefused,
    RunDeleted,
    SessionFact,
    SessionMade,
    Suspended,
    TakenUp,
    Undone,
)
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn import facts as run_facts
from turnbuckle.turn.facts import SESSION, RunStarted
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart

SAMPLE = (Path(__file__).parent.parent / "recorded_runs").glob("*.jsonl")
WORDS = (Message("user", (TextPart("hello"),)),)


def archive(*facts: SessionFact, made: SessionMade = SessionMade(1.0), **head: object) -> list[bytes]:
    """A file with a session of these facts and no runs."""
    all_facts = (made, *facts)
    first = {
        "format": "turnbuckle.session",
        "version": 1,
        "session": "s",
        "items": len(all_facts),
        "runs": [],
        **head,
    }
    lines = [
        b'{"stream":"s","seq":%d,"fact":%b}' % (number, session_facts.encode(fact))
        for number, fact in enumerate(all_facts, 1)
    ]
    return [msgspec.json.encode(first), *lines]


def accepted(number: int) -> MessageAccepted:
    return MessageAccepted(1.0, f"m{number}", RunId(f"r{number}"), WORDS)


def ready(read: Archive) -> int:
    names = iter(range(10_000_000))
    return made_ready(read, SessionId("x"), lambda: RunId(f"n{next(names)}"), 2.0).items


@pytest.mark.requirement("R12")
@pytest.mark.parametrize(
    "facts, why",
    [
        ([accepted(number) for number in range(MOST_WAITING + 1)], f"more than {MOST_WAITING} messages wait"),
        (
            [Suspended(1.0, "crashed", RunId(f"r{n}")) for n in range(MOST_CHANGES + 1)],
            "given up or taken back",
        ),
        ([Undone(1.0, RunId(f"r{n}")) for n in range(MOST_CHANGES + 1)], "given up or taken back"),
        ([RunDeleted(1.0, RunId(f"r{n}")) for n in range(MOST_CHANGES + 1)], "given up or taken back"),
        ([TakenUp(1.0, RunId(f"r{n}")) for n in range(MOST_CHANGES + 1)], "given up or taken back"),
    ],
    ids=["one too many waits", "suspended", "undone", "deleted", "taken up"],
)
def test_what_no_live_session_could_have_is_refused(facts: list[SessionFact], why: str):
    with pytest.raises(ImportRefused, match=why):
        read_archive(archive(*facts))


@pytest.mark.requirement("R1", "R12")
def test_a_hundred_thousand_waiting_messages_are_refused_at_the_first_that_is_too_many():
    """Nothing behind it is even read."""
    read = 0

    def lines() -> Iterator[bytes]:
        nonlocal read
        yield archive(items=100_001)[0]
        made = (SessionMade(1.0), *(accepted(number) for number in range(MOST_WAITING + 10)))
        for read, fact in enumerate(made, 1):
            yield b'{"stream":"s","seq":%d,"fact":%b}' % (read, session_facts.encode(fact))

    with pytest.raises(ImportRefused, match="messages wait"):
        read_archive(lines())
    assert read == MOST_WAITING + 2


@pytest.mark.requirement("R12")
def test_more_runs_than_a_session_may_have_are_refused_by_the_first_line():
    runs = [{"run": f"r{number}", "items": 0} for number in range(MOST_RUNS + 1)]
    with pytest.raises(ImportRefused, match="at most 50,000 runs"):
        read_archive(archive(runs=runs))
    with pytest.raises(ImportRefused, match="items"):
        read_archive(archive(items=10**9))


@pytest.mark.requirement("R1", "R12")
def test_twice_as_many_messages_cost_twice_as_much():
    """In calls of functions, which no busy machine changes."""

    def work(count: int) -> int:
        facts: list[SessionFact] = []
        for number in range(count):
            facts.append(accepted(number))
            if number >= 400:  # some always wait
                facts.append(MessageRefused(1.0, f"m{number - 400}", "no"))
        profile = cProfile.Profile()
        profile.runcall(lambda: ready(read_archive(archive(*facts))))
        return sum(entry.callcount for entry in profile.getstats())

    one, two, three = work(600), work(1_000), work(1_400)
    assert three - two < 1.2 * (two - one)


@pytest.mark.requirement("R12")
def test_what_waits_within_the_cap_comes_in_as_refused_and_nothing_waits_then():
    read = read_archive(archive(*[accepted(number) for number in range(MOST_WAITING)]))
    assert ready(read) == 1 + 2 * MOST_WAITING


def naming(kind: type[Any], run: RunId) -> Any:
    """A fact of this kind that names the run wherever it can name one."""
    whole: dict[str, Any] = {
        "at": 1.0,
        "id": "m",
        "why": "crashed",
        "how": "task",
        "messages": WORDS,
        "session": "s",
    }
    named = {field.name: run for field in msgspec.structs.fields(kind) if field.type is RunId}
    return kind(
        **{
            field.name: whole[field.name]
            for field in msgspec.structs.fields(kind)
            if field.required and field.name in whole
        },
        **named,
    )


@pytest.mark.requirement("R2")
def test_no_fact_of_an_archive_names_a_run_by_the_name_that_stands_in_the_file():
    """Whatever field holds it, also one that somebody adds: so no line leads to a run of somebody else."""
    victim = RunId("r-of-somebody-else")
    for kind in typing.get_args(SessionFact):
        if kind is SessionMade:
            with pytest.raises(ImportRefused, match="which is not in the file"):
                read_archive(archive(made=naming(SessionMade, victim)))
            continue
        read = read_archive(archive(naming(kind, victim)))
        made = made_ready(read, SessionId("x"), lambda: RunId("new"), 2.0)
        assert victim.encode() not in b"".join(made.facts), kind
    started = naming(RunStarted, victim)
    for base in (RunId(""), SESSION):
        lines = archive(runs=[{"run": "r1", "items": 1}])
        fact = run_facts.encode(msgspec.structs.replace(started, base=base))
        read = read_archive([*lines, b'{"stream":"r1","seq":1,"fact":%b}' % fact])
        made = made_ready(read, SessionId("x"), lambda: RunId("new"), 2.0)
        assert victim.encode() not in b"".join(made.runs[0].chunks[0])
    with pytest.raises(ImportRefused, match="which is not before it"):
        read_archive([*lines, b'{"stream":"r1","seq":1,"fact":%b}' % run_facts.encode(started)])


LINES = [
    *archive(
        accepted(1),
        MessageInjected(1.0, "m1", RunId("r1"), "task"),
        Suspended(1.0, "crashed", RunId("r1")),
        TakenUp(1.0, RunId("r1")),
        Undone(1.0, RunId("r1")),
        accepted(2),
    )
]


def a_run() -> list[bytes]:
    """A whole archive with a run, from a recorded one."""
    facts = sorted(SAMPLE)[0].read_bytes().splitlines()
    head = {"run": "r1", "items": len(facts), "title": "t", "status": "completed"}
    first = {**msgspec.json.decode(LINES[0]), "runs": [head]}
    own = [b'{"stream":"r1","seq":%d,"fact":%b}' % (seq, fact) for seq, fact in enumerate(facts, 1)]
    return [msgspec.json.encode(first), *LINES[1:], *own]


WHOLE = b"\n".join(a_run())
PIECES = [
    b"{",
    b"}",
    b"[",
    b'"',
    b"\\",
    b"\x00",
    b"\xff",
    b"\n",
    b"null",
    b"1e999",
    b"-1",
    b'"s"',
    b'"r1"',
    b"[[[[",
    b"9" * 400,
]


@pytest.mark.requirement("R12")
@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(WHOLE)), st.integers(0, 40), st.sampled_from(PIECES) | st.binary(max_size=5)
        ),
        max_size=4,
    )
)
def test_no_change_of_a_file_does_anything_but_be_refused_or_come_in_whole(
    changes: list[tuple[int, int, bytes]],
):
    """Fuzzing: bytes are cut out, put in and changed anywhere."""
    data = bytearray(WHOLE)
    for place, length, new in changes:
        data[place : place + length] = new
    try:
        read = read_archive(bytes(data).split(b"\n"))
    except ImportRefused:
        return

    async def bring_in() -> None:
        journal, clock = MemoryJournal(), VirtualClock(10.0)
        environment = Environment("me", clock.now, clock.sleep, lambda kind: f"{kind}-{id(journal)}")
        try:
            made = await Importer(journal, environment).bring_in(read, SessionId("mine"), "ann")
        except ImportRefused:
            return
        assert made is not None
        assert {row.user for row in await journal.streams(limit=100)} == {"ann"}

    asyncio.run(bring_in())


@pytest.mark.requirement("R12")
def test_what_is_nested_without_end_is_refused():
    deep = b"[" * 200_000
    for line in (
        deep,
        b'{"stream":"s","seq":2,"fact":' + deep,
        b'{"format":"turnbuckle.session","version":' + deep,
    ):
        with pytest.raises(ImportRefused):
            read_archive([LINES[0], line] if line[:9] == b'{"stream"' else [line])
