"""Secrets of the settings reach no model: not through files, commands, cuts, windows or encodings."""

import asyncio
import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tools.toolbox import Toolbox

from turnbuckle.app import open_app
from turnbuckle.config import load, routes_of
from turnbuckle.errors import ConfigError
from turnbuckle.settings import secrets_of
from turnbuckle.tools.spec import ToolContext
from turnbuckle.trust import refusal, risks_in
from turnbuckle.vocab.redaction import Redaction, Redactor

KEY = "Tb-Literal-Key-0123456789"
PLAIN = "another value 4711 of the environment"
SETTINGS = f"""
[server]
api_keys = ["{KEY}"]
[[routes]]
protocol = "openai_chat"
base_url = "https://me:pass-word-1@host.example/v1?sig=query-value-99&alt=1"
model = "m"
api_key = "env:ROUTE_VALUE"
headers = {{ "x-team" = "env:TEAM_VALUE", "authorization" = "Bearer header-value-7" }}
[routes.extra]
user_token = "extra-value-77"
"""
ENVIRONMENT = {
    "ROUTE_VALUE": PLAIN,
    "TEAM_VALUE": "team-value-123",
    "PATH": "/usr/bin:/bin",
    "COPY": f"x{PLAIN}",
}
ALL = {KEY, PLAIN, "team-value-123", "pass-word-1", "query-value-99", "header-value-7", "extra-value-77"}


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path, secrets=frozenset(ALL), secret_variables=frozenset({"ROUTE_VALUE"}))


@pytest.mark.requirement("R3")
def test_every_secret_of_the_settings_is_in_one_set(tmp_path: Path):
    (tmp_path / "turnbuckle.toml").write_text(SETTINGS)
    loaded = load(folder=tmp_path, environment={})
    found = secrets_of(loaded.settings, ENVIRONMENT)
    assert found.values >= ALL
    assert found.variables == {"ROUTE_VALUE", "TEAM_VALUE"}


@pytest.mark.requirement("R3")
def test_prints_of_the_settings_show_none(tmp_path: Path):
    (tmp_path / "turnbuckle.toml").write_text(SETTINGS)
    shown = {value.key: value.value for value in load(folder=tmp_path, environment={}).explain()}
    assert not [secret for secret in ALL if secret in str(shown)]
    assert shown["routes.0.base_url"] == '"https://[secret]@host.example/v1?sig=[secret]&alt=[secret]"'
    assert shown["routes.0.extra"] == "user_token: (hidden)"


@pytest.mark.requirement("R3")
def test_an_address_that_is_refused_is_told_without_its_password(tmp_path: Path):
    (tmp_path / "turnbuckle.toml").write_text(SETTINGS)
    with pytest.raises(ConfigError, match="holds credentials") as refused:
        routes_of(load(folder=tmp_path, environment={}).settings, ENVIRONMENT)
    assert not [secret for secret in ALL if secret in str(refused.value)]


@pytest.mark.requirement("R3")
def test_the_tools_of_a_program_know_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turnbuckle.toml").write_text(
        SETTINGS.replace("me:pass-word-1@", "").replace("?sig=query-value-99&alt=1", "")
    )
    seen: list[ToolContext] = []

    async def main() -> None:
        async with open_app(load(tmp_path / "turnbuckle.toml", environment={}), ENVIRONMENT) as app:
            toolbox = app.runs.tools_of("r1")
            seen.append(getattr(toolbox, "_context"))  # noqa: B009 - the port has no such name

    asyncio.run(main())
    assert seen[0].secrets >= ALL - {"pass-word-1", "query-value-99"}
    assert "ROUTE_VALUE" not in seen[0].child_environment


@pytest.mark.requirement("R3")
def test_a_file_of_settings_is_read_without_its_keys(box: Toolbox):
    (box.workspace / "turnbuckle.toml").write_text(SETTINGS)
    text = box.do("read_file", path="turnbuckle.toml").text
    assert 'api_keys = ["[secret]"]' in text
    assert not [secret for secret in ALL if secret in text]
    assert KEY not in box.do("search_files", pattern="api_keys").text


@pytest.mark.requirement("R3")
def test_variables_that_settings_name_are_not_in_the_environment_of_a_command(box: Toolbox):
    box.with_settings(environment=ENVIRONMENT)
    names = {line.partition("=")[0] for line in box.do("shell", command="env").text.splitlines()}
    assert "PATH" in names
    assert not names & {"ROUTE_VALUE", "COPY"}


