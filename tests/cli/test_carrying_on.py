"""A run that was given up is gone on with: by `run --continue`, by `runs resume`, and by the next message."""

from pathlib import Path

import pytest
from support.processes.commands import command, configure, facts_of, provider

from turnbuckle.lab.script import Call, Case, CutOff, Finish, Say, ScriptItem
from turnbuckle.turn.facts import DraftClosed, DraftKept, RunEnded, RunStarted
from turnbuckle.vocab.messages import text_of

TEXT = "".join(f"{number:03}: a line of the file that was cut on its way\n" for number in range(40))
CUT_AT = 1_000
_CUT: tuple[ScriptItem, ...] = (
    Call(
        "write_file",
        '{"path": "long.txt", "content": "' + TEXT[:CUT_AT].replace("\n", "\\n"),
        0,
        closed=False,
    ),
    CutOff("reset"),
)


_FINISHES: tuple[ScriptItem, ...] = (
    Call("finish_call", {"draft": "d01", "after": TEXT[CUT_AT - 60 : CUT_AT], "rest": TEXT[CUT_AT:]}, 0),
    Finish(),
)
_SAYS_SOMETHING_ELSE: tuple[ScriptItem, ...] = (Say("It is about lines."), Finish())


def _case(then: tuple[ScriptItem, ...]) -> Case:
    return Case(
        "given-up",
        "A long file is cut, and gone on with in a later run.",
        (_CUT, then),
        (Say("Done."), Finish()),
    )


@pytest.mark.requirement("B9", "C6")
@pytest.mark.parametrize(
    "how",
    [("run", "--continue", "go on"), ("run", "--continue"), ("runs", "resume")],
    ids=["task", "no task", "resume"],
)
def test_a_run_that_was_given_up_with_a_draft_is_carried_on_from_there(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    with provider(_case(_FINISHES)) as lab:
        configure(tmp_path, lab.url)
        first = command(tmp_path, "run", "write long.txt", "--max-calls", "1")
        assert (first.code, (tmp_path / "long.txt").exists()) == (3, False)
        then = command(tmp_path, *how)
    assert then.code == 0, then.err
    assert (tmp_path / "long.txt").read_text() == TEXT
    started, kept = facts_of(tmp_path)[:2]
    assert isinstance(started, RunStarted)
    assert isinstance(kept, DraftKept)
    assert kept.left_by
    told = "\n".join(text_of(message.parts) for message in started.messages if message.note)
    assert "write_file" in told
    assert 'draft="d01"' in told
    assert [fact.how for fact in facts_of(tmp_path) if isinstance(fact, DraftClosed)] == ["finished"]


@pytest.mark.requirement("B9", "C6")
def test_a_later_run_that_does_not_want_the_draft_is_complete_without_it(tmp_path: Path) -> None:
    with provider(_case(_SAYS_SOMETHING_ELSE)) as lab:
        configure(tmp_path, lab.url)
        assert command(tmp_path, "run", "write long.txt", "--max-calls", "1").code == 3
        assert command(tmp_path, "run", "--continue", "what is it about?").code == 0
        ended = facts_of(tmp_path)[-1]
        assert isinstance(ended, RunEnded)
        assert (ended.outcome.kind, ended.outcome.drafts) == ("completed", ())
        assert command(tmp_path, "run", "--continue", "thanks").code == 0
    assert not any(isinstance(fact, DraftKept) for fact in facts_of(tmp_path))  # it is offered once


def test_a_run_is_not_resumed_behind_what_was_said_since(tmp_path: Path) -> None:
    with provider(_case(_SAYS_SOMETHING_ELSE)) as lab:
        configure(tmp_path, lab.url)
        first = command(tmp_path, "run", "write long.txt", "--max-calls", "1")
        run = first.err.split()[1].rstrip(",")
        assert command(tmp_path, "run", "--continue", "what is it about?").code == 0
        late = command(tmp_path, "runs", "resume", run)
    assert late.code == 2
    assert "the conversation went on after" in late.err


def test_a_run_that_came_to_its_end_is_not_carried_on(tmp_path: Path) -> None:
    with provider("happy") as lab:
        configure(tmp_path, lab.url)
        assert command(tmp_path, "run", "hello").code == 0
        assert command(tmp_path, "runs", "resume").code == 2
        assert command(tmp_path, "run", "--continue").code == 2
