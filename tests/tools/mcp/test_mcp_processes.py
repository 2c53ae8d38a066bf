"""Real MCP servers: started in the sandbox, asked through a run, and gone with whoever started them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agents.open_agent import lab_provider
from support.processes.served_folder import until
from support.tools.mcp import PROGRAM
from support.tools.sandbox_attack import MECHANISMS, SECRET, Attack, tools_for

from turnbuckle import Agent, Allow, QuestionAsked
from turnbuckle.app import own_files, sandbox_of
from turnbuckle.call.clock import SystemClock
from turnbuckle.cli.doctor.setup import check_mcp
from turnbuckle.config import load
from turnbuckle.errors import ConfigError
from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.mcp.servers import McpPlace, McpServers
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.sandbox.choose import SandboxRules, choose
from turnbuckle.tools.sandbox.files import visible
from turnbuckle.tools.sandbox.port import NoSandbox, Sandbox
from turnbuckle.trust import is_data_ours
from turnbuckle.turn.approvals import CHANGED
from turnbuckle.vocab.tooling import ToolOutcome

pytestmark = [pytest.mark.process, pytest.mark.requirement("M1", "R7")]

HERE = Path(__file__).parent
VALUE = "value-of-the-variable-4711"


def processes_with(mark: str) -> list[int]:
    """The processes that have this word in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in words and int(entry) != os.getpid():
                found.append(int(entry))
    return found


def wait_until_gone(mark: str) -> None:
    until(lambda: not processes_with(mark))


def asked(
    attack: Attack, sandbox: Sandbox, calls: list[tuple[str, str]], **settings: Any
) -> list[ToolOutcome]:
    """Start a server, make these calls one after the other, and end it."""

    async def main() -> list[ToolOutcome]:
        words = (*PROGRAM[1:], "well", str(attack.workspace / "lives"))
        given = McpSettings(PROGRAM[0], words, start_seconds=100, **settings)
        own = {"notes": {"NOTES_VALUE": VALUE}}
        servers = McpServers(
            {"notes": given}, McpPlace(attack.workspace, attack.environment, own, sandbox), SystemClock()
        )
        try:
            dispatcher = Dispatcher(await servers.registry(Registry()))
            attack.box.dispatcher = dispatcher
            return [await attack.box.run(f"mcp__notes__{name}", text=text) for name, text in calls]
        finally:
            await servers.close()

    return asyncio.run(main())


