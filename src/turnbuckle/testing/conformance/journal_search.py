"""What every journal must do for those who search it. The bench and the tools are those of `journal`."""

import asyncio

from turnbuckle.journal.port import (
    EVERY_STREAM,
    MAX_WORDS,
    Closed,
    Conflict,
    Grade,
    IndexUpdate,
    SearchHit,
    StorageFull,
    StreamQuery,
)
from turnbuckle.testing.conformance.journal import TTL, Bench, Case, add, claimed, refused

ODD_QUESTIONS = (
    '"', '""', '"green', 'green"', "'", "*", "**", "green*", "*green", "^green", "green^", "-green",
    "+green", "(", ")", "(green", "NOT", "AND", "OR", "green AND", "OR green", "green NOT blue",
    "NEAR(green blue)", "NEAR", "text:green", "{text}:green", "- text : green", "green\0", "\0", "\ud800",
    "green \udfff", "%", "_", "\\", ";", "green;--", "🙂", "\u200b", "ẞ", "a" * 5000, "green " * 500, "{",
    "}", "[green]", "a.b", "a:b", ",", "é́́",
)  # fmt: skip


async def names(bench: Bench, words: str, wanted: StreamQuery = EVERY_STREAM, limit: int = 20) -> list[str]:
    return [found.row.name for found in (await bench.journal.search(words, wanted, limit)).hits]


async def walked(bench: Bench, words: str, limit: int, wanted: StreamQuery = EVERY_STREAM) -> list[str]:
    """All that is found, page by page."""
    page = await bench.journal.search(words, wanted, limit)
    shown = [hit.row.name for hit in page.hits]
    while page.next is not None:
        page = await bench.journal.search(words, wanted, limit, page.next)
        assert len(page.hits) <= limit
        shown += [hit.row.name for hit in page.hits]
    return shown


async def say(bench: Bench, stream: str, words: str) -> None:
    await bench.journal.note(stream, IndexUpdate(words=words))


async def streams_are_found_by_what_was_noted(bench: Bench) -> None:
    await say(bench, "a", "The invoice from Berlin")
    await say(bench, "b", "A letter from Rome")
    assert await names(bench, "invoice") == ["a"]
    assert await names(bench, "letter") == ["b"]
    assert await names(bench, "from") == ["b", "a"]  # what was noted last comes first
    await say(bench, "a", "from now on")
    assert await names(bench, "from") == ["a", "b"]
    assert await names(bench, "from", limit=1) == ["a"]
    assert await names(bench, "nothing") == []


async def every_word_must_be_there_but_not_in_one_note(bench: Bench) -> None:
    await say(bench, "a", "where is the invoice")
    await say(bench, "a", "it is in Berlin")
    await say(bench, "b", "Berlin is large")
    assert await names(bench, "invoice berlin") == ["a"]
    assert await names(bench, "berlin invoice is") == ["a"]
    assert await names(bench, "berlin rome") == []
    assert await names(bench, "berlin berlin") == ["b", "a"]


async def only_the_last_word_may_be_the_beginning_of_one(bench: Bench) -> None:
    await say(bench, "a", "an umbrella for Amsterdam")
    assert await names(bench, "umb") == ["a"]
    assert await names(bench, "umbrella ams") == ["a"]
    assert await names(bench, "umb amsterdam") == []
    assert await names(bench, "brella") == []


async def case_and_accents_do_not_matter(bench: Bench) -> None:
    await say(bench, "a", "Das Café in ZÜRICH")
    await say(bench, "b", "cafe\u0301s everywhere")
    for words in ("café", "CAFE", "cafe zürich", "Cafe\u0301 zurich"):
        assert "a" in await names(bench, words)
    assert await names(bench, "cafes") == ["b"]
    assert await names(bench, "überall") == []


async def words_joined_by_signs_are_found_joined(bench: Bench) -> None:
    await say(bench, "a", "call read_file with path=src/main.py")
    await say(bench, "b", "file it when you have read it")
    assert await names(bench, "read_file") == ["a"]
    assert await names(bench, "read file") == ["b", "a"]
    assert await names(bench, "src/main.p") == ["a"]
    assert await names(bench, "(main.py)") == ["a"]


async def scripts_without_spaces_are_found_by_any_part(bench: Bench) -> None:
    await say(bench, "zh", "我们明天在北京见面，然后吃饭")
    await say(bench, "ja", "ターンバックルの使い方を教えてください")
    await say(bench, "mixed", "please open the 設定ファイル now")
    for part in ("明天", "北京见面", "吃饭", "在北京", "我们"):
        assert await names(bench, part) == ["zh"], part
    for part in ("バックル", "使い方", "教えて", "ください", "ターン"):
        assert await names(bench, part) == ["ja"], part
    assert await names(bench, "ファイル open") == ["mixed"]
    assert await names(bench, "open 定ファ") == ["mixed"]
    assert await names(bench, "京北") == []
    (found,) = (await bench.journal.search("北京")).hits
    assert "北京" in found.snippet


