"""Mends the journal of a folder, and dies right before its N-th change of the file system, by kill -9. Says how many
changes there were if it lives."""

import os
import signal
import sys
from pathlib import Path

from turnbuckle.journal.sqlite.doctor import mend

CHANGES = ("os.rename", "os.remove", "os.truncate", "open", "sqlite3.connect")


def main() -> None:
    left = [int(sys.argv[2])]
    seen = [0]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES:
            seen[0] += 1
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    folder = Path(sys.argv[1])
    sys.addaudithook(watch)
    mend(folder)
    print(seen[0])


if __name__ == "__main__":
    main()
