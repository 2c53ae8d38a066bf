"""Keeps the Postgres of a test run: `keeper.py FOLDER`. Ends it when nobody holds the folder's lock any more."""

import fcntl
import sys
from pathlib import Path

from support.postgres.cluster import Cluster


def main(folder: Path) -> None:
    cluster = Cluster(folder)
    try:
        cluster.make()
        cluster.start()
        (folder / "ready").touch()
        with (folder / "users").open("a+b") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        cluster.remove()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
