"""The limit of open files is raised, and what does not fit is told."""

import subprocess
import sys

import pytest

ASKS = """
import logging, resource, sys
from turnbuckle.server.http.descriptors import room_for
logging.basicConfig(format="%(message)s", stream=sys.stdout)
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(room_for(int(sys.argv[3])), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    "soft, hard, wanted, said",
    [
        (300, 1000, 100, ["100 456"]),
        (1000, 1000, 100, ["100 1000"]),
        (300, 500, 1000, ["only 122 connections are possible, not 1000", "122 500"]),
        (200, 200, 10, ["only 1 connections are possible", "1 200"]),
    ],
)
@pytest.mark.process
@pytest.mark.requirement("R12")
def test_as_many_fit_as_the_machine_allows_and_some_files_stay_free(soft, hard, wanted, said):
    command = [sys.executable, "-c", ASKS, str(soft), str(hard), str(wanted)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(start) for line, start in zip(lines, said, strict=True))
