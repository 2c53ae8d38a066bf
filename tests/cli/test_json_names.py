"""`--json` says the same with the same names as HTTP: whoever learned one can read the other."""

import json
from pathlib import Path

import pytest
from support.http.all_endpoints import DOCUMENT

from turnbuckle.cli.main import main

SCHEMAS = DOCUMENT["components"]["schemas"]
DELETED = {"id", "object", "deleted"}
OF_FILES = {"owner", "status"}
"""What only a data folder has to say of a session: it may hold those of several owners."""
WHOLE = {"waiting", "suspended", "counted", "runs", "messages"}
"""What one command shows, and several requests."""


def names_of(schema):
    return set(SCHEMAS[schema]["properties"])


class Shell:
    def __init__(self, capsys):
        self._capsys = capsys

    def __call__(self, *arguments):
        with pytest.raises(SystemExit):
            main(arguments)
        return self._capsys.readouterr().out

    def json(self, *arguments):
        return json.loads(self(*arguments, "--json"))

    def lines(self, *arguments):
        return [json.loads(line) for line in self(*arguments, "--json").splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With runs, a session and a draft."""
    made = tmp_path_factory.mktemp("json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for task in (
            ("--session", "drafted", "write a.txt with 50 lines and cut", "--max-calls", "1"),
            ("--session", "work", "hello"),
        ):
            with pytest.raises(SystemExit):
                main(("run", *task))
    return made


@pytest.fixture
def shell(folder, monkeypatch, capsys):
    """All tests share the folder; none needs what another left there."""
    monkeypatch.chdir(folder)
    return Shell(capsys)


ROWS = {
    ("runs", "list"): ("RunLine", set()),
    ("sessions", "list"): ("SessionView", OF_FILES),
    ("sessions", "search", "hello"): ("SessionView", OF_FILES),
    ("sessions", "show", "work"): ("SessionView", OF_FILES | WHOLE),
    ("sessions", "rename", "work", "other"): ("SessionView", OF_FILES),
    ("sessions", "fork", "work"): ("SessionView", OF_FILES),
    ("sessions", "import", "work.jsonl"): ("SessionView", OF_FILES | {"runs", "items"}),
    ("sessions", "new", "work"): ("DoneView", set()),
    ("sessions", "reset", "work"): ("DoneView", set()),
    ("sessions", "undo", "work"): ("DoneView", set()),
    ("sessions", "stop", "work"): ("DoneView", set()),
    ("drafts", "list"): ("DraftView", {"name"}),
}


@pytest.mark.requirement("H2", "H13")
@pytest.mark.parametrize("command", ROWS, ids=" ".join)
def test_what_a_command_prints_has_the_names_of_the_schema(command, shell):
    schema, more = ROWS[command]
    if "import" in command:
        Path("work.jsonl").unlink(missing_ok=True)
        shell("sessions", "export", "work", "work.jsonl")
    told = shell.json(*command)
    rows = told if isinstance(told, list) else [told]
    assert rows
    for row in rows:
        assert set(row) - more <= names_of(schema)
        assert set(SCHEMAS[schema].get("required", ())) <= set(row)


@pytest.mark.requirement("H2", "H13")
def test_parts_of_a_session_have_the_names_of_their_own_schemas(shell):
    whole = shell.json("sessions", "show", "work")
    assert whole["runs"]
    assert whole["messages"]
    assert all(set(row) <= names_of("RunLine") for row in whole["runs"])
    assert all(set(row) <= names_of("MessageView") for row in whole["messages"])


@pytest.mark.requirement("H2", "H13")
def test_one_draft_and_what_was_deleted_are_told_as_over_http(shell, tmp_path):
    name = shell.json("drafts", "list")[0]["name"]
    assert set(shell.json("drafts", "show", name)) - {"name"} == names_of("DraftView")
    saved = shell.json("drafts", "save", name, str(tmp_path / "kept.txt"))
    assert set(saved) - {"name", "path"} <= names_of("DraftView")
    fork = shell.json("sessions", "fork", "work")["id"]
    assert set(shell.json("sessions", "delete", fork)) == DELETED


@pytest.mark.requirement("H2", "H13")
def test_the_lines_of_a_run_are_the_data_of_its_events_and_then_its_ledger(shell):
    for command in (("run", "hello"), ("runs", "show")):
        lines = shell.lines(*command)
        assert set(lines[0]) - {"seq"} <= names_of("RunStartedEvent")
        ended = next(line for line in lines if line["type"] == "run_ended")
        assert set(ended) - {"seq"} <= names_of("RunEndedEvent")
        assert not [line for line in lines if line["type"] == "waited"]
    ledger = shell.lines("run", "hello")[-1]
    assert set(ledger) - {"type"} == names_of("LedgerView")
