"""The shape of the tables, and bringing it up to date.

The table `format` has the version of the shape, and the oldest version of the shape whose programs can
still use it. A program refuses a shape that is too new for it, so two neighbouring versions of Turnbuckle
can work on one database while one takes the other's place: a step that only adds leaves `oldest` where it
was. Steps are applied by whoever comes first; others wait for it. Each step is a transaction of its own
with a short limit for locks, and what takes long on a large table (an index) is made outside of one,
without holding anybody up.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from turnbuckle.journal.address import Address, read_address
from turnbuckle.journal.port import FormatUnknown
from turnbuckle.journal.postgres.links import LOCK_MILLISECONDS, DatabaseLink, check_server

FORMAT = 7
_PATIENCE = 600.0  # for somebody else who brings a large database up to date
_TEXT = "text COLLATE \"C\" NOT NULL DEFAULT ''"

STREAMS = f"""
CREATE TABLE stream(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE, kind {_TEXT},
    parent {_TEXT}, title {_TEXT}, status {_TEXT}, owner {_TEXT}, mark {_TEXT},
    created float8 NOT NULL, updated float8 NOT NULL,
    epoch int NOT NULL DEFAULT -1, holder {_TEXT}, node bigint NOT NULL DEFAULT 0,
    until float8 NOT NULL DEFAULT 0)
    WITH (fillfactor = 80)"""
ITEMS = """
CREATE TABLE item(
    stream bigint NOT NULL, seq bigint NOT NULL, covers int NOT NULL DEFAULT 0, data bytea NOT NULL,
    PRIMARY KEY(stream, seq))"""
WORDS = """
CREATE TABLE word(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream bigint NOT NULL, is_title bool NOT NULL,
    text text COLLATE "C" NOT NULL, lexemes tsvector NOT NULL)"""
ALIVE = """
CREATE FUNCTION alive(node bigint, grace float8) RETURNS bool LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS(SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND classid = (node >> 32)::oid AND objid = (node & 4294967295)::oid
        AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
    OR pg_catalog.pg_postmaster_start_time() > clock_timestamp() - grace * interval '1 second' $$"""
INDEXES = (
    "CREATE INDEX stream_held ON stream(holder) WHERE holder <> ''",
    "CREATE INDEX stream_list ON stream(kind, updated, name)",
    "CREATE INDEX list_state ON stream(kind, status, updated, name)",
    "CREATE INDEX list_born ON stream(kind, created, name)",
    "CREATE INDEX stream_child ON stream(parent, kind, updated, name) WHERE parent <> ''",
    "CREATE INDEX kin_state ON stream(parent, kind, status, updated, name) WHERE parent <> ''",
    "CREATE INDEX stream_born ON stream(parent, kind, created, name) WHERE parent <> ''",
    "CREATE INDEX stream_owner ON stream(owner, kind, updated, name) WHERE owner <> ''",
    "CREATE INDEX owner_state ON stream(owner, kind, status, updated, name) WHERE owner <> ''",
    "CREATE INDEX owner_born ON stream(owner, kind, created, name) WHERE owner <> ''",
    "CREATE INDEX word_stream ON word(stream, id)",
    "CREATE INDEX word_index ON word USING gin(lexemes)",
)


class SchemaStep(Struct, frozen=True):
    """From one version to the next. `apart` is done one by one outside of a transaction, and must not mind
    being done twice. `oldest`: programs of which version can use what it makes."""

    together: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    oldest: int = 1


FIRST = SchemaStep(
    (STREAMS, ITEMS, WORDS, "CREATE TABLE dropped(stream bigint PRIMARY KEY)", ALIVE, *INDEXES), oldest=1
)
QUESTIONS = """
CREATE TABLE question(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream text COLLATE "C" NOT NULL,
    node bigint NOT NULL DEFAULT 0, asker bigint NOT NULL, asked float8 NOT NULL,
    taken bigint NOT NULL DEFAULT 0, data bytea NOT NULL, answer bytea)"""
NODES = """
CREATE TABLE node(
    number bigint PRIMARY KEY, name text NOT NULL, version text NOT NULL, since float8 NOT NULL,
    runs int NOT NULL DEFAULT 0, most int NOT NULL DEFAULT 0, lag float8 NOT NULL DEFAULT 0)"""
LIVING = """
CREATE FUNCTION living(grace float8) RETURNS TABLE(node bigint) LANGUAGE sql VOLATILE AS $$
    SELECT classid::bigint << 32 | objid::bigint FROM pg_catalog.pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    UNION SELECT s.node FROM stream s WHERE s.holder <> ''
    AND pg_catalog.pg_postmaster_start_time() > clock_timestamp() - grace * interval '1 second' $$"""
BY_NODES = SchemaStep((QUESTIONS, NODES, LIVING), oldest=1)
"""What nodes say to each other. A program that knows nothing of it goes on, as the only one that writes."""
QUOTA = """
CREATE TABLE quota(
    owner text COLLATE "C" PRIMARY KEY, full_at float8 NOT NULL DEFAULT 0, day int NOT NULL DEFAULT 0,
    cost float8 NOT NULL DEFAULT 0) WITH (fillfactor = 70)"""
SLOT = """
CREATE TABLE slot(
    run text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, node bigint NOT NULL, day int NOT NULL,
    cost float8 NOT NULL DEFAULT 0)"""
TAKE = """
CREATE FUNCTION take_requests(whose text, per_minute int, wanted int, back int, slack float8, moment float8)
RETURNS TABLE(granted int, full_in float8) LANGUAGE plpgsql AS $$
DECLARE each float8 := 60.0 / per_minute; at float8; filled float8;
BEGIN
    INSERT INTO quota(owner) VALUES(whose) ON CONFLICT DO NOTHING;
    SELECT q.full_at INTO filled FROM quota q WHERE q.owner = whose FOR UPDATE;
    at := coalesce(moment, extract(epoch FROM clock_timestamp()));
    filled := greatest(least(filled, at + 60.0) - back * each, at); -- a clock may have been set back
    granted := least(wanted, greatest(floor((60.0 + each * slack - (filled - at)) / each)::int, 0));
    filled := filled + granted * each;
    UPDATE quota q SET full_at = filled WHERE q.owner = whose;
    full_in := filled - at;
    RETURN NEXT;
END $$"""
USED = """
CREATE FUNCTION quota_used(whose text, but text, today int, grace float8)
RETURNS TABLE(runs int, spent float8) LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT count(*)::int FROM slot s LEFT JOIN stream t ON t.name = s.run
        WHERE s.owner = whose AND s.run <> but AND coalesce(t.status, '') IN ('', 'running')
        AND s.node IN (SELECT l.node FROM living(grace) l)),
    coalesce((SELECT sum(s.cost) FROM slot s WHERE s.owner = whose AND s.run <> but AND s.day = today), 0)
    + coalesce((SELECT q.cost FROM quota q WHERE q.owner = whose AND q.day = today), 0) $$"""
ADMIT = """
CREATE FUNCTION admit_run(
    whose text, which text, here bigint, most bigint, money float8, today int, grace float8, waits bool)
