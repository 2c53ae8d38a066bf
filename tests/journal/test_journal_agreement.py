"""All bodies give the same answers to the same questions, whatever was done before."""

import asyncio
import random

import pytest
from support.journals.journal_benches import MemoryBench, SqliteBench
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.port import Claim, Grade, IndexUpdate, JournalError, StreamQuery

STREAMS = ("a", "b")
STEPS = 60
WORDS = ("red boat", "Red_Car", "green boat", "car, boat", "é t")
QUESTIONS = ("red", "bo", "red ca", "red_car", "boat re", "e", "t", "u")


async def step(bench, claims: list[Claim], chance: random.Random) -> object:
    """One thing to do, chosen by chance alone, and what came of it."""
    stream = chance.choice(STREAMS)
    action = chance.choice(
        ("claim", "append", "append", "append", "renew", "release", "time", "note", "drop", "kill")
    )
    used = chance.choice(claims) if claims else Claim(stream, "nobody", 0, 0)
    journal = bench.journal
    if action == "claim":
        answer = await journal.claim(stream, f"owner-{chance.randint(1, 3)}", 10)
        claims.extend([answer] if isinstance(answer, Claim) else [])
        return answer
    if action == "append":
        after = await journal.head(used.stream) - chance.choice((0, 0, 0, 1))
        items = [chance.randbytes(chance.randint(0, 40)) for _ in range(chance.randint(0, 3))]
        note = chance.choice(
            (None, None, IndexUpdate(status=chance.choice("xy")), IndexUpdate(words=chance.choice(WORDS)))
        )
        grade = chance.choice(tuple(Grade))
        return await journal.append(used.stream, items, after=after, epoch=used.epoch, grade=grade, note=note)
    if action == "renew":
        return await journal.renew(used, 10)
    if action == "release":
        return await journal.release(used)
    if action == "time":
        return bench.pass_time(chance.choice((1, 6, 11)))
    if action == "note":
        return await journal.note(
            stream, IndexUpdate(kind="run", title=chance.choice("tu"), words=chance.choice(WORDS))
        )
    if action == "kill" and chance.random() < 0.3:
        return await bench.kill()
    return await journal.drop(stream) if action == "drop" and chance.random() < 0.3 else None


async def story(bench, seed: int) -> list[object]:
    chance = random.Random(seed)
    claims: list[Claim] = []
    told: list[object] = []
    for _ in range(STEPS):
        try:
            told.append(await step(bench, claims, chance))
        except JournalError as error:
            told.append((type(error).__name__, str(error)))
        told.append([bench.journal.still_mine(claim) for claim in claims])
        told.append([await bench.journal.read(stream, chance.randint(0, 4), 3) for stream in STREAMS])
        found = await bench.journal.search(
            chance.choice(QUESTIONS), StreamQuery(kind=chance.choice(("", "run")))
        )
        told.append([(hit.row.name, hit.snippet) for hit in found.hits])
        rows = await bench.journal.streams(StreamQuery(orphaned=chance.random() < 0.5))
        told.append([(row.name, row.title, row.status, row.epoch, row.holder) for row in rows])
    await bench.close()
    return told


@pytest.mark.requirement("E6", "G7")
@pytest.mark.parametrize("seed", range(12))
def test_both_bodies_tell_the_same_story(seed, tmp_path):
    memory = asyncio.run(story(MemoryBench(tmp_path), seed))
    assert asyncio.run(story(SqliteBench(tmp_path), seed)) == memory


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("seed", range(12, 15))
def test_a_database_tells_the_same_story(seed, tmp_path):
    async def told():
        return await story(await PostgresBench().open(), seed)

    assert asyncio.run(told()) == asyncio.run(story(MemoryBench(tmp_path), seed))
