"""What a search costs in a journal of 200 sessions and in one of 20,000: the ratio is what counts.

`.venv/bin/python benchmarks/search.py`
"""

import sys
import tempfile
import time
from pathlib import Path

from turnbuckle.journal.port import IndexUpdate, StreamQuery
from turnbuckle.journal.sqlite import database, rows
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.search import find
from turnbuckle.journal.words import questions

QUESTIONS = ("session", "s", "usual", "usual message", "session17x", "北京")
TIMES = 5


def filled(folder: Path, streams: int) -> Path:
    """Every stream has words that all have, and one that begins as all others do."""
    connection = database.open_to_write(folder / DATABASE)
    with database.transaction(connection):
        for key in range(1, streams + 1):
            connection.execute(*rows.make_stream(key, f"run-{key}", 0, float(key)))
            text = f"the usual message about session{key}x, 我们明天在北京见面 " + "and some more words " * 10
            for sql, values in rows.set_note(
                key, IndexUpdate(kind="run", user="ann", words=text), float(key)
            ):
                connection.execute(sql, values)
    connection.close()
    return folder / DATABASE


def seconds(file: Path, question: str) -> float:
    connection = database.open_to_read(file)
    began = time.perf_counter()
    for _ in range(TIMES):
        find(connection, questions(question), StreamQuery(kind="run", user="ann"), 20)
    taken = (time.perf_counter() - began) / TIMES
    connection.close()
    return taken


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for count in (200, many):
            (place := Path(folder) / str(count)).mkdir()
            files.append(filled(place, count))
        for question in QUESTIONS:
            few, more = (seconds(file, question) for file in files)
            print(f"{question:16} {1000 * few:8.2f} ms  {1000 * more:8.2f} ms  {more / few:6.1f} times")


if __name__ == "__main__":
    main()
