"""Own tools by the settings: files and modules, and what is said of those that cannot be used."""

import sys
from pathlib import Path

import pytest

from turnbuckle.app import open_app
from turnbuckle.call.loop import run
from turnbuckle.config import load
from turnbuckle.errors import ConfigError
from turnbuckle.tools.modules import registry_of, tools_in

GREET = '''
from turnbuckle import tool

@tool(effect="read")
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"
'''


def written(folder: Path, text: str, name: str = "my_tools.py") -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return str(file)


@pytest.mark.requirement("D7")
def test_every_tool_at_the_top_level_of_a_file_is_offered_behind_the_built_in_ones(tmp_path: Path):
    entry = written(tmp_path, GREET + GREET.replace("greet", "part") + GREET.replace("greet", "_kept_back"))
    names = registry_of(["ask"], [entry]).names
    assert names == ("ask_user", "greet", "part")


def test_types_that_are_written_as_text_are_found_and_built_in_tools_that_are_imported_are_no_own_ones(
    tmp_path: Path,
):
    entry = written(
        tmp_path,
        "from __future__ import annotations\nfrom turnbuckle.tools.builtin.files import read_file\n" + GREET,
    )
    assert [one.name for one in tools_in(entry)] == ["greet"]


def test_a_module_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path, "", "package_of_tools/__init__.py")
    written(tmp_path, GREET, "package_of_tools/mine.py")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert [one.name for one in tools_in("package_of_tools.mine")] == ["greet"]
        with pytest.raises(ConfigError, match=r"there is no module package_of_tools\.yours; install it"):
            tools_in("package_of_tools.yours")
    finally:
        for name in ("package_of_tools", "package_of_tools.mine"):
            sys.modules.pop(name, None)


def test_the_same_tool_by_way_of_two_modules_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written(tmp_path, GREET, "first_of_two.py")
    second = written(
        tmp_path, "from first_of_two import greet\n" + GREET.replace("greet", "part"), "second.py"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert registry_of([], ["first_of_two", second]).names == ("greet", "part")
    finally:
        sys.modules.pop("first_of_two", None)


@pytest.mark.parametrize(
    "text, words",
    [
        ("x = 1\n", "there is no tool in .*my_tools.py; make one with `@tool\\(effect=…\\)`"),
        ("def greet(:\n", r"my_tools.py, line 1: SyntaxError"),
        (
            "import os\n\nimport nobody_has_this\n",
            r"my_tools.py, line 3: ModuleNotFoundError: .*nobody_has_this",
        ),
        ("def f():\n    return 1 / 0\n\nf()\n", r"my_tools.py, line 2: ZeroDivisionError"),
        ("raise SystemExit(3)\n", r"my_tools.py, line 1: SystemExit: 3"),
        (
            GREET.replace('"""Greet somebody."""', "pass"),
            r"my_tools.py, line \d: TypeError: greet needs a docstring",
        ),
        (GREET.replace("name: str", "name"), "TypeError: greet: name has no type"),
        (
            GREET.replace("greet", "shell"),
            "has a tool shell, and so has the built-in tools; give it another name",
        ),
        (GREET.replace("greet", "finish_call"), "finish_call"),
        (GREET.replace('effect="read"', 'effect="read", name="two words"'), "two words"),
        (
            GREET + GREET.replace("def greet", "def other").replace("read", 'read", name="greet'),
            "and so has the same place",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, words: str):
    entry = written(tmp_path, text)
    with pytest.raises(ConfigError, match=words):
        registry_of(["shell"], [entry])


def test_a_file_that_is_not_there_and_a_module_that_can_not_be_imported_are_named(
    tmp_path: Path, monkeypatch
):
    with pytest.raises(ConfigError, match=r"there is no file .*nothing\.py"):
        tools_in(str(tmp_path / "nothing.py"))
    with pytest.raises(ConfigError, match=r"its name must end in .py"):
        tools_in(written(tmp_path, GREET, "my_tools"))
    written(tmp_path, "import nobody_has_this\n", "broken_tools.py")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"broken_tools cannot be imported \(.*broken_tools.py, line 1\)"):
        tools_in("broken_tools")


@pytest.mark.parametrize("entry", ["my_tools.py", "./my_tools.py", "sub/my_tools.py"])
def test_paths_in_the_settings_are_relative_to_their_file(tmp_path: Path, entry: str):
    (tmp_path / "turnbuckle.toml").write_text(f'[tools]\nmodules = ["{entry}", "package.module"]\n')
    loaded = load(tmp_path / "turnbuckle.toml", folder=tmp_path / "elsewhere", environment={})
    assert loaded.settings.tools.modules == (str(tmp_path / entry), "package.module")
    given = load(folder=tmp_path, environment={"TURNBUCKLE_TOOLS__MODULES": '["a.py"]'})
    assert given.settings.tools.modules == (str(tmp_path / "a.py"),)
    shown = {value.key: value.source for value in loaded.explain()}
    assert shown["tools.modules"] == "turnbuckle.toml, line 2"


@pytest.mark.requirement("D8")
def test_a_program_has_the_tools_of_its_settings_and_rules_may_name_them(tmp_path: Path):
    written(tmp_path, GREET)
    text = 'data = "data"\n[tools]\nmodules = ["my_tools.py"]\napproval = { greet = "ask" }\n'
    (tmp_path / "turnbuckle.toml").write_text(text)

    async def main():
        async with open_app(load(tmp_path / "turnbuckle.toml", environment={}), {}) as opened:
            assert opened.runs.policy.tools["greet"].effect == "read"
            assert [rule.tool for rule in opened.runs.policy.consent] == ["greet"]

    run(main())
    (tmp_path / "turnbuckle.toml").write_text(text.replace("greet =", "greets ="))
    with pytest.raises(ConfigError, match="did you mean greet"):
        run(main())