ENCODINGS = {
    "as it is": KEY,
    "lower": KEY.lower(),
    "upper": KEY.upper(),
    "hex": KEY.encode().hex(),
    "HEX": KEY.encode().hex().upper(),
    **{f"base64 {n}": base64.b64encode(b"a" * n + KEY.encode() + b"b" * n).decode() for n in range(4)},
    "urlsafe": base64.urlsafe_b64encode(KEY.encode()).decode(),
}


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("name", ENCODINGS)
def test_other_spellings_are_taken_out(name: str):
    shown = Redactor([KEY]).text(f"it is {ENCODINGS[name]} !")
    assert "[secret]" in shown
    longest = max(shown.replace("[secret]", " ").split(), key=len)
    assert len(longest) <= 8


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("before", range(80, 108))
def test_no_cut_shows_a_part_of_a_key(box: Toolbox, before: int):
    """The cap falls into each place of the key once, in a file and in what a tool prints."""
    box.with_settings(output_cap=300)
    (box.workspace / "a.txt").write_text("." * before + KEY + "." * 400)
    assert KEY[:4] not in box.do("read_file", path="a.txt").text
    assert KEY[-4:] not in box.do("read_file", path="a.txt").text


@pytest.mark.requirement("R3")
@pytest.mark.process
def test_printed_output_is_redacted_before_it_is_cut_and_kept(box: Toolbox):
    box.with_settings(output_cap=100)
    (box.workspace / "k").write_text("".join(f"{'.' * n}{KEY}\n" for n in range(60)))
    outcome = box.do("shell", command='while read -r -N 7 x; do printf %s "$x"; done < k')
    kept = Path(outcome.kept_at or "")
    kept = kept if kept.is_absolute() else box.workspace / kept
    for text in (outcome.text, "".join(box.heard), kept.read_text()):
        assert "[secret]" in text
        assert "Literal" not in text
        assert "0123" not in text


@given(st.lists(st.integers(1, 12), max_size=30), st.integers(0, 30))
def test_pieces_of_any_size_show_nothing_of_a_secret(sizes: list[int], before: int):
    text, shown = "x" * before + KEY + " ü " + KEY.lower() + "Tb-", []
    redaction, at = Redaction(Redactor([KEY])), 0
    for size in sizes:
        shown.append(redaction.add(text[at : at + size]))
        at += size
    shown += [redaction.add(text[at:]), redaction.close()]
    assert "".join(shown) == "x" * before + "[secret] ü [secret]Tb-"


@pytest.mark.requirement("R3")
@pytest.mark.process
def test_no_window_into_the_output_of_a_process_shows_a_part(box: Toolbox):
    async def session() -> str:
        return "s"

    (box.workspace / "k").write_text(f"....{KEY}....")
    box.with_settings(session=session)
    started = box.do("shell", command="cat k", background=True).text
    name = started.split("process ")[1].split()[0]
    box.do("read_process", id=name, wait=10)
    for after in range(30):
        text = box.do("read_process", id=name, after=after).text.split("\n", 1)[1]
        assert KEY[-4:] not in text
        assert "Literal" not in text


@pytest.mark.requirement("R3")
def test_no_print_of_the_settings_shows_a_secret_wherever_it_stands(tmp_path: Path):
    """In the address, its query and its fragment, in headers of any name, in fields of the request; also by `repr`."""
    word = "super-secret-value-1"
    (tmp_path / "turnbuckle.toml").write_text(
        f"""[server]
api_keys = ["{word}a"]
[[routes]]
model = "m"
protocol = "openai_chat"
base_url = "https://user:{word}b@host.example/v1?key={word}c#{word}d"
api_key = "{word}e"
headers = {{ "X-Odd" = "{word}f", cookie = "{word}g", "user-agent" = "an-ordinary-agent-1" }}
extra = {{ nested = {{ token = "{word}h" }}, plain = "{word}i" }}
[[routes]]
model = "n"
protocol = "openai_chat"
base_url = "https://host.example/v1#{word}j"
"""
    )
    loaded = load(folder=tmp_path, environment={})
    for shown in (
        str(loaded.explain()),
        repr(loaded),
        repr(loaded.settings),
        refusal(loaded.file, risks_in(loaded)),
    ):
        assert word not in shown
    known = secrets_of(loaded.settings, {}).values
    assert {f"{word}{sign}" for sign in "abcefgh"} <= set(map(str.strip, known)) | {f"{word}c#{word}d"} | {
        f"{word}c"
    }
    assert "an-ordinary-agent-1" not in known
