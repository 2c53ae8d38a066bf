"""The sandbox around commands: what it protects in a workspace, who has the network, what stays in the background, and
what is chosen on which machine."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from support.agents.open_agent import lab_provider
from support.tools.sandbox_attack import MECHANISMS, SECRET, Attack, tools_for

from turnbuckle import Agent
from turnbuckle.app import open_app
from turnbuckle.cli import serve
from turnbuckle.cli.doctor.setup import check_sandbox
from turnbuckle.config import Loaded, load
from turnbuckle.errors import ConfigError
from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem
from turnbuckle.tools.background import Processes
from turnbuckle.tools.sandbox.choose import SandboxRules, SandboxTools, choose, sandbox_tools, what_holds
from turnbuckle.tools.sandbox.files import Visible, visible, without_hidden
from turnbuckle.tools.sandbox.network import has_network
from turnbuckle.tools.sandbox.port import Holds
from turnbuckle.tools.sandbox.scratch import KEPT_SECONDS, forget_scratch, scratch_of
from turnbuckle.turn.approvals import judge
from turnbuckle.turn.consent import Rule, written
from turnbuckle.turn.policy import Policy, ToolFacts


@pytest.mark.process
@pytest.mark.requirement("R5", "R7")
def test_what_decides_what_runs_later_is_not_changed_by_commands_either(tmp_path: Path):
    attack = Attack(tmp_path, "bubblewrap")
    root = attack.workspace
    for folder in ("own/inner", ".git/objects", ".vscode", "sub"):
        (root / folder).mkdir(parents=True)
    files = ["turnbuckle.toml", "own/inner/my_tools.py", ".git/config", ".vscode/tasks.json", "sub/.envrc"]
    for file in files:
        (root / file).write_text("as it was")
    attack.protected = [str(root.resolve() / "own/inner/my_tools.py")]
    ways = [f"echo x >{file}; rm -f {file}; mv {file} away; cp /etc/hostname {file}" for file in files]
    ways += [
        "mv own/inner gone; mv own gone; rm -rf own; mkdir -p own/inner",
        "mv .git gone; rm -rf .git; mkdir -p .git/objects; echo x >.git/hooks/pre-commit; ln -sf /bin/sh .git/hooks/x",
        "mv .vscode gone; rm -rf .vscode",
        f"mv {root.resolve()} {root.resolve()}2",
    ]
    attack.do("; ".join(ways) + "; echo y >.git/objects/new; echo z >own/new")
    assert [(root / file).read_text() for file in files] == ["as it was"] * len(files)
    assert list((root / ".git/hooks").iterdir()) == []
    assert (root / ".git/objects/new").read_text() == "y\n"
    assert (root / "own/new").read_text() == "z\n"


@pytest.mark.process
@pytest.mark.requirement("R5", "R7")
def test_a_data_folder_and_keys_inside_of_the_workspace_are_hidden(tmp_path: Path):
    attack = Attack(tmp_path, "bubblewrap")
    attack.environment["HOME"] = str(attack.workspace)
    (attack.workspace / ".ssh").mkdir()
    (attack.workspace / ".ssh/id").write_text(SECRET)
    attack.data = attack.workspace / ".turnbuckle"
    attack.data.mkdir()
    (attack.data / "journal.db").write_text(SECRET)
    attack.box.with_settings(data=attack.data)
    said = attack.says(
        "ls -A .turnbuckle .ssh; cat .turnbuckle/* .ssh/*; echo x >.turnbuckle/journal.db; rm -rf .turnbuckle"
    )
    assert SECRET not in said
    assert "journal.db" not in said.splitlines()
    assert (attack.data / "journal.db").read_text() == (attack.workspace / ".ssh/id").read_text() == SECRET


@pytest.mark.process
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_network_is_there_for_those_who_were_allowed_it(tmp_path: Path, mechanism: str):
    attack = Attack(tmp_path, mechanism)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (attack.workspace / "ask.py").write_text(
            f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 20)\n    print('ok')\n"
            "except OSError:\n    print('refused')"
        )
        name = os.path.basename(shutil.which("python3", path="/usr/bin:/bin") or "python3")
        command = f"{name} -I -S ask.py"
        assert attack.says(command) == "refused\n"
        assert attack.says(command, network=True) == "ok\n"
        attack.network = (name,)
        assert attack.says(command) == "ok\n"
        assert attack.says(f"true; {command}") == "refused\n"
        assert SECRET not in attack.says(f"cat {attack.home}/notes.txt", network=True)


WRITABLE = ("/workspace",)
NOBODY = 65534


@pytest.mark.requirement("R6", "R7")
@pytest.mark.parametrize(
    "command, families, has",
    [
        ("cat a", ("cat",), True),
        ("cat --x=1 a b", ("cat",), True),
        ("cat", ("cat",), True),
        ("ls a", ("cat",), False),
        ("cat a", (), False),
        ("cat a", ("cat b",), False),
        ("cat b c", ("cat b",), True),
        ("catalog", ("cat",), False),
        ("/bin/cat a", ("cat",), False),
        ("./cat a", ("cat",), False),
        ("PATH=. cat a", ("cat",), False),
        ("cat a; ls", ("cat",), False),
        ("cat a | ls", ("cat",), False),
        ("cat $(ls)", ("cat",), False),
        ("cat a && ls", ("cat",), False),
        ("cat a > b", ("cat",), False),
        ("cat 'a", ("cat",), False),
        ("no_such_program_here", ("no_such_program_here",), False),
        ("anything; at all", ("*",), True),
    ],
)
def test_a_family_of_commands_is_known_by_its_first_words(command: str, families: tuple[str, ...], has: bool):
    assert has_network(command, families, "/usr/bin:/bin", WRITABLE) is has


@pytest.mark.requirement("R6", "R7")
def test_a_program_that_a_model_could_have_written_is_of_no_family(tmp_path: Path):
    for folder in ("workspace", "elsewhere"):
        (tmp_path / folder).mkdir()
    own = tmp_path / "workspace/git"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    (tmp_path / "elsewhere/git").symlink_to(own)
    for folder in ("workspace", "elsewhere"):
        path = f"{tmp_path / folder}:/usr/bin:/bin"
        assert not has_network("git fetch", ("git",), path, (str(tmp_path / "workspace"),))


@pytest.mark.process
@pytest.mark.requirement("G6")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_stays_in_the_background_stays_in_the_sandbox(tmp_path: Path, mechanism: str):
    attack = Attack(tmp_path, mechanism)
    os.mkfifo(attack.workspace / "go")
    attack.box.with_settings(key="k")
    command = f"cat {attack.home}/notes.txt; echo begun; (setsid sleep 300 &); read x <go; exit 3"
    started = attack.do(command, background=True)
    assert started.ok, started
    name = started.text.split("process ")[1].split()[0]
    processes = Processes(attack.data, RealClock())
    assert "is running" in attack.box.do("read_process", id=name, after=0, wait=60).text
    # Its temporary files are not cleaned up under it.
    forget_scratch(attack.data, "")
    assert (scratch_of(attack.data, "") / "tmp").is_dir()
    (attack.workspace / "go").write_text("x\n")
    for _ in range(200):
        said = attack.box.do("read_process", id=name, after=1 << 40, wait=1).text
        if "is running" not in said:
            break
    assert "ended with exit code 3" in said
    assert SECRET not in attack.box.do("read_process", id=name).text
    (over,) = processes.listed()
    assert any("sleep 300" in one for one in over.killed)
    assert over.survivors == ()


@pytest.mark.process
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_background_process_is_stopped_with_all_of_it_and_has_an_end_by_itself(
    tmp_path: Path, mechanism: str
):
    attack = Attack(tmp_path, mechanism, background_seconds=1)
    names = []
    for key, command in (("k1", "(setsid sleep 300 &); sleep 300"), ("k2", "sleep 300")):
        attack.box.with_settings(key=key)
        names.append(attack.do(command, background=True).text.split("process ")[1].split()[0])
    processes = Processes(attack.data, RealClock())
    stopped = asyncio.run(processes.stop(names[0]))
    assert stopped is not None
    assert (stopped.is_alive, stopped.survivors) == (False, ())
    for _ in range(200):
        said = attack.box.do("read_process", id=names[1], after=1 << 40, wait=1).text
        if "is running" not in said:
            break
    assert "was ended: it took longer than 1 s" in said
    asyncio.run(processes.end_all(""))
    assert not (attack.data / "scratch").exists() or list((attack.data / "scratch").iterdir()) == []


def test_temporary_files_of_a_session_go_a_day_after_its_last_command(tmp_path: Path):
    old, other = scratch_of(tmp_path, "old"), scratch_of(tmp_path, "other")
    (old / "tmp/file").write_text("x")
    ago = old.stat().st_mtime - KEPT_SECONDS - 60
    os.utime(old, (ago, ago))
    assert scratch_of(tmp_path, "new").is_dir()
    assert (old.exists(), other.exists()) == (False, True)
    forget_scratch(tmp_path, "other")
    assert not other.exists()


BOTH = SandboxTools("/usr/bin/bwrap", 7, "x86_64")
NEW = SandboxTools("", 7, "x86_64", "bubblewrap is not installed")
OLD = SandboxTools("", 2, "aarch64", "bubblewrap is not installed")
FOREIGN = SandboxTools("", 7, "riscv64", "bubblewrap is not installed")
NOTHING = SandboxTools("", 0, "x86_64", "bubblewrap is not installed")
ELSEWHERE = SandboxTools(why="there is none for this system")


@pytest.mark.parametrize(
    "tools, data_inside, mechanism, missing",
    [
        (BOTH, False, "bubblewrap", ()),
        (BOTH, True, "bubblewrap", ()),
        (NEW, False, "landlock", ("protected",)),
        (NEW, True, "landlock", ("data", "protected")),
        (OLD, False, "landlock", ("protected", "signals")),
        (FOREIGN, False, "none", ("data", "protected", "signals")),
        (NOTHING, False, "none", ("data", "protected", "signals")),
        (ELSEWHERE, False, "none", ("data", "protected", "signals")),
    ],
)
def test_what_holds_follows_from_what_the_machine_has(
    tools: SandboxTools, data_inside: bool, mechanism: str, missing: tuple[str, ...]
):
    holds = what_holds(tools, data_inside=data_inside)
    assert holds.mechanism == mechanism
    assert tuple(name for name in ("data", "protected", "signals") if not getattr(holds, name)) == missing
    assert mechanism in holds.words
    assert bool(holds.told(())) is holds.is_there


def seen(data: str = "/data", hidden: tuple[str, ...] = ()) -> Visible:
    return Visible("/workspace", data, "/home/user", ("/usr",), ("/workspace",), hidden, ())


@pytest.mark.parametrize(
    "tools, place, words",
    [
        (NOTHING, seen(), "bubblewrap is not installed, and Landlock is not there"),
        (FOREIGN, seen(), "no filter of system calls for riscv64"),
        (ELSEWHERE, seen(), "none for this system"),
        (NEW, seen("/workspace/data", ("/workspace/data",)), "cannot hide the data folder /workspace/data"),
    ],
)
def test_strict_is_refused_with_words_where_it_cannot_be_kept(
    tools: SandboxTools, place: Visible, words: str
):
    with pytest.raises(ConfigError, match=words) as refused:
        choose(SandboxRules("strict", place), tools)
    assert 'leave "shell" out of tools.enable' in str(refused.value)
    servers = SandboxRules("strict", place, shell=False, servers=("notes", "mail"))
    with pytest.raises(ConfigError, match=r"leave out tools\.mcp\.notes and tools\.mcp\.mail, or") as refused:
        choose(servers, tools)
    assert "shell" not in str(refused.value)
    assert choose(SandboxRules("auto", place), tools).holds == what_holds(
        tools, data_inside=bool(place.hidden)
    )
    assert choose(SandboxRules("off", place), tools).holds == Holds(why='tools.sandbox = "off"')


def test_a_machine_is_looked_at_by_trying():
    found = sandbox_tools()
    assert found.bwrap or found.why
    assert tools_for("landlock").abi > 0


def test_programs_of_a_home_can_be_run_and_its_other_files_not_seen(tmp_path: Path):
    home = tmp_path / "home"
    for folder in (".local/bin", ".local/lib", ".local/share", "work"):
        (home / folder).mkdir(parents=True)
    (home / ".ssh").mkdir()
    found = visible(
        home / "work",
        home / "data",
        {"HOME": str(home), "PATH": f"{home}/.local/bin:relative:/nowhere/bin:{home}"},
        readable=["~/.ssh"],
        writable=["~/cache"],
    )
    own = {path.removeprefix(str(home)) for path in (*found.read, *found.write) if path.startswith(str(home))}
    assert own == {"/.local/bin", "/.local/lib", "/.ssh", "/work", "/cache"}
    assert found.hidden == ()


def test_a_folder_with_something_hidden_is_taken_apart(tmp_path: Path):
    for name in ("a/b", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    given = without_hidden([str(tmp_path)], [str(tmp_path / "a/b")])
    assert sorted(given) == [str(tmp_path / "a/c"), str(tmp_path / "d")]


WITHOUT = """
import ctypes, os, struct, sys
unshare, clone = (272, 56) if os.uname().machine == "x86_64" else (97, 220)
steps = [(0x20, 0, 0, 0), *[step for number in (444, unshare, 435) for step in ((0x15, 0, 1, number), (6, 0, 0, 0x50026))],
         (0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-m", "turnbuckle.cli.main", *sys.argv[1:]])
"""


@pytest.mark.process
@pytest.mark.requirement("R7")
def test_a_machine_without_any_mechanism_starts_no_shell_under_strict_and_says_so_under_auto(tmp_path: Path):
    def run(setting: str, *ask: str) -> "subprocess.CompletedProcess[str]":
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "TURNBUCKLE_TOOLS__SANDBOX": setting,
            "TURNBUCKLE_DATA": str(tmp_path / "data"),
        }
        argv = [sys.executable, "-c", WITHOUT, *ask]
        return subprocess.run(
            argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )

    refused = run("strict", "run", "say hello")
    assert refused.returncode != 0
    assert 'tools.sandbox = "strict": there is no sandbox here' in refused.stderr
    assert "say hello" not in refused.stdout
    told = msgspec.json.decode(run("auto", "doctor", "--json").stdout)
    (finding,) = [one for one in told["findings"] if one["about"] == "sandbox"]
    assert (finding["level"], finding["what"][:6]) == ("note", "none: ")
    assert "Landlock is not there" in finding["what"]


def loaded(folder: Path, text: str) -> Loaded:
    file = folder / "turnbuckle.toml"
    file.write_text(text)
    return load(file, environment={})


@pytest.mark.requirement("R7")
def test_what_holds_is_said_to_the_model_by_the_doctor_and_in_the_first_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    given = loaded(tmp_path, '[tools]\nnetwork = ["git", "pip install"]\n')
    asked: list[LabRequest] = []

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        asked.append(request)
        yield from (Say("Hello."), Finish())

    async def main() -> Holds:
        environment = {"PATH": "/usr/bin:/bin"}
        async with open_app(given, environment) as opened:
            holds = opened.sandbox
        async with asyncio.timeout(100), lab_provider(model) as provider:
            route = {"model": "m", "base_url": f"{provider.url}/v1", "api_key": "any"}
            async with Agent(config=given.file, environment=environment, **route) as agent:
                await agent.run("say hello")
        return holds

    holds = asyncio.run(main())
    assert holds.is_there
    (told,) = [
        one["function"]["description"] for one in asked[0].body["tools"] if one["function"]["name"] == "shell"
    ]
    assert "Commands run in a sandbox" in told
    assert "git, pip install have it" in told
    (finding,) = check_sandbox(given)
    assert holds.words == finding.what
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    serve._announce(given, lambda: False, False, "http://127.0.0.1:1")
    assert f"Sandbox {holds.words}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "text, words",
    [
        ('[tools]\nsandbox = "off"\n', 'tools.sandbox = "off"'),
        ('[tools]\nenable = ["files"]\nsandbox = "strict"\n', "the shell is turned off"),
        (
            '[tools]\nenable = ["files"]\nsandbox = "strict"\n[tools.mcp.far]\nurl = "https://host/mcp"\n',
            "the shell is turned off",
        ),
    ],
)
def test_no_sandbox_is_said_too(tmp_path: Path, text: str, words: str):
    (finding,) = check_sandbox(loaded(tmp_path, text))
    assert (finding.level, words in finding.what) == ("note", True)


@pytest.mark.requirement("R6", "R7")
@pytest.mark.parametrize(
    "approval, arguments, rule",
    [
        ({}, {"command": "git pull"}, "allow"),
        ({}, {"command": "git pull", "network": False}, "allow"),
        ({}, {"command": "git pull", "network": True}, "ask"),
        ({"network": "deny"}, {"command": "git pull", "network": True}, "deny"),
        ({"network": "allow"}, {"command": "git pull", "network": True}, "allow"),
        ({"network": "allow", "shell": "ask"}, {"command": "git pull", "network": True}, "ask"),
        ({"network:git pull": "allow"}, {"command": "git pull", "network": True}, "allow"),
        ({"network:git pull": "allow"}, {"command": "git pull; curl x", "network": True}, "ask"),
        ({"network": "deny"}, {"command": "git pull"}, "allow"),
    ],
)
def test_a_call_that_wants_the_network_needs_that_rule_too(
    approval: dict[str, Rule], arguments: dict[str, object], rule: Rule
):
    facts = {"shell": ToolFacts("write", subject="command", is_command=True, widens="network")}
    asked = Policy(routes=(), tools=facts, consent=written(approval))
    assert judge(asked, "shell", arguments).rule == rule


ANOTHER = """
import os, sys
from pathlib import Path
sys.executable = sys.argv[3]
from support.agents.open_agent import lab_provider
from support.tools.sandbox_attack import Attack
attack = Attack(Path(sys.argv[1]), sys.argv[2], processes=40)
print(attack.do("id -u; echo x >file; cat file; cat /etc/shadow " + str(attack.home) + "/notes.txt 2>&1").text)
print(attack.do("for one in $(seq 300); do sleep 300 & done; wait", timeout=100).status)
print(attack.do("echo alive").text)
"""


@pytest.mark.process
@pytest.mark.requirement("R7")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_holds_for_a_user_who_is_not_root(tmp_path: Path, mechanism: str):
    """Root becomes another user for it; everybody else is one."""
    place = Path(tempfile.mkdtemp(prefix="sandbox-"))
    become: list[str] = []
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    try:
        guards = (sys.executable, "/usr/bin/python3")
        may = [
            one for one in guards if not subprocess.run([*become, "test", "-x", one], check=False).returncode
        ]
        become, python = (
            (become, may[0]) if may else ([], sys.executable)
        )  # a Python that only root can start
        paths = f"{Path(__file__).parents[2] / 'src'}:{Path(__file__).parents[1]}"
        argv = [*become, sys.executable, "-c", ANOTHER, str(place), mechanism, python]
        said = subprocess.run(
            argv,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert said.stdout.split()[:2] == [str(NOBODY if become else os.getuid()), "x"], said
        assert SECRET not in said.stdout
        assert "root:" not in said.stdout
        assert said.stdout.split()[-1] == "alive"
        assert said.stdout.split()[-2] in ("killed", "failed")
    finally:
        shutil.rmtree(place)
