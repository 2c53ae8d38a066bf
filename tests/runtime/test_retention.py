"""What is kept and for how long: bursts of old runs become one and nothing else changes, relays go, sessions stay."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from support.narrate.chat_output import chat, deltas, finishes, plain
from support.narrate.responses_output import response
from support.narrate.sample_runs import (
    ALL,
    BROKEN,
    BY_HAND,
    RUN,
    frames,
    run_named,
    shown,
    stories_with_faults,
    waited,
    whole,
)

from turnbuckle.errors import SessionUnknown
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import EPOCH_BITS, Grade, IndexUpdate, Item, StreamQuery
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.retention import (
    KIND,
    Keeping,
    Merging,
    Retention,
    Swept,
    joined,
    merge_run,
    prune_outputs,
)
from turnbuckle.runtime.runs import KIND as RUN_KIND
from turnbuckle.runtime.runs import READING, RUNNING, TOLD
from turnbuckle.runtime.session_log import SessionStates
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.server.faces.events import EventsRenderer
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import ModelAsked, RunEnded, RunStarted, Streamed, UserSpoke, decode, encode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import Ledger
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallStarted,
    Ended,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions

BY_HAND_RUNS = [run_named(name) for name in BY_HAND]
DAY = 86_400.0
HOUR = 3600.0


def merged(run):
    """The items of a run behind its merges."""
    merging = Merging()
    for item in run:
        merging.take(item)
    merges = merging.done()
    left = [item for item in run if not any(merge.first <= item.seq <= merge.item.seq for merge in merges)]
    return sorted([*left, *(merge.item for merge in merges)], key=lambda item: item.seq), merges


def facts_in(run):
    return [decode(item.data) for item in run]


def turn_of(run):
    """None for a run that was put together by hand, and that no driver would write."""
    fold = TurnFold(READING)
    try:
        for fact in facts_in(run):
            fold.take(fact)
    except ValueError:
        return None
    return fold.turn


def wasted(run):
    ledger = Ledger()
    for fact in facts_in(run):
        ledger.take(fact)
    return ledger.entries


def check_same(run):
    """Whoever reads the run later reads the same."""
    after, merges = merged(run)
    assert turn_of(after) == turn_of(run)
    assert turn_of(run) is not None or run in BY_HAND_RUNS
    assert wasted(after) == wasted(run)
    for kind in (TextDelta, ReasoningDelta, RefusalDelta, CallArgs):
        assert shown(facts_in(after), kind) == shown(facts_in(run), kind)
    others = [item for item in run if not isinstance(decode(item.data), Streamed)]
    assert [item for item in after if not isinstance(decode(item.data), Streamed)] == others
    assert after[-1].seq == run[-1].seq
    assert all(merge.first >> EPOCH_BITS == merge.item.seq >> EPOCH_BITS for merge in merges)
    assert plain(after) == plain(run)
    streams = [whole(chat(), items) for items in (after, run)]
    for key in ("content", "reasoning_content", "refusal"):
        assert "".join(deltas(streams[0], key)) == "".join(deltas(streams[1], key))
    assert finishes(streams[0]) == finishes(streams[1])
    bodies = []
    for items in (after, run):
        dialect = response()
        whole(dialect, items)
        bodies.append(dialect.body())
    assert bodies[0] == bodies[1]
    again, none = merged(after)
    assert (again, none) == (after, [])


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("name", ALL)
def test_a_merged_run_is_read_by_everybody_as_it_was(name):
    run = run_named(name)
    check_same(run)
    assert len(merged(run)[0]) <= len(run)
    if run not in BY_HAND_RUNS:
        check_same(waited(run))


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("name", BROKEN[1:4])
def test_so_is_one_in_which_anything_went_wrong(name):
    count = 0
    for run, faults in stories_with_faults(name):
        if isinstance(decode(run[-1].data), RunEnded):
            check_same(run)
            count += len(faults)
    assert count > 10


class Client:
    """Somebody who read a run up to a cursor, left, and comes back."""

    def __init__(self, run, cursor):
        self.events = {item.seq: decode(item.data) for item in run if item.seq <= cursor}
        self.resets = 0

    def take(self, data):
        for name, body in frames(data):
            fact = body
            if name == "reset":
                self.resets += 1
                self.events = {seq: kept for seq, kept in self.events.items() if seq <= body["after"]}
                fact = body["snapshot"]
            elif name == "run_started":
                continue  # it is shown cut down
            self.events[body["seq"]] = decode(msgspec.json.encode({**fact, "type": fact["type"]}))


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("name", ("killed-in-text", "draft", "a long answer", "a thought and an answer"))
def test_whoever_comes_back_from_inside_of_merged_events_is_told_to_forget_them_and_gets_a_snapshot(name):
    run = run_named(name)
    after, merges = merged(run)
    assert merges
    inside = 0
    for cursor in (0, *(item.seq for item in run)):
        client = Client(run, cursor)
        dialect = EventsRenderer(RUN, after=cursor)
        client.take(dialect.take(after))
        within = any(merge.first <= cursor < merge.item.seq for merge in merges)
        inside += within
        assert client.resets == within
        assert dialect.ended
        told = [client.events[seq] for seq in sorted(client.events)]
        assert shown(told) == shown(facts_in(run))
        assert shown(told, ReasoningDelta) == shown(facts_in(run), ReasoningDelta)
        assert max(client.events, default=cursor) == run[-1].seq
    assert inside


@pytest.mark.requirement("E4")
def test_a_reset_names_the_event_behind_which_all_is_to_be_forgotten():
    run = run_named("killed-in-text")
    after, merges = merged(run)
    merge = merges[0]
    ((name, body), *_) = frames(EventsRenderer(RUN, after=merge.first).take(after))
    assert (name, body["seq"], body["after"]) == ("reset", merge.item.seq, merge.first - 1)
    assert body["snapshot"]["merged"] == merge.item.seq - merge.first + 1
    ((name, _), *_) = frames(EventsRenderer(RUN, after=merge.first - 1).take(after))
    assert name == "streamed"


def test_words_of_one_block_are_joined_and_their_order_stays():
    usages = [UsageNoted(Usage(1, number)) for number in (1, 2, 3)]
    events = [
        ReasoningDelta(0, "a"),
        Alive("ping"),
        ReasoningDelta(0, "b"),
        usages[0],
        TextDelta(1, "c"),
        usages[1],
        TextDelta(1, "d"),
        TextDelta(2, "e"),
        CallStarted(3, "c1", "look"),
        CallArgs(3, "{"),
        CallArgs(3, "}"),
        usages[2],
        Ended("stop"),
    ]
    assert joined(events) == (
        ReasoningDelta(0, "ab"),
        usages[2],
        TextDelta(1, "cd"),
        TextDelta(2, "e"),
        CallStarted(3, "c1", "look"),
        CallArgs(3, "{}"),
        Ended("stop"),
    )


def test_nothing_is_merged_over_other_facts_attempts_or_epochs():
    burst = [encode(Streamed(1.0, attempt, (TextDelta(0, "x"),))) for attempt in (1, 1, 2, 2)]
    spoke = encode(UserSpoke(1.0, "m", ()))
    epoch = 1 << EPOCH_BITS
    run = [Item(number, data) for number, data in enumerate([burst[0], spoke, burst[1], burst[2]], 1)]
    run += [Item(epoch + 1, burst[3]), Item(epoch + 2, burst[3])]
    assert [(merge.first, merge.item.seq) for merge in merged(run)[1]] == [(epoch + 1, epoch + 2)]


def test_a_merged_item_has_a_bounded_size():
    burst = encode(Streamed(1.0, 1, (TextDelta(0, "x" * 400_000),)))
    _, merges = merged([Item(number, burst) for number in range(1, 8)])
    assert [(merge.first, merge.item.seq) for merge in merges] == [(1, 2), (3, 4), (5, 6)]


# The sweep


class Watched(MemoryJournal):
    """A journal that knows what was read of it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.reads = []

    async def read(self, stream, *args, **named):
        self.reads.append(stream)
        return await super().read(stream, *args, **named)


