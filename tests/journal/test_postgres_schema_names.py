"""A schema of any name that an address may have: the database folds the case of names that are not quoted."""

import asyncio

import pytest
from support.postgres.server import shared_server

from turnbuckle.journal.address import read_address
from turnbuckle.journal.opening import move_journal
from turnbuckle.journal.port import Grade, IndexUpdate
from turnbuckle.journal.postgres.doctor import check
from turnbuckle.journal.postgres.journal import open_postgres
from turnbuckle.journal.tail import items_of


async def with_one_item(url: str, data: bytes) -> list[bytes]:
    """What is in a run there, once this was written to it."""
    journal = await open_postgres(url)
    claim = await journal.claim("run", "me", 60.0)
    note = IndexUpdate(kind="run", status="running")
    await journal.append("run", [data], after=0, epoch=claim.epoch, grade=Grade.SYNCED, note=note)
    found = [item.data for item in await items_of(journal, "run")]
    await journal.release(claim)
    await journal.close()
    return found


@pytest.mark.requirement("K1")
def test_names_that_differ_by_case_alone_are_two_journals_and_the_doctor_knows_how_large_each_is():
    url = shared_server().url()
    schema = read_address(url).schema
    urls = [url.replace(f"schema={schema}", f"schema={name}_{schema}") for name in ("Big", "big", "BIG")]

    async def main():
        written = [await with_one_item(one, one.encode()) for one in urls]
        return written, [await check(one) for one in urls]

    written, reports = asyncio.run(main())
    assert written == [[one.encode()] for one in urls]
    assert [(one.streams, one.items, one.bytes > 0) for one in reports if one] == [(1, 1, True)] * 3


@pytest.mark.requirement("K1")
def test_a_journal_is_moved_to_a_schema_of_any_name():
    source, server = shared_server().url(), shared_server()
    schema = f"Big_{read_address(source).schema}"
    server.sql(f'CREATE SCHEMA "{schema}"')  # empty, as an administrator leaves it
    target = server.url(schema)

    async def main():
        await with_one_item(source, b"one")
        await move_journal(source, target, lambda _: None)
        return await check(target)

    report = asyncio.run(main())
    assert report is not None
    assert (report.streams, report.items) == (1, 1)
