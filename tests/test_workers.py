"""The tests run in forked workers as they would in one process: nothing of what pytest says gets lost."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes.served_folder import until
from support.processes.stalls import descendants, is_stopped, stalls

HERE = Path(__file__).parent

TESTS = {
    "test_kinds.py": """
        import os, signal, warnings, pytest

        @pytest.mark.parametrize("number", range(30))
        def test_passes(number, tmp_path, record_property):
            print(f"of number {number}")
            (tmp_path / "mine").touch(exist_ok=False)
            record_property("worker", os.getpid())

        def test_fails():
            print("said before it failed")
            left, right = [1, 2], [1, 3]
            assert left == right

        @pytest.mark.process
        def test_kills_its_worker():
            os.kill(os.getpid(), signal.SIGKILL)

        def test_warns():
            warnings.warn("look at this", stacklevel=1)
    """,
    "test_together.py": """
        import os, pytest

        made = []

        @pytest.fixture(scope="module")
        def shared():
            made.append(os.getpid())
            yield
            with open("ended.txt", "a") as file:
                file.write(f"{os.getpid()}\\n")

        @pytest.mark.parametrize("number", range(20))
        def test_has_what_its_neighbours_have(shared, number):
            assert made == [os.getpid()]
    """,
    "conftest.py": """
        import atexit, os

        def said(name):
            with open(name, "a") as file:
                file.write(f"{os.getpid()}\\n")

        atexit.register(said, "first.txt")

        def pytest_runtest_setup(item):
            if not hasattr(item.session, "noted"):
                item.session.noted = True
                atexit.register(said, "workers.txt")
    """,
    "pytest.ini": """
        [pytest]
        markers = process
    """,
}

INTERRUPTED = {
    "test_interrupted.py": """
        import os, pathlib, signal, time, pytest

        first = os.getpid()

        def interrupt(number, frame):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            pathlib.Path("interrupted").touch()
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, interrupt)  # in a shell's background it is ignored

        @pytest.fixture(scope="session")
        def server():
            running = pathlib.Path(f"running-{os.getpid()}")
            running.touch()
            yield
            running.rename(f"ended-{os.getpid()}")

        @pytest.mark.parametrize("number", range(20))
        def test_interrupts_the_first_process(server, number):
            if not pathlib.Path("interrupted").exists():
                os.kill(first, signal.SIGINT)
            while not pathlib.Path("interrupted").exists():
                time.sleep(0.01)
    """,
}

PROGRAMS = {
    "tests/wire/test_alone.py": """
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(4))
        def test_needs_nothing(number):
            pathlib.Path("arrived").touch()
    """,
    "tests/browser/test_needs.py": """
        import pathlib, pytest

        begun = []

        @pytest.mark.parametrize("number", range(4))
        def test_needs_programs(number):
            assert pathlib.Path("arrived").exists()
            begun.append("short")

        @pytest.mark.long(5)
        def test_takes_long():
            begun.append("long")

        @pytest.mark.long(9)
        def test_takes_longest():
            assert begun == []
            begun.append("longest")

        def test_comes_behind_them():
            assert begun[:2] == ["longest", "long"]
    """,
    "pytest.ini": """
        [pytest]
        markers = long
    """,
}


COSTLY = {
    "conftest.py": """
        import os, pathlib, pytest

        @pytest.fixture(scope="session")
        def clients():
            pathlib.Path(f"clients-{os.getpid()}").touch()
    """,
    **{
        f"test_{name}.py": """
        import pytest

        @pytest.mark.parametrize("number", range(10))
        def test_has_clients(clients, number):
            pass

        @pytest.mark.parametrize("number", range(10))
        def test_has_none(number):
            pass
        """
        for name in ("one", "other")
    },
}


def ran(folder: Path, *arguments: str, tests: dict[str, str] = TESTS) -> str:
    for name, text in tests.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(re.sub("^        ", "", text, flags=re.MULTILINE).lstrip())
    words = [sys.executable, "-m", "pytest", "-p", "support.processes.forked_workers"]
    # Its own place for folders: at its end it would remove what earlier runs of all tests have left in the common one.
    place = f"--basetemp={folder}-temporary"
    with subprocess.Popen(
        [*words, "-p", "no:cacheprovider", "-q", "-rfE", place, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        try:
            told, _ = started.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            for process in (*descendants(started.pid), started.pid):
                os.kill(process, signal.SIGABRT)  # pytest says where it is
            pytest.fail(f"it did not end:\n{started.communicate()[0]}", pytrace=False)
    return f"{told}\nended with {started.returncode}"


@pytest.mark.process
def test_all_is_told_a_dead_worker_fails_its_test_and_another_goes_on(tmp_path: Path) -> None:
    report = ("-p", "support.processes.cpu_report", "--cpu-report", "1")
    xml = (f"--junit-xml={tmp_path}/all.xml", "-o", "junit_family=xunit1")
    told = ran(tmp_path, "--workers", "3", *xml, *report)
    assert "2 failed, 51 passed, 1 warning" in told
    assert "ended with 1" in told
    assert "FAILED test_kinds.py::test_kills_its_worker" in told
    assert "the worker at this test ended with -9" in told
    assert "said before it failed" in told
    assert "assert [1, 2] == [1, 3]" in told
    assert "UserWarning: look at this" in told
    assert re.search(r"\d  in 5[23] tests, and [\d.]+ beside them; [\d.]+ were to be had", told)
    written = (tmp_path / "all.xml").read_text()
    assert written.count("<testcase ") == 53
    workers = set(re.findall(r'name="worker" value="(\d+)"', written))
    assert len(workers) >= 2
    assert len((tmp_path / "ended.txt").read_text().split()) == 1
    assert len((tmp_path / "first.txt").read_text().split()) == 1
    assert workers <= {*(tmp_path / "workers.txt").read_text().split()}


@pytest.mark.process
def test_what_is_costly_to_start_is_started_by_one_worker(tmp_path: Path) -> None:
    told = ran(tmp_path, "--workers", "3", tests=COSTLY)
    assert "40 passed" in told
    assert len([*tmp_path.glob("clients-*")]) == 1


@pytest.mark.process
def test_a_limit_of_failures_ends_all_workers(tmp_path: Path) -> None:
    told = ran(tmp_path, "--workers", "2", "-x", "-k", "fails or passes")
    assert "1 failed" in told
    assert "stopping after 1 failures" in told
    assert "ended with 1" in told
    alone = ran(tmp_path, "--workers", "0", "-x", "-k", "fails")
    assert "1 failed" in alone


@pytest.mark.process
def test_workers_end_what_they_keep_running_when_the_first_process_is_interrupted(tmp_path: Path) -> None:
    told = ran(tmp_path, "--workers", "2", tests=INTERRUPTED)
    assert "KeyboardInterrupt" in told
    assert "ended with 2" in told
    assert [error for error in ("BrokenPipeError", "EOFError", "ConnectionReset") if error in told] == []
    assert [*tmp_path.glob("running-*")] == []
    assert [*tmp_path.glob("ended-*")] != []


@pytest.mark.process
def test_what_needs_programs_of_others_waits_for_them_and_the_longest_begins(tmp_path: Path) -> None:
    told = ran(tmp_path, "--workers", "1", "--programs=arrived", tests=PROGRAMS)
    assert "11 passed" in told
    assert "ended with 0" in told
    gone = ran(tmp_path, "--workers", "2", "--programs=never", "-x", "-k", "nothing", tests=PROGRAMS)
    assert "4 passed, 7 deselected" in gone


@pytest.mark.process
def test_a_run_that_leaves_something_in_the_project_fails_and_says_what(tmp_path: Path) -> None:
    litter = {
        "test_litter.py": """
        import pathlib

        def test_leaves_something():
            pathlib.Path("data").mkdir(exist_ok=True)
        """
    }
    words = ("-p", "support.processes.left_behind", "--workers", "2")
    first, second = (ran(tmp_path, *words, tests=litter) for _ in range(2))
    assert re.search(r"left in the project =+\ndata\n1 passed", first)
    assert "ended with 1" in first
    assert "left in" not in second
    assert "ended with 0" in second


@pytest.mark.process
def test_stalls_stop_what_a_process_started_and_let_all_of_it_go_on():
    with subprocess.Popen(["sh", "-c", "sleep 600 & wait"]) as shell:
        until(lambda: len(descendants(shell.pid)) == 1)
        [started] = descendants(shell.pid)
        with stalls(shell.pid, 1):
            until(lambda: is_stopped(started))
        assert not is_stopped(started)
        assert not is_stopped(shell.pid)
        for each in (started, shell.pid):
            os.kill(each, signal.SIGKILL)