RETURNS TABLE(verdict text, runs int, spent float8) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO quota(owner) VALUES(whose) ON CONFLICT DO NOTHING;
    PERFORM FROM quota q WHERE q.owner = whose FOR UPDATE; -- one beginning of an owner at a time
    IF waits AND EXISTS(SELECT FROM slot s JOIN stream t ON t.name = s.run
        WHERE s.owner = whose AND s.run <> which AND t.status NOT IN ('', 'running')
        AND s.node IN (SELECT l.node FROM living(grace) l)) THEN
        verdict := 'unsettled'; -- it has ended, and what it cost is told in a moment
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT u.runs, u.spent INTO runs, spent FROM quota_used(whose, which, today, grace) u;
    verdict := CASE WHEN runs >= most THEN 'too_many_runs'
        WHEN money > 0 AND spent >= money THEN 'budget_spent' ELSE 'admitted' END;
    IF verdict = 'admitted' THEN
        INSERT INTO slot(run, owner, node, day) VALUES(which, whose, here, today)
        ON CONFLICT (run) DO UPDATE SET node = excluded.node;
    END IF;
    RETURN NEXT;
END $$"""
MEMO = """
CREATE TABLE memo(
    name text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, node bigint NOT NULL, at float8 NOT NULL,
    data bytea NOT NULL) WITH (fillfactor = 70)"""
API_KEYS = """
CREATE TABLE api_key(
    id text COLLATE "C" PRIMARY KEY, name text NOT NULL, owner text NOT NULL, hash text NOT NULL,
    created float8 NOT NULL, revoked float8)"""
BY_ALL_NODES = SchemaStep(
    (QUOTA, SLOT, "CREATE INDEX slot_owner ON slot(owner)", TAKE, USED, ADMIT, MEMO, API_KEYS), oldest=1
)
"""What nodes know together: quotas of owners, what was learned of routes, keys. A program that knows nothing
of it goes on, with limits of its own."""
BY_LABELS = SchemaStep(
    ("ALTER TABLE node ADD COLUMN IF NOT EXISTS labels text NOT NULL DEFAULT ''",), oldest=1
)
"""What nodes have. One that knows nothing of labels has none, and takes what it finds."""
USED_WITH_QUEUE = """
CREATE OR REPLACE FUNCTION quota_used(whose text, but text, today int, grace float8)
RETURNS TABLE(runs int, spent float8) LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT count(*)::int FROM slot s LEFT JOIN stream t ON t.name = s.run
        WHERE s.owner = whose AND s.run <> but AND coalesce(t.status, '') IN ('', 'running')
        AND s.node IN (SELECT l.node FROM living(grace) l))
    + (SELECT count(DISTINCT s.queued)::int FROM slot s LEFT JOIN stream t ON t.name = s.run
        WHERE s.owner = whose AND s.run <> but AND s.node = 0 AND s.queued <> ''
        AND (t.status = 'running' OR (t.name IS NULL AND EXISTS(
            SELECT FROM stream p WHERE p.name = s.queued AND p.status = 'active'
            AND (p.holder = '' OR p.until <= extract(epoch FROM clock_timestamp())
                OR p.node NOT IN (SELECT l.node FROM living(grace) l)))))),
    coalesce((SELECT sum(s.cost) FROM slot s WHERE s.owner = whose AND s.run <> but AND s.day = today), 0)
    + coalesce((SELECT q.cost FROM quota q WHERE q.owner = whose AND q.day = today), 0) $$"""
"""A run that waits for a node with room counts until one has it: by its own row, or, while it is only a
message, by its session, which counts once however many messages wait there."""
BY_QUEUE = SchemaStep(
    ("ALTER TABLE slot ADD COLUMN IF NOT EXISTS queued text NOT NULL DEFAULT ''", USED_WITH_QUEUE), oldest=1
)
"""Whose runs wait for a node with room. A program that knows nothing of it lets its owners queue more."""
BY_VACUUM = SchemaStep(
    tuple(
        f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.05)"
        for table in ("stream", "item", "word")
    ),
    oldest=1,
)
"""Room that was deleted is used again once it is a twentieth of a table, not a fifth. It takes no lock that
anybody waits for."""
CONSENT_RULES = """
CREATE TABLE consent_rule(
    id text COLLATE "C" PRIMARY KEY, owner text COLLATE "C" NOT NULL, at float8 NOT NULL,
    data bytea NOT NULL)"""
BY_RULES = SchemaStep((CONSENT_RULES, "CREATE INDEX consent_owner ON consent_rule(owner, at, id)"), oldest=1)
"""What people have allowed for good. A program that knows nothing of it has rules in its own folder."""
STEPS: Mapping[int, SchemaStep] = {
    0: FIRST,
    1: BY_NODES,
    2: BY_ALL_NODES,
    3: BY_LABELS,
    4: BY_QUEUE,
    5: BY_VACUUM,
    6: BY_RULES,
}
"""From each version to the next."""


async def bring_up_to_date(
    connection: Any, address: Address, steps: Mapping[int, SchemaStep] = STEPS, newest: int = FORMAT
) -> None:
    """Make the tables, or change them as this program needs them. Raises FormatUnknown."""
    if await version_of(connection, address, newest) >= newest:
        return
    key = f"turnbuckle {address.schema}"
    await connection.execute("SELECT set_config('lock_timeout', '0', false)")
    await connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", key, timeout=_PATIENCE)
    try:
        await connection.execute("SELECT set_config('lock_timeout', $1, false)", str(LOCK_MILLISECONDS))
        while (version := await version_of(connection, address, newest)) < newest:
            step = steps[version]
            for statement in step.apart:
                await connection.execute(statement)
            async with connection.transaction():
                if version == 0:
                    if not await connection.fetchval(
                        "SELECT to_regnamespace($1) IS NOT NULL", address.written_schema
                    ):
                        await connection.execute(f'CREATE SCHEMA "{address.schema}"')
                    await connection.execute("CREATE TABLE format(version int NOT NULL, oldest int NOT NULL)")
                    await connection.execute("INSERT INTO format VALUES(0, 0)")
                for statement in step.together:
                    await connection.execute(statement)
                await connection.execute(
                    "UPDATE format SET version = $1, oldest = $2", version + 1, step.oldest
                )
    finally:
        await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)


async def version_of(connection: Any, address: Address, newest: int = FORMAT) -> int:
    """The version of the tables; 0 if there are none. Refuses what this program cannot know."""
    here, ours = await connection.fetchrow(
        "SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL",
        f"{address.written_schema}.stream",
        f"{address.written_schema}.format",
    )
    if not ours:
        if here:
            raise FormatUnknown(f"the schema {address.schema} at {address.shown} has other people's tables")
        return 0
    version, oldest = await connection.fetchrow(f'SELECT version, oldest FROM "{address.schema}".format')
    if oldest > newest:
        raise FormatUnknown(
            f"{address.shown} has journal format {version}, and this turnbuckle knows formats up to "
            f"{newest}; use a newer one"
        )
    return int(version)


async def linked(place: str, *, since: int, makes: bool = False) -> tuple[DatabaseLink, Address] | None:
    """A connection for somebody who is not a node, or None if the tables are older than format `since`.
    `makes`: they are brought up to date first. Raises ValueError and JournalError."""
    address = read_address(place)
    link = DatabaseLink(address)
    try:
        async with link.use() as connection:
            await check_server(connection, address)
            if makes:
                await bring_up_to_date(connection, address)
            is_there = await version_of(connection, address) >= since
    except BaseException:
        await link.close()
        raise
    if not is_there:
        await link.close()
        return None
    return link, address