class Harness:
    """A journal with runs of any age, and its sweeper."""

    def __init__(self, folder, keeping):
        self.now = 1_000_000.0
        self.journal = Watched(monotonic=lambda: self.now, wall=lambda: self.now)
        self.told = []
        self.kept = folder / "kept"
        self.retention = Retention(
            self.journal, keeping, folder, wall=lambda: self.now, deleted=self._deleted
        )

    async def _deleted(self, run):
        self.told.append(run)

    async def run(self, name, session="", kind=RUN_KIND, ends=True, outputs=False, own_tools=True, **asked):
        claim = await self.journal.claim(name, "p", 10)
        words = Message("user", (TextPart("hello"),))
        options = RunOptions(own_tools=own_tools)
        facts = [
            RunStarted(self.now, RunId(name), SessionId(session), (words,), 1, options, asked),
            ModelAsked(self.now, 1, RouteName("main"), "openai_chat", "m", "first"),
            *(Streamed(self.now, 1, (TextDelta(0, letter),)) for letter in "abcdef"),
            Streamed(self.now, 1, (Ended("stop"),)),
        ]
        if ends:
            facts.append(RunEnded(self.now, Outcome("completed")))
        note = IndexUpdate(kind=kind, parent=session, status="completed" if ends else RUNNING)
        items = [encode(fact) for fact in facts]
        await self.journal.append(
            name, items, after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED, note=note
        )
        await self.journal.release(claim)
        if outputs:
            (self.kept / name).mkdir(parents=True)
            (self.kept / name / "shell-1.txt").write_text("much")

    async def count(self, name):
        return len(await self.journal.read(name))

    async def names(self):
        return sorted(row.name for row in await self.journal.streams(limit=500) if row.kind != KIND)


def in_town(scenario, folder, **keeping):
    async def main():
        return await scenario(Harness(folder, Keeping(**keeping)))

    return asyncio.run(main())


