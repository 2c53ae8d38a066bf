"""The steps that bring an older journal up to date, one for each version of the format.

A step may change tables, and the bodies of items. Bodies are JSON objects with a `type`; whoever changes what
is stored in one changes it here too, by its names alone: the types in the program know only what is newest.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from turnbuckle.journal.sqlite.checksums import SUM_BITS, checksum

if TYPE_CHECKING:
    from turnbuckle.journal.sqlite.database import SqlConnection

CHILDREN_IN_ORDER = (
    "CREATE INDEX IF NOT EXISTS stream_born ON stream(parent, kind, created, name) WHERE parent != ''"
)
LISTS_IN_ORDER = (
    "CREATE INDEX IF NOT EXISTS list_state ON stream(kind, status, updated, name)",
    "CREATE INDEX IF NOT EXISTS kin_state ON stream(parent, kind, status, updated, name) WHERE parent != ''",
    "CREATE INDEX IF NOT EXISTS user_state ON stream(user, kind, status, updated, name) WHERE user != ''",
    "CREATE INDEX IF NOT EXISTS list_born ON stream(kind, created, name)",
    "CREATE INDEX IF NOT EXISTS user_born ON stream(user, kind, created, name) WHERE user != ''",
)
"""For every list that can be asked for, so that a page of it costs what it shows."""
INDEXED_LATER = (
    # Texts come into the index some time after they were stored, many at once. All up to this one are in it.
    "CREATE TABLE IF NOT EXISTS indexed(upto INTEGER NOT NULL)",
    "INSERT INTO indexed(upto) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM indexed)",
    # A number that nobody has any more may be given again, to a text that is not in the index yet.
    """CREATE TRIGGER word_went AFTER DELETE ON word BEGIN
        INSERT INTO word_index(word_index, rowid, text)
            SELECT 'delete', old.id, old.text FROM indexed WHERE old.id <= upto;
        UPDATE indexed SET upto = (SELECT coalesce(max(id), 0) FROM word)
            WHERE upto > (SELECT coalesce(max(id), 0) FROM word); END""",
)
_NAMES = {"wishes": "options", "asked": "origin"}
_RENAMED = ("run_started", "message_accepted", "user_spoke")
_BODIES = """
SELECT item.stream, item.seq, item.sum, item.data FROM item JOIN stream ON stream.id = item.stream
WHERE stream.kind IN ('run', 'told', 'import', 'session') AND (item.stream, item.seq) > (?, ?)
AND CAST(substr(item.data, 1, 10) AS TEXT) IN ('{"type":"r', '{"type":"m', '{"type":"u')
ORDER BY item.stream, item.seq LIMIT 500"""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _name_options_and_origin(connection: "SqlConnection") -> None:
    """From 1 to 2: what a caller wants of a run is called `options` and where it came from `origin`. The runs
    of a session are listed in the order in which they began. Runs that hold their whole history stay so."""
    connection.execute(CHILDREN_IN_ORDER)
    for stream, seq, stored, data in _bodies(connection):
        fields = _fields.decode(data)
        if msgspec.json.decode(fields["type"]) not in _RENAMED or _NAMES.keys().isdisjoint(fields):
            continue
        renamed = msgspec.json.encode({_NAMES.get(name, name): value for name, value in fields.items()})
        total = checksum(stream, seq, renamed, stored >> SUM_BITS)
        connection.execute(
            "UPDATE item SET sum = ?, data = ? WHERE stream = ? AND seq = ?", (total, renamed, stream, seq)
        )


_UNDONE = """
SELECT item.data FROM item JOIN stream ON stream.id = item.stream
WHERE stream.kind = 'session' AND CAST(substr(item.data, 1, 16) AS TEXT) = '{"type":"undone"'"""


def _mark_what_was_undone(connection: "SqlConnection") -> None:
    """From 2 to 3: a row has a mark, and that of a run says that it was taken back. Every list has an
    index."""
    if not any(row[1] == "mark" for row in connection.execute("PRAGMA table_info(stream)")):
        connection.execute("ALTER TABLE stream ADD COLUMN mark TEXT NOT NULL DEFAULT ''")
    for statement in LISTS_IN_ORDER:
        connection.execute(statement)
    for (data,) in connection.execute(_UNDONE).fetchall():
        run = msgspec.json.decode(_fields.decode(data)["run"])
        connection.execute("UPDATE stream SET mark = 'undone' WHERE name = ? AND kind = 'run'", (run,))


def _index_later(connection: "SqlConnection") -> None:
    """From 3 to 4: a text came into the index of words with the transaction that stored it."""
    connection.execute("DROP TRIGGER IF EXISTS word_came")
    connection.execute("DROP TRIGGER IF EXISTS word_went")
    for statement in INDEXED_LATER:
        connection.execute(statement)
    connection.execute("UPDATE indexed SET upto = (SELECT coalesce(max(id), 0) FROM word)")


def _bodies(connection: "SqlConnection") -> Iterator[tuple[int, int, int, bytes]]:
    place = (0, 0)
    while page := connection.execute(_BODIES, place).fetchall():
        yield from page
        place = page[-1][:2]


MIGRATIONS: Mapping[int, "Callable[[SqlConnection], None]"] = {
    1: _name_options_and_origin,
    2: _mark_what_was_undone,
    3: _index_later,
}
"""From each version to the next."""