def sandbox_for(attack: Attack) -> Sandbox:
    seen = visible(
        attack.workspace,
        attack.data,
        attack.environment,
        readable=(str(Path(PROGRAM[-1]).parent),),
        prefixes=(sys.prefix, sys.base_prefix),
        is_root=os.getuid() == 0,
    )
    return choose(SandboxRules("strict", seen), tools_for(attack.mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_server_is_kept_in_its_place_and_has_no_network(tmp_path: Path, mechanism: str):
    attack = Attack(tmp_path, mechanism)
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = str(outside.getsockname()[1])
        calls = [
            ("echo", "hello"),
            ("write", str(attack.workspace / "note.txt")),
            ("read", str(attack.home / ".ssh/id")),
            ("read", str(attack.data / "journal.db")),
            ("connect", port),
            ("variables", ""),
        ]
        outcomes = asked(attack, sandbox_for(attack), calls)
        said = [one.text for one in outcomes]
    assert said[:2] == ["hello", "written"]
    assert (attack.workspace / "note.txt").read_text() == "mine"
    assert [text.partition(":")[0] for text in said[2:5]] == ["refused"] * 3
    assert SECRET not in str(said)
    assert "SSH_AUTH_SOCK" not in said[5]
    assert VALUE in said[5]  # which was named for it


def test_the_network_is_there_if_the_setting_says_so(tmp_path: Path):
    attack = Attack(tmp_path, "landlock")
    with socket.create_server(("127.0.0.1", 0)) as outside:
        calls = [("connect", str(outside.getsockname()[1]))]
        assert asked(attack, sandbox_for(attack), calls, network=True)[0].text == "connected"


def test_a_real_server_that_breaks_ends_each_call_and_lives_again(tmp_path: Path):
    attack = Attack(tmp_path, "landlock")
    much = "y" * 1_000_000  # more than a pipe takes at once
    calls = [("line", ""), ("echo", "again"), ("die", ""), ("long", "2000000"), ("fail", ""), ("echo", much)]
    flooded, again, died, long, failed, echoed = asked(attack, NoSandbox(), calls)
    assert (flooded.status, "4 MB" in flooded.text) == ("unknown", True)
    assert again.text == "again"
    assert (died.status, "exit code 3" in died.text, "too much" in died.text) == ("unknown", True, True)
    assert long.kept_at is not None
    assert len(long.text) < 40_000
    assert (failed.status, failed.text) == ("failed", "it is broken")
    assert echoed.kept_at is not None
    assert len((attack.workspace / echoed.kept_at).read_text()) == len(much)


def test_a_message_of_a_million_tiny_parts_is_left_unread(tmp_path: Path):
    attack = Attack(tmp_path, "landlock")
    bomb, after = asked(attack, NoSandbox(), [("parts", ""), ("echo", "still here")])
    assert (bomb.status, "parts" in bomb.text) == ("unknown", True)
    assert after.text == "still here"


def test_a_call_that_takes_too_long_is_ended_and_the_server_with_it(tmp_path: Path):
    attack = Attack(tmp_path, "landlock")
    (hung,) = asked(attack, NoSandbox(), [("hang", "")], call_seconds=0.2)
    assert hung.status == "timed_out"
    wait_until_gone(str(attack.workspace / "lives"))


def test_no_server_outlives_a_program_that_is_killed(tmp_path: Path):
    words = [str(tmp_path), *PROGRAM, "well", str(tmp_path / "lives")]
    command = [sys.executable, str(HERE / "mcp_program.py"), *words]
    program = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert program.stdout is not None
        assert int(program.stdout.readline()) > 10
        assert len(processes_with(str(tmp_path / "lives"))) >= 3  # itself, the guard, the server
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
        if program.stdout is not None:
            program.stdout.close()
    wait_until_gone(str(tmp_path / "lives"))


# In a run


def written(folder: Path, *lines: str) -> Path:
    (folder / "workspace").mkdir()
    words = ", ".join(f'"{word}"' for word in (*PROGRAM[1:], "well", str(folder / "workspace/lives")))
    server = f'[tools.mcp.notes]\ncommand = "{PROGRAM[0]}"\nargs = [{words}]\nstart_seconds = 100\n'
    tools = f'[tools]\nreadable = ["{Path(PROGRAM[-1]).parent}"]\n'
    file = folder / "turnbuckle.toml"
    file.write_text(
        "\n".join(['workspace = "workspace"', 'data = "data"', *lines[:1], tools, server, *lines[1:]])
    )
    return file


def in_a_run(folder: Path, file: Path, use: Callable[[Agent], Awaitable[Any]], **more: Any) -> Any:
    environment = {"PATH": os.environ["PATH"], "NOTES_KEY": VALUE, "HOME": str(folder)}

    async def main() -> Any:
        async with (
            asyncio.timeout(100),
            Agent(model="rehearsal", config=file, environment=environment, **more) as agent,
        ):
            return await use(agent)

    return asyncio.run(main())


CALL = 'call mcp__notes__echo with {"text": "hello there"}'


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked_before_a_server_is_used_whatever_it_says_of_itself(tmp_path: Path, answer: bool):
    questions: list[QuestionAsked] = []

    def ask(question: QuestionAsked) -> bool:
        questions.append(question)
        return answer

    call = 'call mcp__notes__look with {"text": "hello there"}'  # which calls itself read-only
    result = in_a_run(tmp_path, written(tmp_path), lambda agent: agent.run(call), ask=ask)
    assert [(one.tool, one.arguments) for one in questions] == [("mcp__notes__look", {"text": "hello there"})]
    assert ("seen hello there" in result.text) == answer
    wait_until_gone(str(tmp_path / "workspace/lives"))


@pytest.mark.requirement("H10")
def test_a_tool_that_is_always_allowed_is_asked_about_again_once_it_describes_itself_otherwise(
    tmp_path: Path,
):
    questions: list[QuestionAsked] = []

    def ask(question: QuestionAsked) -> Allow:
        questions.append(question)
        return Allow(always=True)

    async def twice(agent: Agent) -> None:
        for _ in range(2):
            assert "hello there" in (await agent.run(CALL)).text

    file = written(tmp_path)
    in_a_run(tmp_path, file, twice, ask=ask)
    assert [one.always for one in questions] == [('"mcp__notes__echo" = "allow"',)]
    (tmp_path / "workspace/lives").unlink()  # a file that a server is started with is read-only to it
    file.write_text(file.read_text().replace('"well"', '"reworded"'))
    in_a_run(tmp_path, file, twice, ask=ask)
    assert [one.why for one in questions[1:]] == [CHANGED]
    wait_until_gone(str(tmp_path / "workspace/lives"))


@pytest.mark.parametrize("rule, runs", [("", False), ('"mcp__notes__*" = "allow"', True)])
def test_where_nobody_can_be_asked_a_rule_must_allow_it(tmp_path: Path, rule: str, runs: bool):
    file = written(tmp_path, "", f"[tools.approval]\n{rule}")
    result = in_a_run(tmp_path, file, lambda agent: agent.run(CALL))
    assert ("hello there" in result.text.replace(CALL, "")) == runs


def test_a_variable_that_is_named_for_a_server_is_its_own_and_is_shown_to_nobody(tmp_path: Path):
    file = written(
        tmp_path,
        "",
        '[tools.mcp.notes.env]\nNOTES_KEY = "env:NOTES_KEY"',
        '[tools.approval]\n"mcp__*" = "allow"',
    )
    calls = 'call mcp__notes__variables with {"text": ""} then run `env`'
    result = in_a_run(tmp_path, file, lambda agent: agent.run(calls))
    assert VALUE not in result.text
    assert "NOTES_KEY" in result.text
    assert '"NOTES_KEY": "[secret]"' in result.text.replace("\\", "")
    assert "NOTES_KEY=" not in result.text


@pytest.mark.requirement("D1")
def test_an_argument_of_a_servers_tool_that_is_given_twice_never_reaches_the_server(tmp_path: Path):
    file = written(tmp_path, "", '[tools.approval]\n"mcp__*" = "allow"')
    text = (tmp_path / "workspace").as_posix()
    seen: list[LabRequest] = []

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        seen.append(request)
        if brings_results(request):
            yield Say("Written.")
        elif len(seen) == 1:
            yield Call("mcp__notes__write", f'{{"text": "{text}/seen", "text": "{text}/used"}}')
        else:
            yield Call("mcp__notes__write", {"text": f"{text}/told"})
        yield Finish()

    async def main() -> Any:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        async with asyncio.timeout(100), lab_provider(model) as provider:
            given = {"model": "m", "base_url": f"{provider.url}/v1", "api_key": "any"}
            async with Agent(config=file, environment=environment, **given) as opened:
                return await opened.run("write it")

    assert asyncio.run(main()).outcome == "completed"
    assert {one.name for one in (tmp_path / "workspace").iterdir()} >= {"told"}
    assert not {one.name for one in (tmp_path / "workspace").iterdir()} & {"seen", "used"}


def test_a_server_that_is_not_there_costs_its_tools_and_nothing_else(tmp_path: Path):
    file = written(tmp_path, "", '[tools.mcp.gone]\ncommand = "not-a-program"')
    result = in_a_run(tmp_path, file, lambda agent: agent.run("say hello"))
    assert result.outcome == "completed"


@contextmanager
def official_server(way: str) -> Iterator[McpSettings]:
    """A server of the official package, and how it is reached."""
    command = (sys.executable, str(HERE / "sdk_server.py"))
    if way == "stdio":
        yield McpSettings(command[0], command[1:], start_seconds=100, call_seconds=100)
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        process = subprocess.Popen([*command, str(number)], pass_fds=(number,))
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            yield McpSettings(url=url, start_seconds=100, call_seconds=100)
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_official_package_is_understood(tmp_path: Path, way: str):
    attack = Attack(tmp_path, "landlock")

    async def main(settings: McpSettings) -> tuple[Any, ...]:
        place = McpPlace(attack.workspace, dict(os.environ), {}, NoSandbox())
        servers = McpServers({"orders": settings}, place, SystemClock())
        try:
            registry = await servers.registry(Registry())
            attack.box.dispatcher = Dispatcher(registry)
            run = attack.box.run
            place_order = registry.get("mcp__orders__place")
            assert place_order is not None, servers.servers[0].state.why
            return (
                registry.names,
                place_order.spec.parameters,
                await run("mcp__orders__place", order={"name": "tea", "count": 2}),
                await run("mcp__orders__place", order={"count": 2}),
                await run("mcp__orders__broken"),
            )
        finally:
            await servers.close()

    with official_server(way) as settings:
        names, schema, placed, misfit, broken = asyncio.run(main(settings))
    assert names == ("mcp__orders__place", "mcp__orders__broken")
    assert schema["properties"]["order"]["properties"]["name"]["type"] == "string"
    assert (placed.status, '"tea": 2' in placed.text.replace('":2', '": 2')) == ("finished", True)
    assert (misfit.status, "name" in misfit.text) == ("not_started", True)
    assert (broken.status, "broken" in broken.text) == ("failed", True)


# Settings and doctor


@pytest.mark.requirement("R5")
def test_what_a_server_runs_is_protected_from_the_model(tmp_path: Path):
    (tmp_path / "server.py").write_text("")
    file = tmp_path / "turnbuckle.toml"
    file.write_text('workspace = "."\n[tools.mcp.a]\ncommand = "python3"\nargs = ["server.py", "--all"]')
    assert own_files(load(file, environment={})) == [str(file), str(tmp_path / "server.py")]


def test_doctor_names_each_server_with_its_tools_and_what_holds(tmp_path: Path):
    file = written(tmp_path, "", '[tools.mcp.gone]\ncommand = "not-a-program"')
    loaded = load(file, environment={})
    good, gone = asyncio.run(check_mcp(loaded, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}))
    assert (good.level, good.about) == ("ok", "MCP server notes")
    held = sandbox_of(loaded, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}).holds.mechanism
    assert f"tools, revision 2025-11-25, sandbox: {held}" in good.what
    assert (gone.level, gone.about) == ("wrong", "MCP server gone")
    assert "not-a-program" in gone.what
    wait_until_gone(str(tmp_path / "workspace/lives"))


