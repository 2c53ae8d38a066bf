"""`turnbuckle init`, as a person uses it: with answers, with options, and with everything that can go wrong."""

import io
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import provider

from turnbuckle.cli.init.questions import NoAnswer, Questions
from turnbuckle.cli.main import main
from turnbuckle.config import load, routes_of
from turnbuckle.lab.cases import CASES
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Call, Case, Error, Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

KEY = "sk-very-secret-0123456789"
OTHER = "other-value-of-the-environment-42"


def good(request: LabRequest) -> Iterable[ScriptItem]:
    if request.body.get("tools"):
        return (Call("note_word", {"word": "tea"}), Finish())
    return (Say("one, two, three, four, five, six"), Finish())


GOOD = Case("good", "counts, and calls what it is given", ((good,),))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, and an environment without anybody's keys."""
    for name in [
        name for name in os.environ if name.startswith("TURNBUCKLE_") or name.endswith(("_API_KEY", "_TOKEN"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def lab() -> Iterator[Provider]:
    with provider(GOOD) as made:
        yield made


def _run(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def _init(lab: Provider, *arguments: str) -> Any:
    return _run("init", "--base-url", f"{lab.url}/v1", *arguments)


def _written(here: Path) -> dict[str, Any]:
    return tomllib.loads((here / "turnbuckle.toml").read_text())


def _nothing_is_left(here: Path) -> bool:
    return list(here.iterdir()) == []


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_provider_that_works_is_tried_and_written_down(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str], protocol: ProtocolName
) -> None:
    assert _init(lab, "--model", "m", "--protocol", protocol, "--yes") == 0
    told = capsys.readouterr().out
    assert "m: answers" in told
    assert "m: streams" in told
    assert "m: calls tools" in told
    (route,) = routes_of(load(environment={}).settings, {})
    assert (route.protocol, route.base_url, route.model) == (protocol, f"{lab.url}/v1", "m")
    assert _written(here)["tools"]["approval"] == {"shell": "ask"}


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("unauthorized", "auth (status 401)"),
        ("unknown-model", "not found (status 404)"),
        ("out-of-money", "billing (status 402)"),
        ("rate-limited", "rate limited (status 429)"),
        ("html-page", "garbage"),
        ("happy", "does not call tools"),
    ],
)
def test_a_provider_that_does_not_work_is_not_written_down(
    here: Path, capsys: pytest.CaptureFixture[str], protocol: ProtocolName, case: str, words: str
) -> None:
    with provider(next(one for one in CASES if one.name == case)) as broken:
        assert _init(broken, "--model", "m", "--protocol", protocol, "--yes") == 1
    said = capsys.readouterr()
    assert words in said.err
    assert "nothing was written" in said.err
    assert "WRONG" in said.out
    assert _nothing_is_left(here)


def test_without_a_try_nobody_is_asked(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run("init", "--provider", "openai", "--model", "m", "--yes", "--no-test") == 2
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert _run("init", "--provider", "openai", "--model", "m", "--yes", "--no-test") == 0
    assert _written(here)["routes"] == [{"preset": "openai", "api_key": "env:OPENAI_API_KEY", "model": "m"}]


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_the_key_is_named_in_the_file_and_never_put_there_or_printed(
    here: Path,
    lab: Provider,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: list[str],
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    assert _init(lab, "--model", "m", "--key-env", "MY_KEY", "--yes", *as_json) == 0
    said = capsys.readouterr()
    text = (here / "turnbuckle.toml").read_text()
    assert KEY not in text + said.out + said.err
    assert _written(here)["routes"][0]["api_key"] == "env:MY_KEY"
    assert lab.requests[-1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(
    "answer",
    [
        lambda told: (Status(401, f"bad key in {told}"),),
        lambda told: (Status(500, body=f"<debug> {told}"),),
        lambda told: (Say(told[:20]), Error("invalid", f"no: {told}", "bad")),
        lambda told: (Say(f"You sent {told}"), Finish()),
    ],
)
def test_no_secret_of_the_environment_is_shown_or_written_whatever_a_provider_repeats(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[str], Iterable[ScriptItem]],
    as_json: list[str],
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("OTHER_TOKEN", OTHER)
    heard: list[str] = []

    def echo(request: LabRequest) -> Iterable[ScriptItem]:
        heard.append(json.dumps(request.headers))
        return answer(heard[-1])

    with provider(Case("echo", "repeats what it was sent", ((echo,),))) as hostile:
        address = f"{hostile.url}/v1?sig=query-value-77"
        _run("init", "--base-url", address, "--model", "m", "--key-env", "MY_KEY", "--yes", *as_json)
    assert any(KEY in told for told in heard)  # or this would prove nothing
    said = capsys.readouterr()
    files = "".join(file.read_text() for file in here.iterdir() if file.is_file())
    for text in (said.out, said.err, files):
        assert KEY not in text
        assert OTHER not in text
    assert "query-value-77" not in said.out + said.err


def test_the_key_itself_is_written_only_on_demand_and_then_nobody_else_may_read_it(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    assert _init(lab, "--model", "m", "--key-env", "MY_KEY", "--yes", "--write-key", "--json") == 0
    told = capsys.readouterr().out
    assert (json.loads(told)["trial"]["calls"], json.loads(told)["api_key"]) == (True, "(in the file)")
    assert _written(here)["routes"][0]["api_key"] == KEY
    assert (here / "turnbuckle.toml").stat().st_mode & 0o777 == 0o600
    assert KEY not in told


def test_a_file_that_is_there_is_left_alone_unless_forced_and_then_kept_as_a_copy(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, copies in (("# mine\n", 1), ("# also mine\n", 2)):
        (here / "turnbuckle.toml").write_text(text)
        assert _init(lab, "--model", "m", "--yes") == 1
        assert "--force" in capsys.readouterr().err
        assert (here / "turnbuckle.toml").read_text() == text
        assert _init(lab, "--model", "m", "--yes", "--force") == 0
        assert (here / f"turnbuckle.toml.{copies}.old").read_text() == text
        assert _written(here)["routes"][0]["model"] == "m"


def test_the_model_is_chosen_from_what_the_provider_lists(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _init(lab, "--no-test", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["trial"]) == ("lab:happy", None)
    assert told["file"] == str(here / "turnbuckle.toml")


@pytest.mark.requirement("H2")
def test_answers_may_come_through_a_pipe(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "work").mkdir()
    answers = [
        "banana",  # nobody's name, so the question is put again
        "another",
        f"{lab.url}/v1",
        "openai_resp",  # a beginning is enough
        "lab:unauthorized",  # which does not work
        "model",
        "nothing-like-that",  # any name is taken, and this one works
        "nowhere",
        "work",
        "deny",
        "y",
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    assert _run("init") == 0
    told = capsys.readouterr().out
    assert "there is no provider banana" in told
    assert "lab:unauthorized: auth (status 401)" in told
    assert "nowhere is not a folder" in told
    assert "tb-" in told
    written = _written(here)
    assert written["workspace"] == "work"
    assert written["tools"]["approval"] == {"shell": "deny"}
    assert written["routes"] == [
        {"protocol": "openai_responses", "base_url": f"{lab.url}/v1", "model": "nothing-like-that"}
    ]
    assert json.loads((here / ".turnbuckle" / "keys.json").read_text())["keys"][0]["name"] == "init"


@pytest.mark.parametrize("count", range(5))
def test_answers_that_end_too_early_leave_nothing_behind(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    answers = ["another", f"{lab.url}/v1", "", "m", "."][:count]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    assert _run("init") == 2
    assert "the answers ended before the questions" in capsys.readouterr().err
    assert _nothing_is_left(here)


class _Leaves(io.StringIO):
    """Somebody who answers, and then presses Ctrl-C."""

    def readline(self, *_: Any) -> str:  # type: ignore[override]
        line = super().readline()
        if not line:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize("count", range(5))
def test_leaving_in_the_middle_leaves_nothing_behind(
    here: Path, lab: Provider, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    answers = ["another", f"{lab.url}/v1", "", "m", "."][:count]
    monkeypatch.setattr("sys.stdin", _Leaves("".join(f"{answer}\n" for answer in answers)))
    assert _run("init") == 130
    assert "nothing was written" in capsys.readouterr().err
    assert _nothing_is_left(here)


@pytest.mark.requirement("H1")
def test_the_rehearsal_model_can_be_chosen_and_works(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("rehearsal\n\n\n\n"))
    assert _run("init") == 0
    assert _run("run", "write a.txt") == 0
    assert (here / "a.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--provider", "opnai", "--model", "m"], "there is no provider opnai"),
        (["--provider", "anthropic", "--model", "m"], "the environment has no ANTHROPIC_API_KEY"),
        (["--provider", "azure", "--model", "m"], "--base-url is needed"),
        (["--base-url", "nowhere", "--model", "m"], "turnbuckle: base_url must be like"),
        (
            ["--base-url", "http://localhost:1/v1", "--protocol", "soap", "--model", "m"],
            "soap is not one of openai_chat",
        ),
        (["--provider", "ollama", "--no-test", "--model", "m", "--workspace", "nowhere"], "is not a folder"),
    ],
)
def test_what_is_missing_is_told_by_its_option(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert _run("init", "--yes", *arguments) == 2
    assert words in capsys.readouterr().err
    assert _nothing_is_left(here)


def test_a_list_is_answered_by_number_by_name_and_by_a_part_that_fits_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"model-{number}" for number in range(40)]
    for given, picked in (
        ("3", "model-2"),
        ("model-7", "model-7"),
        ("39", "model-38"),
        ("del-39", "model-39"),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{given}\n"))
        assert Questions().pick("Model", names) == picked
    monkeypatch.setattr("sys.stdin", io.StringIO("model-3\nel-3\n\n"))
    assert Questions().pick("Model", names) == "model-3"
    assert Questions().pick("Model", names) == "model-0"
    told = capsys.readouterr().out
    assert "11 names fit" in told
    assert "and 10 more" in told
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(NoAnswer):
        Questions().pick("Model", names)
