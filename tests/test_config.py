"""Settings: from a file, the environment and the command line, with honest errors."""

from pathlib import Path
from typing import Any

import pytest

from turnbuckle.config import load, rehearses, route_name, routes_of
from turnbuckle.errors import ConfigError
from turnbuckle.settings import Settings

FILE = """
workspace = "work"
[server]
port = 9000
[[routes]]
name = "main"
preset = "anthropic"
model = "one"
api_key = "env:MY_KEY"
[[routes]]
protocol = "openai_chat"
base_url = "http://127.0.0.1:1/v1"
model = "two"
[routes.stall]
gap = 7
[stall]
gap = 30
silence = "auto"
"""


def _load(
    folder: Path, text: str | None = None, environment: dict[str, str] | None = None, **changes: Any
) -> Any:
    if text is not None:
        (folder / "turnbuckle.toml").write_text(text)
    return load(folder=folder, environment=environment or {}, changes=changes)


def test_without_a_file_everything_has_a_default_and_nothing_needs_a_key(tmp_path: Path) -> None:
    loaded = _load(tmp_path)
    assert loaded.file == ""
    assert loaded.settings.routes == ()
    assert (loaded.settings.workspace, loaded.settings.data) == (str(tmp_path), str(tmp_path / ".turnbuckle"))
    assert {value.source for value in loaded.explain()} == {"default"}


def test_the_file_in_the_folder_is_read(tmp_path: Path) -> None:
    settings = _load(tmp_path, FILE).settings
    assert settings.workspace == str(tmp_path / "work")
    assert settings.server.port == 9000
    assert settings.stall.gap == 30
    assert [route.model for route in settings.routes] == ["one", "two"]


def test_paths_of_a_file_are_relative_to_it_and_others_to_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "other.toml").write_text('workspace = "work"')
    loaded = load(home / "other.toml", folder=tmp_path, environment={"TURNBUCKLE_DATA": "state"})
    assert loaded.settings.workspace == str(home / "work")
    assert loaded.settings.data == str(tmp_path / "state")


@pytest.mark.parametrize(
    ("variable", "value", "where", "expected"),
    [
        ("TURNBUCKLE_SERVER__PORT", "1234", ("server", "port"), 1234),
        ("TURNBUCKLE_STALL__GAP", "auto", ("stall", "gap"), "auto"),
        ("TURNBUCKLE_STALL__GAP", "2.5", ("stall", "gap"), 2.5),
        ("TURNBUCKLE_ROUTES__0__MODEL", "12", ("routes", 0, "model"), "12"),
        ("TURNBUCKLE_ROUTES__1__LOCAL", "true", ("routes", 1, "local"), True),
        ("TURNBUCKLE_ROUTES__2__MODEL", "three", ("routes", 2, "model"), "three"),
        ("TURNBUCKLE_TOOLS__ENABLE", '["files"]', ("tools", "enable"), ("files",)),
        ("TURNBUCKLE_TOOLS__APPROVAL__SHELL", "deny", ("tools", "approval", "shell"), "deny"),
        ("TURNBUCKLE_TURN__MAX_MONEY", "0.5", ("turn", "max_money"), 0.5),
    ],
)
def test_the_environment_overrides_the_file(
    variable: str, value: str, where: tuple[str | int, ...], expected: object, tmp_path: Path
) -> None:
    loaded = _load(tmp_path, FILE, {variable: value})
    found: Any = loaded.settings
    for step in where:
        found = getattr(found, step) if isinstance(step, str) and hasattr(found, step) else found[step]
    assert found == expected


def test_the_command_line_overrides_the_environment(tmp_path: Path) -> None:
    loaded = _load(tmp_path, FILE, {"TURNBUCKLE_TURN__MAX_CALLS": "5"}, **{"turn.max_calls": 3})
    assert loaded.settings.turn.max_calls == 3


def test_every_value_tells_its_source(tmp_path: Path) -> None:
    loaded = _load(tmp_path, FILE, {"TURNBUCKLE_STALL__SILENCE": "9"}, **{"turn.max_calls": 3})
    sources = {value.key: (value.value, value.source) for value in loaded.explain()}
    assert sources["server.port"] == ("9000", "turnbuckle.toml, line 4")
    assert sources["routes.0.model"] == ('"one"', "turnbuckle.toml, line 8")
    assert sources["routes.1.model"] == ('"two"', "turnbuckle.toml, line 13")
    assert sources["stall.silence"] == ("9.0", "environment, TURNBUCKLE_STALL__SILENCE")
    assert sources["turn.max_calls"] == ("3", "command line")
    assert sources["recovery.continuations"] == ("3", "default")


