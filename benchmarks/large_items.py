"""What a small write costs beside large ones, by how the table of items is made.

    python benchmarks/large_items.py

Each stream begins with one item of the given size, as a run does that was sent a long history, and then gets
six of 200 bytes; CPU time of these, in the second half of 300 streams. Where the
place is the key, rows lie in one tree by stream and number, and SQLite reads the whole of a row that does not
fit on a page to compare two numbers. A table with an index beside it, as the journal has, never does.
"""

import sqlite3
import tempfile
import time
from pathlib import Path

STREAMS, SMALL = 300, 6
COLUMNS = "stream INTEGER NOT NULL, seq INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL"
TABLES = {
    "place as key": (f"CREATE TABLE item({COLUMNS}, PRIMARY KEY(stream, seq)) WITHOUT ROWID",),
    "with an index": (f"CREATE TABLE item({COLUMNS})", "CREATE UNIQUE INDEX item_place ON item(stream, seq)"),
}
INSERT = "INSERT INTO item(stream, seq, sum, data) VALUES(?, ?, 0, ?)"


def small_write(statements: tuple[str, ...], size: int) -> float:
    """Microseconds of CPU for each."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "items.db", isolation_level=None)
        for sql in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", *statements):
            connection.execute(sql).fetchall()
        spent = 0.0
        for stream in range(1, STREAMS + 1):
            connection.execute(INSERT, (stream, 1, bytes(size)))
            began = time.process_time()
            for seq in range(2, 2 + SMALL):
                connection.execute(INSERT, (stream, seq, bytes(200)))
            if stream > STREAMS // 2:
                spent += time.process_time() - began
        connection.close()
    return spent / (STREAMS - STREAMS // 2) / SMALL * 1e6


def main() -> None:
    print(f"{'bytes':>10}" + "".join(f"{name:>16}" for name in TABLES))
    for size in (1_000, 100_000, 500_000, 2_000_000):
        print(f"{size:>10}" + "".join(f"{small_write(made, size):>13.0f} µs" for made in TABLES.values()))


if __name__ == "__main__":
    main()
