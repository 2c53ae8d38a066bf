"""SIGHUP: a server takes again what it can of its settings, and says what it cannot. A closed terminal is a stop."""

import asyncio
import logging
import os
import signal

import pytest
from support.processes.own_terminal import start_in_terminal
from support.processes.served_folder import until
from support.server.live_server import gate, run_scenario

from turnbuckle.app import open_app
from turnbuckle.config import changed_keys, load, merged
from turnbuckle.hosting import open_server
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.settings import RELOADED, Settings, is_reloaded

BEFORE = """
[turn]
max_calls = 9
[server]
port = 0
max_runs = 5
[tools]
approval = { shell = "ask" }
"""
AFTER = """
[turn]
max_calls = 3
max_money = 1.5
[server]
port = 8999
max_runs = 1
[tools]
approval = { shell = "deny", write_file = "ask" }
[session]
busy = "steer"
"""


def reloaded(folder, text):
    """A server that was told twice to read its settings again."""
    file = folder / "turnbuckle.toml"
    file.write_text(BEFORE)

    def read():
        return load(file, folder=folder, environment={})

    async def main():
        async with open_server(read(), {}, again=read) as service:
            file.write_text(text)
            service.reload()
            service.reload()
            return service

    return asyncio.run(main())


@pytest.mark.requirement("H13")
def test_what_can_be_taken_again_is_and_the_rest_is_named(tmp_path, caplog):
    caplog.set_level(logging.INFO, "turnbuckle.server")
    service = reloaded(tmp_path, AFTER)
    told = [record.getMessage() for record in caplog.records]
    read = next(line for line in told if line.startswith("settings read again: changed"))
    assert sorted(read.partition("changed ")[2].split(", ")) == [
        "server.max_runs",
        "tools.approval",
        "turn.max_calls",
        "turn.max_money",
    ]
    assert "these need a restart, and stay as they were: server.port, session.busy" in told
    assert "settings read again: nothing changed" in told  # the second time
    service.slots.acquire("a", "r1")
    with pytest.raises(Exception, match="max_runs"):
        service.slots.acquire("b", "r2")


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "text, words",
    [
        ("turn = {", "turnbuckle.toml"),
        ("[turn]\nmax_calls = 0", "max_calls"),
        ('[tools]\napproval = { shel = "ask" }', "there is no tool 'shel'"),
        ('[context]\nroute = "none"', "there is no route 'none'"),
    ],
)
def test_settings_with_a_mistake_change_nothing_and_that_is_said(text, words, tmp_path, caplog):
    service = reloaded(tmp_path, text)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told[0].startswith("the settings stay as they were: ")
    assert words in told[0]
    for number in range(5):
        service.slots.acquire(f"owner {number}", f"r{number}")


def test_new_runs_get_the_new_rules(tmp_path):
    file = tmp_path / "turnbuckle.toml"
    file.write_text(BEFORE)

    async def main():
        async with open_app(load(file, folder=tmp_path, environment={}), {}) as opened:
            before = opened.runs.policy
            file.write_text(AFTER)
            opened.reload(load(file, folder=tmp_path, environment={}).settings)
            return before, opened.runs.policy

    before, after = asyncio.run(main())
    assert (before.limits.model_calls, after.limits.model_calls, after.limits.money) == (9, 3, 1.5)
    assert after.routes == before.routes
    assert {rule.tool: rule.rule for rule in after.consent if rule.tool in ("shell", "write_file")} == {
        "shell": "deny",
        "write_file": "ask",
    }


def test_every_name_of_the_list_is_a_setting():
    tables = {name: getattr(Settings(), name) for name in Settings.__struct_fields__}
    for key in RELOADED:
        table, _, name = key.partition(".")
        assert hasattr(tables[table], name) if name else table in tables
        assert is_reloaded(key)
    assert not is_reloaded("routes")
    assert not is_reloaded("server.port")


def test_keys_that_differ_are_named_once_and_can_be_taken_alone(tmp_path):
    old, new = Settings(), load(_written(tmp_path), environment={}).settings
    keys = changed_keys(old, new)
    assert "turn.max_calls" in keys
    assert changed_keys(merged(old, new, ["turn.max_calls"]), new) == [
        key for key in keys if key != "turn.max_calls"
    ]


def _written(folder):
    file = folder / "turnbuckle.toml"
    file.write_text(AFTER)
    return file


@pytest.mark.process
@pytest.mark.requirement("H13")
def test_a_closed_terminal_stops_a_server_in_good_order_and_an_open_one_reloads_it(tmp_path):
    (tmp_path / "turnbuckle.toml").write_text(BEFORE)
    log = tmp_path / "log"
    process, terminal = start_in_terminal(tmp_path, "serve", "--config", "turnbuckle.toml", log=log)

    def told(words):
        until(lambda: log.exists() and words in log.read_text(), log.read_text)

    told("listens on")
    os.kill(process, signal.SIGHUP)
    told("settings read again: nothing changed")
    os.close(terminal)  # as a terminal window does: the kernel sends the signal
    told("the terminal was closed: shutting down")
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_run_keeps_the_rules_that_it_began_with_also_for_its_first_tool(tmp_path):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return (Say("done"), Finish())
        return (Say("I look. "), gate(1), Call("read_file", {"path": "note.txt"}), Finish("calls"))

    async def scenario(server):
        (server.work / "note.txt").write_text("found it")
        begun = await server.begin("go")
        async with server.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b"I look. ")
            file = tmp_path / "turnbuckle.toml"
            denied = '[tools]\napproval = { "read_file:note.txt" = "deny" }'
            file.write_text(file.read_text().replace("[tools]", denied))
            server.service.reload()
            server.behind.gates.open(1)
            events = await reader.rest()
        return [frame.json["outcome"]["status"] for frame in events if frame.event == "tool_finished"]

    assert run_scenario(scenario, tmp_path, model) == ["finished"]
