"""`turnbuckle clients`: what points another program here is printed, or written without spoiling what is there."""

import json
import os
import tomllib
from pathlib import Path, PurePosixPath

import pytest
import yaml  # type: ignore[import-untyped]
from support.processes.commands import command, provider

from turnbuckle.cli.clients.merge import CannotMerge, merged
from turnbuckle.cli.clients.recipes import RECIPES, ClientFile, Target
from turnbuckle.cli.main import main
from turnbuckle.server.keys import KeyFile

HERE = Target("http://127.0.0.1:8765", "tb-a'b", "main", "agent", 32_000)
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
ROUTE = (
    '[[routes]]\nname = "main"\nprotocol = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
)


@pytest.mark.requirement("J8")
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_names_the_server_the_key_and_a_model_in_a_form_that_its_client_can_read(name: str):
    setup = RECIPES[name].make(HERE)
    file = setup.file
    told = json.dumps(READERS[file.format](file.text)) if file is not None else ""
    everything = "\n".join((told, *setup.shell, setup.note))
    assert "http://127.0.0.1:8765" in everything
    assert "tb-a'b" in everything.replace("'\\''", "'")
    assert "main" in everything or "agent" in everything


@pytest.mark.parametrize(
    "there, becomes",
    [
        (None, {"env": {"A": "1"}}),
        ("", {"env": {"A": "1"}}),
        ('{"env": {"A": "0", "B": "2"}, "x": [1]}', {"env": {"A": "1", "B": "2"}, "x": [1]}),
        ('{"env": 3}', {"env": {"A": "1"}}),
    ],
)
def test_what_else_a_file_says_stays(there: str | None, becomes: object):
    file = ClientFile(PurePosixPath("s.json"), "json", '{"env": {"A": "1"}}')
    text = merged(file, there)
    assert text is not None
    assert json.loads(text) == becomes
    assert merged(file, text) is None


@pytest.mark.parametrize(
    "file_format, there", [("json", '{"a": 1} // mine'), ("json", "[1]"), ("toml", "a = 1"), ("yaml", "a: 1")]
)
def test_what_cannot_be_merged_for_certain_is_left_alone(file_format, there: str):
    with pytest.raises(CannotMerge):
        merged(ClientFile(PurePosixPath("f"), file_format, "{}"), there)


def test_a_list_an_unknown_name_and_a_client_without_a_file(tmp_path: Path):
    listed = command(tmp_path, "clients")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == list(RECIPES)
    unknown = command(tmp_path, "clients", "vim")
    assert (unknown.code, "there are claude-code, codex" in unknown.err) == (2, True)
    without = command(tmp_path, "clients", "llm", "--write")
    assert (without.code, "has no file to write" in without.err) == (1, True)


@pytest.mark.process
@pytest.mark.requirement("J8")
def test_a_file_is_written_once_and_what_was_there_is_kept(tmp_path: Path):
    (tmp_path / "turnbuckle.toml").write_text(ROUTE)
    (tmp_path / "opencode.json").write_text('{"theme": "dark"}')
    wrote = command(tmp_path, "clients", "opencode", "--write")
    assert wrote.code == 0, wrote.err
    now = json.loads((tmp_path / "opencode.json").read_text())
    assert now["theme"] == "dark"
    assert now["model"] == "turnbuckle/main"
    assert now["provider"]["turnbuckle"]["options"]["baseURL"] == "http://127.0.0.1:8765/v1"
    assert json.loads((tmp_path / "opencode.json.1.old").read_text()) == {"theme": "dark"}
    again = command(tmp_path, "clients", "opencode", "--write")
    assert "is already up to date" in again.err
    (tmp_path / "opencode.json").write_text("{} // mine")
    refused = command(tmp_path, "clients", "opencode", "--write")
    assert (refused.code, "was not changed" in refused.err) == (1, True)
    assert (tmp_path / "opencode.json").read_text() == "{} // mine"


@pytest.mark.process
@pytest.mark.requirement("J8")
def test_a_new_key_works_and_a_file_with_it_is_closed_to_others(tmp_path: Path):
    made = command(tmp_path, "clients", "claude-code", "--new-key", "--write")
    assert made.code == 0, made.err
    path = tmp_path / ".claude/settings.local.json"
    key = json.loads(path.read_text())["env"]["ANTHROPIC_AUTH_TOKEN"]
    assert path.stat().st_mode & 0o077 == 0
    assert KeyFile(tmp_path / ".turnbuckle").keys()[0].name == "claude-code"
    assert key.startswith("tb-")
    later = command(tmp_path, "clients", "openai")
    assert "OPENAI_API_KEY=YOUR-KEY" in later.out
    assert "--new-key" in later.err


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("way", ["link", "folder", "pipe"])
def test_no_link_of_a_folder_leads_a_file_elsewhere_or_brings_one_in(
    tmp_path: Path, way: str, monkeypatch, capsys
):
    here, home = tmp_path / "clone", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    (home / "opencode.json").write_text('{"secret": "of mine"}')
    monkeypatch.chdir(here)
    name, file = ("opencode", here / "opencode.json")
    if way == "link":
        file.symlink_to(home / "opencode.json")
    elif way == "pipe":
        os.mkfifo(file)
    else:
        name = "claude-code"
        (here / ".claude").symlink_to(home)
    (here / "turnbuckle.toml").write_text(ROUTE)
    with pytest.raises(SystemExit) as ended:
        main(["clients", name, "--write"])
    assert ended.value.code == 1
    assert "was not changed" in capsys.readouterr().err
    assert sorted(one.name for one in home.iterdir()) == ["opencode.json"]
    assert (home / "opencode.json").read_text() == '{"secret": "of mine"}'
    assert list(here.glob("*.old")) == []


@pytest.mark.requirement("J8")
def test_agents_with_tools_of_their_own_get_a_route_also_of_the_rehearsal_and_of_a_server_elsewhere(
    tmp_path: Path,
):
    alone = json.loads(command(tmp_path, "clients", "opencode", "--json").out)
    assert json.loads(alone["file"]["text"])["model"] == "turnbuckle/rehearsal"
    with provider("happy") as lab:  # it lists models as every server of this protocol does
        there = json.loads(command(tmp_path, "clients", "opencode", "--json", "--server", lab.url).out)
        told = json.loads(there["file"]["text"])
        assert told["model"].startswith("turnbuckle/lab:")
        assert told["provider"]["turnbuckle"]["options"]["apiKey"] == "any"  # it asked for none
        wrong = command(tmp_path, "clients", "opencode", "--server", lab.url, "--model", "nobody")
        assert (wrong.code, "there is no model 'nobody'" in wrong.err) == (2, True)
    silent = command(tmp_path, "clients", "llm", "--server", "http://127.0.0.1:9", "--model", "mine")
    assert (silent.code, "-m mine" in silent.out, "name one with --model" in silent.err) == (0, True, True)


@pytest.mark.requirement("J8")
def test_claude_code_finds_every_model_that_it_asks_for_by_itself():
    file = RECIPES["claude-code"].make(HERE).file
    assert file is not None
    named = {name: value for name, value in json.loads(file.text)["env"].items() if name.endswith("_MODEL")}
    kinds = ("", "DEFAULT_HAIKU_", "DEFAULT_SONNET_", "DEFAULT_OPUS_")
    assert named == {f"ANTHROPIC_{kind}MODEL": "main" for kind in kinds}
