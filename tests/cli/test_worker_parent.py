"""What the parent of worker processes decides about one that ended, or that could not be started."""

import errno
import os

import pytest

from turnbuckle.cli.exits import FAILED
from turnbuckle.cli.workers import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MOST_TRIES,
    SOUND,
    StartAgain,
    WorkerParent,
    after_end,
)
from turnbuckle.config import load


@pytest.mark.parametrize(
    "code, lived, tries, then",
    [
        (0, 5.0, 0, StartAgain(0.0, 0)),  # somebody sent it away
        (0, 5.0, MOST_TRIES, StartAgain(0.0, 0)),
        (-9, 5.0, 0, StartAgain(FIRST_PAUSE, 1)),
        (1, 0.0, 1, StartAgain(2 * FIRST_PAUSE, 2)),
        (1, 0.0, MOST_TRIES - 1, StartAgain(LONGEST_PAUSE, MOST_TRIES)),
        (1, 0.0, MOST_TRIES, None),
        (-9, SOUND, MOST_TRIES, StartAgain(FIRST_PAUSE, 1)),  # it was sound for long enough
    ],
)
def test_a_worker_that_ended_is_started_again_ever_later_and_not_for_ever(code, lived, tries, then):
    assert after_end(code, lived, tries) == then


def parent_without_processes(folder, monkeypatch):
    """A parent on a machine that has no process left."""

    def no_process():
        raise OSError(errno.EAGAIN, "no process left")

    monkeypatch.setattr(os, "fork", no_process)
    file = folder / "turnbuckle.toml"
    file.write_text(f'data = "{folder / "data"}"\n[server]\nport = 0\nworkers = 2\n')
    loaded = load(file, environment={})
    return WorkerParent(loaded, lambda: loaded, lambda ready: None)


def test_a_machine_without_processes_does_not_end_the_workers_that_live(tmp_path, monkeypatch, caplog):
    parent = parent_without_processes(tmp_path, monkeypatch)
    parent._is_announced = True
    worker = parent._workers[1]
    for tries in range(1, MOST_TRIES + 1):
        parent._start(worker)
        assert (worker.pid, worker.link, worker.tries, worker.due is None) == (0, None, tries, False)
    parent._start(worker)
    assert worker.due is None
    assert "worker 2, could not be started (no process left); another starts in 0.25 s" in caplog.text
    assert "worker 2, could not be started (no process left) and is given up" in caplog.text


def test_a_first_worker_that_cannot_be_started_ends_the_command_at_once(tmp_path, monkeypatch, capsys):
    assert parent_without_processes(tmp_path, monkeypatch).run() == FAILED
    told = capsys.readouterr().err
    assert told.count("worker 1, could not be started (no process left) before it listened") == 1
    assert "Traceback" not in told