def test_a_table_tells_the_source_of_what_stands_in_it(tmp_path: Path) -> None:
    loaded = _load(tmp_path, '[tools]\napproval = { shell = "ask" }\n', {})
    sources = {value.key: (value.value, value.source) for value in loaded.explain()}
    assert sources["tools.approval"] == ('{"shell":"ask"}', "turnbuckle.toml, line 2")
    assert sources["tools.enable"][1] == "default"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nprot = 1\n", "line 2: server.prot is not known; did you mean port?"),
        ("bogus = 1\n", "line 1: bogus is not known; known are workspace,"),
        ("\nworkspce = '.'\n", "line 2: workspce is not known; did you mean workspace?"),
        (
            '[[routes]]\nmodel = "a"\n[[routes]]\nmodle = "b"\n',
            "line 4: routes.1.modle is not known; did you mean model?",
        ),
        (
            "[[routes]]\n[routes.quirks]\nthnk = 'off'\n",
            "routes.0.quirks.thnk is not known; did you mean think?",
        ),
        (
            "[server]\nport = 'x'\n",
            "server.port: a whole number is wanted, and this is a text (turnbuckle.toml, line 2)",
        ),
        ("[stall]\ngap = 'soon'\n", "stall.gap: "),
        (
            "[tools]\nenable = ['filez']\n",
            "tools.enable.0: 'filez' is not one of files, shell, web, ask, recall (turnbuckle.toml, line 2)",
        ),
        ("[session]\nbusy = 'wait'\n", "session.busy: 'wait' is not one of queue, steer, interrupt, refuse"),
        ("[turn]\nmax_money = 'all'\n", "turn.max_money: a number is wanted, and this is a text"),
        ("[tools]\nenable = 'files'\n", "tools.enable: a list is wanted, and this is a text"),
        ("[server\n", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        (
            "TURNBUCKLE_SERVER__PROT",
            "1",
            "variable TURNBUCKLE_SERVER__PROT: server.prot is not known; did you mean port?",
        ),
        ("TURNBUCKLE_SERVR__PORT", "1", "servr is not known; did you mean server?"),
        ("TURNBUCKLE_SERVER__PORT", "many", "TURNBUCKLE_SERVER__PORT: a whole number is wanted"),
        ("TURNBUCKLE_ROUTES__3__MODEL", "x", "there is no number 3 yet: the next one is 0"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(
    variable: str, value: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, "", {variable: value})
    assert words in str(caught.value)


def test_variables_of_our_name_that_are_no_settings_are_left_alone(tmp_path: Path) -> None:
    assert (
        _load(tmp_path, "", {"TURNBUCKLE_API_KEY": "k", "TURNBUCKLE_FAULT": "x"}).settings.server.port == 8765
    )


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load(tmp_path / "none.toml", folder=tmp_path, environment={})


def test_secrets_are_looked_up_late_and_never_shown(tmp_path: Path) -> None:
    text = (
        FILE
        + '[[routes]]\npreset = "openai"\nmodel = "x"\napi_key = "sk-written-down"\nheaders = { X-Key = "abc" }\n'
    )
    loaded = _load(tmp_path, text)
    shown = repr(loaded) + str(loaded.settings) + "".join(map(str, loaded.explain()))
    assert "sk-written-down" not in shown
    assert "abc" not in shown
    assert "env:MY_KEY" in shown
    with pytest.raises(ConfigError, match="route main: api_key: the environment has no MY_KEY"):
        routes_of(loaded.settings, {})
    routes = routes_of(loaded.settings, {"MY_KEY": "sekret"})
    assert routes[0].api_key.reveal() == "sekret"
    assert "sekret" not in repr(routes)


def test_routes_get_their_preset_and_the_stall_settings(tmp_path: Path) -> None:
    first, second = routes_of(_load(tmp_path, FILE).settings, {"MY_KEY": "k"})
    assert (first.protocol, first.model, first.stall.gap) == ("anthropic", "one", 30)
    assert (second.name, second.stall.gap, second.local) == ("two", 7, True)


def test_a_rehearsal_route_is_no_real_route(tmp_path: Path) -> None:
    settings: Settings = _load(tmp_path, '[[routes]]\nprotocol = "rehearsal"\n').settings
    assert [(rehearses(route), route_name(route)) for route in settings.routes] == [(True, "rehearsal")]
    assert routes_of(settings, {}) == ()