def test_a_look_of_the_doctor_leaves_a_data_folder_that_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("turnbuckle.toml").write_text('[tools.mcp.gone]\ncommand = "not-a-program"')
    loaded = load(environment={})
    assert [one.level for one in asyncio.run(check_mcp(loaded, {"PATH": os.environ["PATH"]}))] == ["wrong"]
    assert Path(".turnbuckle").exists()
    assert is_data_ours(load(environment={}))


@pytest.mark.parametrize(
    "text, words",
    [
        ("[tools.mcp.a]\nargs = []", "needs a command"),
        ('[tools.mcp.a]\nurl = "ftp://host/"', "an address such as"),
        ('[tools.mcp.a]\nurl = "http://me:word@host/"', "an address such as"),
        ('[tools.mcp.a]\nurl = "http://host/"\nnetwork = true', "started here"),
        ('[tools.mcp.a]\ncommand = "x"\nheaders = { a = "b" }', "a started one has env"),
        ('[tools.mcp."a.b"]\ncommand = "x"', "a name has letters"),
        ('[tools.mcp.a]\ncomand = "x"', "did you mean command?"),
        ('[tools.mcp.a]\ncommand = "x"\nenv = { A = "env:NOT_THERE" }', "the environment has no NOT_THERE"),
        (
            '[tools.mcp.a]\ncommand = "x"\n[tools.approval]\n"mcp__b__*" = "allow"',
            "there is no tool 'mcp__b__*'",
        ),
    ],
)
def test_what_is_wrong_in_the_settings_is_told_at_the_start(tmp_path: Path, text: str, words: str):
    file = tmp_path / "turnbuckle.toml"
    file.write_text(text)

    async def opened(agent: Agent) -> None:
        raise AssertionError("it must not open")

    with pytest.raises(ConfigError, match=words.replace("*", r"\*").replace("?", r"\?")):
        in_a_run(tmp_path, file, opened)


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("behind", [490, 8180])
def test_a_secret_in_the_last_words_of_a_server_is_not_shown_in_part(tmp_path: Path, behind: int):
    says = f"import sys; sys.stderr.write('{VALUE}' * 3 + '.' * {behind}); sys.exit(1)"

    async def main() -> str:
        given = {"notes": McpSettings(command=sys.executable, args=("-c", says))}
        place = McpPlace(tmp_path, dict(os.environ), {}, NoSandbox(), secrets=frozenset({VALUE}))
        servers = McpServers(given, place, SystemClock())
        try:
            async with asyncio.timeout(100):
                return (await servers.states())[0].why
        finally:
            await servers.close()

    why = asyncio.run(main())
    assert "Its last words: " in why
    assert VALUE[-8:] not in why
