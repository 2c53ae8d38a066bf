"""What the page on settings says of consent is so."""

import re
import tomllib
from pathlib import Path

import pytest

from turnbuckle.app import consent_of
from turnbuckle.config import load
from turnbuckle.errors import ConfigError
from turnbuckle.turn.consent import rule_for, written

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"


def example():
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if "[tools.approval]" in block]
    return tomllib.loads(found)["tools"]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "tool, subject, value, rule",
    [
        ("shell", "command", "make", "ask"),
        ("shell", "command", "git status", "allow"),
        ("shell", "command", "git log --oneline main", "allow"),
        ("shell", "command", "git log --oneline --output=x", "ask"),
        ("shell", "command", "git log; rm -rf .", "ask"),
        ("shell", "command", "cd x && git push", "deny"),
        ("write_file", "path", "x/../docs/a", "allow"),
        ("write_file", "path", "src/a", "ask"),
        ("read_file", "path", "./secrets/key", "deny"),
        ("read_file", "path", "a.txt", "ask"),
        ("fetch_url", "url", "http://localhost:8000/page", "allow"),
        ("fetch_url", "url", "https://example.com/page", "ask"),
        ("anything", "", "", "ask"),
    ],
)
def test_the_example_decides_as_it_says(tool, subject, value, rule):
    rules = written(example()["approval"])
    assert rule_for(rules, tool, {subject: value}, subject, is_command=tool == "shell") == rule


@pytest.mark.requirement("D8")
def test_the_example_is_accepted_as_it_stands(tmp_path):
    (tmp_path / "turnbuckle.toml").write_text(f"[tools.approval]\n{_toml(example()['approval'])}")
    assert len(consent_of(load(folder=tmp_path, environment={}).settings)) == 8


def _toml(table):
    return "\n".join(f'"{key}" = "{value}"' for key, value in table.items())


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "key, words",
    [
        ("shel", "there is no tool 'shel'; did you mean shell?"),
        ("shel:git*", "there is no tool 'shel'"),
        ("zzzzzzzz", "the tools are read_file"),
        ("", "there is no tool ''"),
    ],
)
def test_a_rule_for_a_tool_that_does_not_exist_is_refused(tmp_path, key, words):
    """It would protect nothing, and nobody would know."""
    (tmp_path / "turnbuckle.toml").write_text(f'[tools.approval]\n"{key}" = "deny"')
    with pytest.raises(ConfigError, match=re.escape(words)):
        consent_of(load(folder=tmp_path, environment={}).settings)


def test_a_rule_for_a_family_that_is_switched_off_does_no_harm(tmp_path):
    text = '[tools]\nenable = ["files"]\napproval = { shell = "ask" }'
    (tmp_path / "turnbuckle.toml").write_text(text)
    assert len(consent_of(load(folder=tmp_path, environment={}).settings)) == 1