async def what_is_forgotten_is_not_found(bench: Bench) -> None:
    await bench.journal.note("a", IndexUpdate(kind="run", title="Green boats", words="marmalade"))
    await bench.journal.note("b", IndexUpdate(kind="run", words="marmalade"))
    await bench.journal.note("a", IndexUpdate(forgotten=True))
    assert await names(bench, "marmalade") == ["b"]
    assert await names(bench, "green") == []
    assert [row.title for row in await bench.journal.streams(StreamQuery(name="a"))] == ["Green boats"]
    await bench.kill()
    assert await names(bench, "marmalade") == ["b"]
    await say(bench, "a", "jam")
    assert await names(bench, "jam") == ["a"]


async def a_title_is_found_as_it_is_now(bench: Bench) -> None:
    await bench.journal.note("a", IndexUpdate(kind="session", title="Green boats", words="hello"))
    assert await names(bench, "boats hello") == ["a"]
    await bench.journal.note("a", IndexUpdate(status="idle"))
    assert await names(bench, "green") == ["a"]
    await bench.journal.note("a", IndexUpdate(title="Red cars"))
    assert await names(bench, "boats") == []
    assert await names(bench, "cars hello") == ["a"]
    await bench.journal.note("a", IndexUpdate(title=""))
    assert await names(bench, "cars") == []
    assert await names(bench, "hello") == ["a"]


async def the_snippet_is_a_line_with_the_word(bench: Bench) -> None:
    around = "one two three four five six seven eight nine ten " * 20
    await say(bench, "a", f"{around}\n\nthe  needle\tis here\n{around}")
    for words in ("needle", "need", "NEEDLE ten"):
        (found,) = (await bench.journal.search(words)).hits
        assert isinstance(found, SearchHit)
        assert "\n" not in found.snippet
        assert len(found.snippet) < 200
    (found,) = (await bench.journal.search("needle")).hits
    assert "the needle is here" in found.snippet
    assert found.row == (await bench.journal.streams())[0]


async def a_search_may_be_narrowed(bench: Bench) -> None:
    journal = bench.journal
    for user in ("ann", "bob"):
        for number in range(3):
            status = "busy" if number == 1 else "idle"
            note = IndexUpdate(
                kind="run", parent=f"s-{user}", user=user, status=status, words=f"sun {number}"
            )
            await journal.note(f"{user}-{number}", note)
    await journal.note("session", IndexUpdate(kind="session", user="ann", words="sun"))
    assert await names(bench, "sun", StreamQuery(user="ann")) == ["session", "ann-2", "ann-1", "ann-0"]
    assert await names(bench, "sun", StreamQuery(user="ann", kind="run", status="idle")) == ["ann-2", "ann-0"]
    assert await names(bench, "sun", StreamQuery(parent="s-bob", user="bob"), limit=2) == ["bob-2", "bob-1"]
    assert await names(bench, "sun", StreamQuery(parent="s-bob", user="ann")) == []
    assert await names(bench, "1", StreamQuery(parent="s-bob")) == ["bob-1"]
    assert await names(bench, "sun", StreamQuery(name="ann-0")) == ["ann-0"]
    assert await names(bench, "sun", StreamQuery(user="nobody")) == []


async def what_a_dead_owner_held_can_be_searched(bench: Bench) -> None:
    for name in ("lapsed", "held", "free"):
        await say(bench, name, "sun")
    await claimed(bench, "lapsed")
    bench.pass_time(TTL + 1)
    await claimed(bench, "held")
    await bench.journal.release(await claimed(bench, "free"))
    assert await walked(bench, "sun", 1, StreamQuery(orphaned=True)) == ["lapsed"]


async def any_text_may_be_searched_for(bench: Bench) -> None:
    await say(bench, "a", "green blue NEAR text NOT")
    for question in ODD_QUESTIONS:
        assert len((await bench.journal.search(question)).hits) <= 1, question
    assert await names(bench, "NOT NEAR") == ["a"]
    assert await names(bench, '"green blue"') == ["a"]
    for empty in ("", "   ", "!?", "_", "\0"):
        assert await names(bench, empty) == []


async def any_text_may_be_noted(bench: Bench) -> None:
    claim = await claimed(bench)
    other = await claimed(bench, "other")
    odd = "half \ud800 zero\0byte 🙂 " + "x" * 300
    append = bench.journal.append(
        "run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED, note=IndexUpdate(title=odd, words=odd)
    )
    heads = await asyncio.gather(append, add(bench, other, [b"b"], after=0, grade=Grade.SYNCED))
    assert list(heads) == [1, 1]  # nobody else's append suffers
    assert await names(bench, "half byte") == [claim.stream]
    await say(bench, "long", "first " + "x " * MAX_WORDS + " last")
    assert await names(bench, "first") == ["long"]
    assert await names(bench, "last") == []


