"""Tests have their folders in memory only where that harms nobody."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.processes import folder_in_memory
from support.processes.folder_in_memory import MEMORY, ROOM, free_memory, is_usable, short_folder, use_memory

NO_EXEC = 8
LARGE = {"f_flag": 0, "f_bavail": ROOM >> 12, "f_frsize": 1 << 12}


@pytest.mark.parametrize(
    "place, usable",
    [
        (LARGE, True),
        (LARGE | {"f_bavail": (ROOM >> 12) - 1}, False),
        (LARGE | {"f_flag": NO_EXEC}, False),
    ],
    ids=["room", "too little room", "nothing can be started there"],
)
def test_a_folder_is_usable_with_room_and_where_programs_start(monkeypatch, tmp_path, place, usable):
    monkeypatch.setattr(os, "ST_NOEXEC", NO_EXEC, raising=False)
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(**place))
    assert is_usable(tmp_path) is usable


def test_a_machine_without_such_a_folder_has_the_usual_one(monkeypatch, tmp_path):
    assert not is_usable(tmp_path / "nowhere")
    assert free_memory(tmp_path / "nowhere") == 0
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert short_folder() == Path("/tmp")


@pytest.mark.parametrize(
    "free, said, wanted",
    [(2 * ROOM, None, str(MEMORY)), (2 * ROOM - 1, None, None), (2 * ROOM, "/else", "/else")],
    ids=["enough", "too little memory", "somebody said where"],
)
def test_memory_is_used_where_there_is_enough_and_nobody_said_otherwise(monkeypatch, free, said, wanted):
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.setattr(folder_in_memory, "is_usable", lambda folder: True)
    monkeypatch.setattr(folder_in_memory, "free_memory", lambda: free)
    monkeypatch.delenv("TMPDIR", raising=False)
    if said:
        monkeypatch.setenv("TMPDIR", said)
    use_memory()
    assert os.environ.get("TMPDIR") == wanted
    os.environ.pop("TMPDIR", None)  # set behind the back of monkeypatch, which puts back what was there


def test_free_memory_is_what_the_system_says(tmp_path):
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:       1000 kB\nMemAvailable:      8 kB\n")
    assert free_memory(told) == 8192