@pytest.mark.requirement("E8")
def test_only_runs_that_ended_long_enough_ago_are_merged_and_each_once(tmp_path):
    async def scenario(harness):
        await harness.run("old")
        await harness.run("unfinished", ends=False)
        harness.now += 10 * DAY
        await harness.run("young")
        assert await harness.retention.sweep() == Swept(merged=1, items=5)
        assert [await harness.count(name) for name in ("old", "unfinished", "young")] == [5, 9, 10]
        assert await harness.retention.sweep() == Swept()
        harness.now += 7 * DAY + 1
        assert await harness.retention.sweep() == Swept(merged=1, items=5)
        assert [await harness.count(name) for name in ("old", "unfinished", "young")] == [5, 9, 5]

    in_town(scenario, tmp_path, deltas=7 * DAY)


def test_a_sweep_reads_only_what_came_of_age_since_the_last_one(tmp_path):
    async def scenario(harness):
        for number in range(60):
            await harness.run(f"r{number:02}")
            harness.now += 60
        harness.now += DAY
        await harness.retention.sweep()
        harness.journal.reads.clear()
        await harness.run("one more")
        harness.now += DAY + 1
        assert (await harness.retention.sweep()).merged == 1
        assert set(harness.journal.reads) == {"one more"}

    in_town(scenario, tmp_path, deltas=DAY)


def test_without_a_setting_everything_is_kept_for_ever(tmp_path):
    async def scenario(harness):
        await harness.run("old")
        await harness.run("relay", store=False)
        harness.now += 1000 * DAY
        assert await harness.retention.sweep() == Swept()
        assert [await harness.count(name) for name in ("old", "relay")] == [10, 10]

    in_town(scenario, tmp_path)


def test_answers_that_were_not_to_be_stored_and_relays_go_and_all_that_belongs_to_a_session_stays(tmp_path):
    async def scenario(harness):
        await harness.journal.note("s1", IndexUpdate(kind=SESSION))
        await harness.run("not stored", surface="responses", store=False, outputs=True)
        await harness.run("stored", surface="responses", store=True, outputs=True)
        await harness.run("relay", surface="chat", own_tools=False)
        await harness.run("agent", surface="chat")
        await harness.run("in a session", "s1", surface="chat", own_tools=False)
        await harness.run("in it and not stored", "s1", surface="responses", store=False)
        await harness.run("command", "s1", kind=TOLD)
        await harness.run("under way", surface="chat", own_tools=False, ends=False)
        harness.now += 25 * HOUR
        await harness.run("young relay", surface="chat", own_tools=False)
        assert await harness.retention.sweep() == Swept(deleted=3, outputs=1)
        stays = ["agent", "in a session", "in it and not stored", "s1", "stored", "under way", "young relay"]
        assert await harness.names() == stays
        assert sorted(harness.told) == ["command", "not stored", "relay"]
        assert [folder.name for folder in harness.kept.iterdir()] == ["stored"]

    in_town(scenario, tmp_path, relays=24 * HOUR)


def test_outputs_go_when_their_run_was_deleted_in_whatever_way(tmp_path):
    async def scenario(harness):
        await harness.run("one", outputs=True)
        await harness.run("two", outputs=True)
        (harness.kept / "a file of another version.txt").write_text("stays")
        await harness.journal.drop("one")
        assert await prune_outputs(harness.journal, tmp_path) == 1
        assert sorted(entry.name for entry in harness.kept.iterdir()) == [
            "a file of another version.txt",
            "two",
        ]
        assert await prune_outputs(harness.journal, tmp_path / "nowhere") == 0

    in_town(scenario, tmp_path)


def test_a_run_that_somebody_holds_is_left_alone(tmp_path):
    async def scenario(harness):
        await harness.run("r")
        await harness.journal.claim("r", "somebody", 100)
        assert await merge_run(harness.journal, "r") == 0
        assert await harness.count("r") == 10
        row = (await harness.journal.streams(StreamQuery(name="r")))[0]
        harness.now += 200
        assert await merge_run(harness.journal, "r") == 5
        assert (await harness.journal.streams(StreamQuery(name="r")))[0] == row

    in_town(scenario, tmp_path)


@pytest.mark.requirement("G7")
def test_a_fork_at_an_event_that_was_merged_with_others_is_refused_and_never_shares_less_in_silence(tmp_path):
    async def scenario(harness):
        environment = VirtualClock(harness.now).environment("a")
        conversations = Conversations(harness.journal, READING)
        reading = SimpleNamespace(
            policy=READING,
            conversations=conversations,
            session_states=SessionStates(harness.journal),
            environment=environment,
        )
        sessions = Sessions(harness.journal, reading)
        await sessions.create(SessionId("s1"), "ann")
        await harness.run("r", "s1")
        assert await merge_run(harness.journal, "r") == 5
        for at in range(1, 11):
            fork = sessions.fork(SessionId("s1"), SessionId(f"f{at}"), "ann", "", RunId("r"), at)
            if 3 <= at < 8:
                with pytest.raises(SessionUnknown, match=f"no event {at} any more"):
                    await fork
            else:
                assert await fork
        assert [row.name for row in await harness.journal.streams(StreamQuery(name="f5"))] == []

    in_town(scenario, tmp_path)