async def words_are_stored_with_their_items_or_not_at_all(bench: Bench) -> None:
    claim = await claimed(bench)
    note = IndexUpdate(words="stored")
    assert await bench.journal.append("run", [b"a"], after=0, epoch=0, grade=Grade.FLUSHED, note=note) == 1
    lost = IndexUpdate(words="conflict")
    await refused(
        bench.journal.append("run", [b"x"], after=0, epoch=0, grade=Grade.SYNCED, note=lost), Conflict
    )
    bench.fill()
    big = [b"x" * 2_000_000]
    lost = IndexUpdate(words="full", title="full")
    await refused(
        bench.journal.append("run", big, after=1, epoch=0, grade=Grade.FLUSHED, note=lost), StorageFull
    )
    bench.make_room()
    assert await names(bench, "stored") == [claim.stream]
    assert await names(bench, "conflict") == await names(bench, "full") == []
    assert await add(bench, claim, [b"b"]) == 2


async def words_go_with_their_stream_and_survive_the_process(bench: Bench) -> None:
    for name in ("a", "b"):
        for number in range(120):
            await say(bench, name, f"sun {name} {number}")
    await bench.kill()
    assert await names(bench, "sun") == ["b", "a"]
    assert await bench.journal.drop("b")
    assert await names(bench, "sun") == ["a"]
    await say(bench, "c", "sun")
    await bench.kill()
    assert await names(bench, "sun") == ["c", "a"]


async def pages_show_every_stream_once(bench: Bench) -> None:
    for number in range(7):
        await say(bench, f"s{number}", "green sea, 我们明天在北京见面")
        await say(bench, f"s{number % 3}", "a boat")
    newest = [f"s{number}" for number in reversed(range(7))]
    for words in ("green", "gre", "sea green", "明天", "green 明天"):
        for limit in (1, 2, 3, 7, 8):
            assert await walked(bench, words, limit) == newest, (words, limit)
    assert await walked(bench, "boat", 2) == ["s0", "s2", "s1"]
    assert await walked(bench, "boat green", 1) == ["s0", "s2", "s1"]  # the whole word leads
    assert await walked(bench, "green boat", 1) == ["s2", "s1", "s0"]
    one = await bench.journal.search("green", limit=3)
    assert (await bench.journal.search("green", limit=3, after=one.hits[0].place)).hits[0] == one.hits[1]


async def pages_are_of_one_moment(bench: Bench) -> None:
    for name in "abcd":
        await say(bench, name, "green")
    first = await bench.journal.search("green", limit=2)
    assert [hit.row.name for hit in first.hits] == ["d", "c"]
    await say(bench, "new", "green")
    await say(bench, "a", "green again")  # was not shown yet
    await say(bench, "d", "green again")  # was shown
    assert first.next is not None
    second = await bench.journal.search("green", limit=2, after=first.next)
    assert [hit.row.name for hit in second.hits] == ["b", "a"]
    assert second.next is None or (await bench.journal.search("green", after=second.next)).hits == []
    assert await walked(bench, "green", 2) == ["d", "a", "new", "c", "b"]
    await bench.journal.drop("b")
    second = await bench.journal.search("green", limit=2, after=first.next)
    assert [hit.row.name for hit in second.hits] == ["a"]


async def a_family_is_searched_page_by_page(bench: Bench) -> None:
    for number in range(5):
        child = IndexUpdate(kind="run", parent=f"s{number % 2}", user="ann", words="green tea")
        await bench.journal.note(f"r{number}", child)
    assert await walked(bench, "green", 1, StreamQuery(parent="s0")) == ["r4", "r2", "r0"]
    assert await walked(bench, "te", 2, StreamQuery(parent="s0", kind="run", user="ann")) == [
        "r4",
        "r2",
        "r0",
    ]
    assert await walked(bench, "green", 1, StreamQuery(name="r3")) == ["r3"]
    assert await walked(bench, "green", 1, StreamQuery(name="r3", kind="session")) == []


async def a_closed_journal_is_not_searched(bench: Bench) -> None:
    await say(bench, "a", "sun")
    await bench.journal.close()
    await refused(bench.journal.search("sun"), Closed)


CASES: tuple[Case, ...] = (
    streams_are_found_by_what_was_noted,
    every_word_must_be_there_but_not_in_one_note,
    only_the_last_word_may_be_the_beginning_of_one,
    case_and_accents_do_not_matter,
    words_joined_by_signs_are_found_joined,
    scripts_without_spaces_are_found_by_any_part,
    what_is_forgotten_is_not_found,
    a_title_is_found_as_it_is_now,
    the_snippet_is_a_line_with_the_word,
    a_search_may_be_narrowed,
    what_a_dead_owner_held_can_be_searched,
    any_text_may_be_searched_for,
    any_text_may_be_noted,
    words_are_stored_with_their_items_or_not_at_all,
    words_go_with_their_stream_and_survive_the_process,
    pages_show_every_stream_once,
    pages_are_of_one_moment,
    a_family_is_searched_page_by_page,
    a_closed_journal_is_not_searched,
)
