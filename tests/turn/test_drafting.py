"""What is kept of a cut call, and what becomes of finish_call."""

import json

import pytest
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft
from turnbuckle.turn import drafting, prompts
from turnbuckle.turn.commands import Record, RunTool
from turnbuckle.turn.facts import CallsHeld, DraftClosed, DraftGrown, DraftKept, HeldCall, ToolFinished
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import PendingCall, Tally, Turn
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyText

POLICY = Policy(
    (RouteFacts(RouteName("main"), "openai_chat", "m"),),
    {
        "write_file": ToolFacts("write", draftable="content"),
        "post": ToolFacts("write", draftable="body", guarded=("public",)),
        "shell": ToolFacts("write"),
    },
)
D1 = DraftId("d1")
HELD = Draft(D1, "write_file", "content", "one two three four five", {"path": "a"})
TURN = Turn(attempt=7, now=5.0)
OPEN = replace(TURN, drafts={D1: HELD})
CUT = Cut(failure("reset", "gone"))


def reply(*calls):
    return Reply(tuple(ReplyCall(f"c{at}", *call) for at, call in enumerate(calls)), last=CUT)


def test_nothing_is_kept_of_a_reply_without_calls():
    assert drafting.keep(TURN, Reply((ReplyText("hello"),), last=CUT), POLICY) is None


@pytest.mark.requirement("B8")
def test_the_text_of_a_cut_call_becomes_a_draft_named_by_its_attempt():
    kept = drafting.keep(TURN, reply(("write_file", '{"path": "a", "content": "one tw')), POLICY)
    draft = Draft(DraftId("d7"), "write_file", "content", "one tw", {"path": "a"})
    assert kept == drafting.KeptDraft("write_file", (DraftKept(5.0, draft),), draft.id, 6, 6)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("shell", '{"command": "rm -r'),
        ("write_file", '{"path": "a'),
        ("write_file", '{"content": "'),
        ("nobody", '{"x'),
    ],
)
def test_a_call_that_can_not_be_drafted_is_only_named(name, arguments):
    assert drafting.keep(TURN, reply((name, arguments)), POLICY) == drafting.KeptDraft(name)


def test_a_call_that_looks_whole_in_a_cut_reply_is_kept_as_a_closed_draft():
    kept = drafting.keep(TURN, reply(("write_file", '{"path": "a", "content": "all of it"}')), POLICY)
    (fact,) = kept.facts
    assert (fact.draft.text, fact.draft.closed, fact.draft.lost) == ("all of it", True, None)


@pytest.mark.requirement("B16")
def test_a_whole_call_in_front_of_one_that_is_only_named_is_held_with_it():
    kept = drafting.keep(
        TURN, reply(("write_file", '{"path": "a", "content": "x"}'), ("shell", '{"c')), POLICY
    )
    places = (HeldCall("c0", "write_file", '{"path": "a", "content": "x"}'), HeldCall("c1", "shell"))
    assert kept == drafting.KeptDraft("shell", (CallsHeld(5.0, places),), None, 29)


@pytest.mark.requirement("B6", "B7")
@pytest.mark.parametrize(
    "text, facts, gained, length",
    [
        ("one two", (), 0, 23),
        ("one two three four five", (), 0, 23),
        ("one two three four five six", (DraftGrown(5.0, D1, 23, " six"),), 4, 27),
    ],
    ids=["shorter", "the same", "longer"],
)
def test_a_call_made_again_from_the_top_counts_only_for_what_is_new(text, facts, gained, length):
    kept = drafting.keep(OPEN, reply(("write_file", f'{{"path": "a", "content": "{text}')), POLICY)
    assert kept == drafting.KeptDraft("write_file", facts, D1, gained, length)


def test_another_text_is_another_draft_and_counts_for_what_it_has_more():
    kept = drafting.keep(
        OPEN, reply(("write_file", '{"path": "a", "content": "quite another text here')), POLICY
    )
    assert (kept.draft, kept.gained, kept.length) == ("d7", 0, 23)
    kept = drafting.keep(
        OPEN, reply(("write_file", '{"path": "b", "content": "quite another text here!!')), POLICY
    )
    assert (kept.draft, kept.gained) == ("d7", 2)


@pytest.mark.requirement("B8")
def test_a_cut_finish_call_extends_its_draft_for_the_tool_behind_it():
    kept = drafting.keep(
        OPEN, reply(("finish_call", '{"draft": "d1", "after": "four five", "rest": " six')), POLICY
    )
    assert kept == drafting.KeptDraft("write_file", (DraftGrown(5.0, D1, 23, " six"),), D1, 4, 27)


@pytest.mark.requirement("C8")
@pytest.mark.parametrize(
    "turn, calls, lost",
    [
        (TURN, [("write_file", r'{"path": "a", "content": "one\ntwo\n\"three')], 0),
        (TURN, [("shell", '{"command": "ls"}'), ("write_file", '{"path": "a", "content": "one')], 0),
        (TURN, [("shell", '{"command": "rm')], 15),
        (OPEN, [("write_file", '{"path": "a", "content": "one two')], 33),
        (OPEN, [("write_file", r'{"path": "a", "content": "one two three four five\nsix')], 49),
        (OPEN, [("write_file", '{"path": "b", "content": "quite another text here!!')], 49),
        (OPEN, [("finish_call", r'{"draft": "d1", "after": "four five", "rest": "\nsix')], 47),
        (OPEN, [("finish_call", '{"dr')], 4),
    ],
    ids=[
        "all kept",
        "a call before it",
        "no draft",
        "again",
        "again and more",
        "another",
        "a rest",
        "no rest",
    ],
)
def test_what_a_draft_takes_in_is_not_lost_with_its_escapes_and_all_around_it(turn, calls, lost):
    cut = reply(*calls)
    assert drafting.lost(cut, drafting.keep(turn, cut, POLICY)) == lost


@pytest.mark.parametrize(
    "arguments", ['{"draft": "d1", "after": "fo', '{"draft": "d9", "after": "x", "rest": "y', '{"dr']
)
def test_a_cut_finish_call_that_proves_nothing_leaves_the_draft_as_it_is(arguments):
    kept = drafting.keep(OPEN, reply(("finish_call", arguments)), POLICY)
    assert kept == drafting.KeptDraft("write_file", (), D1, 0, 23)


def test_a_cut_finish_call_without_any_draft_is_only_named():
    assert drafting.keep(TURN, reply(("finish_call", '{"draft": "d1')), POLICY) == drafting.KeptDraft(
        "finish_call"
    )


def finish(turn=OPEN, **arguments):
    return drafting.finish(turn, PendingCall("c", "finish_call", arguments), "key", POLICY)


@pytest.mark.requirement("B8", "D1")
def test_a_fitting_rest_makes_the_whole_call_and_closes_the_draft():
    done = finish(draft="d1", after="four five", rest=" six")
    whole = {"path": "a", "content": "one two three four five six"}
    assert done == RunTool("c", "write_file", whole, "key", (DraftClosed(5.0, D1, "finished"),))


def test_more_extends_the_draft_and_says_how_long_it_is():
    done = finish(draft="d1", after="four five", rest=" six", more=True)
    assert isinstance(done, Record)
    assert done.facts[0] == DraftGrown(5.0, D1, 23, " six")
    assert isinstance(done.facts[1], ToolFinished)
    assert done.facts[1].outcome.ok
    assert "27 characters" in done.facts[1].outcome.text


REFUSED = {
    "another anchor": (
        {"draft": "d1", "after": "six seven eight", "rest": "x"},
        '\n"one two three four five"',
    ),
    "no anchor": ({"draft": "d1", "rest": "x"}, "after is empty"),
    "no such draft": ({"draft": "d9", "after": "x", "rest": "x"}, "open: d1"),
    "no draft named": ({"after": "x", "rest": "x"}, "open: d1"),
    "a number as rest": ({"draft": "d1", "after": "four five", "rest": 7}, "another kind of value for rest"),
    "words as more": (
        {"draft": "d1", "after": "four five", "rest": "x", "more": "yes"},
        "kind of value for more",
    ),
    "another path": (
        {"draft": "d1", "after": "four five", "rest": "x", "also": {"path": "b"}},
        "cannot be changed",
    ),
}


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("arguments, words", REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_and_nothing_changes(arguments, words):
    done = finish(**arguments)
    assert isinstance(done, Record)
    (fact,) = done.facts
    assert fact.outcome.status == "not_started"
    assert words in fact.outcome.text


@pytest.mark.requirement("B8", "B13")
def test_a_rest_in_doubt_is_kept_beside_its_draft_and_joined_by_one_letter():
    asked = finish(draft="d1", after="four five", rest="five six")
    assert isinstance(asked, Record)
    grown, told = asked.facts
    assert (grown.kept, grown.added, grown.doubtful.rest) == (len(HELD.text), "", "five six")
    assert told.outcome.status == "not_started"
    assert 'draft="d1"' in told.outcome.text
    assert '"one two three four five" and then "five six"' in told.outcome.text
    assert '"one two three four five" and then " six"' in told.outcome.text
    turn = replace(TURN, drafts={D1: replace(HELD, doubtful=grown.doubtful)})
    as_it_is = finish(turn, draft="d1", after="", rest="", reading="a")
    without = finish(turn, draft="d1", reading="b", rest="five six")
    assert as_it_is.arguments["content"] == "one two three four fivefive six"
    assert without.arguments["content"] == "one two three four five six"
    again = finish(turn, draft="d1", reading="x")
    assert again.facts[0].doubtful == grown.doubtful
    anew = finish(turn, draft="d1", after="four five", rest=" six", reading="a")
    assert anew.arguments["content"] == "one two three four five six"


@pytest.mark.requirement("B8", "B13")
def test_a_cut_rest_in_doubt_is_kept_and_asked_about_before_it_goes_on():
    rest = "four five and six, and seven, and eight, and nine"
    cut = reply(("finish_call", f'{{"draft": "d1", "after": "four five", "rest": "{rest}'))
    kept = drafting.keep(OPEN, cut, POLICY)
    (grown,) = kept.facts
    assert (kept.gained, kept.length, grown.doubtful.rest) == (len(rest), len(HELD.text), rest)
    assert drafting.lost(cut, kept) < 60
    draft = replace(HELD, doubtful=grown.doubtful)
    note = text_of(prompts.finish_draft(draft, 1).parts)
    assert "letter as reading" in note
    turn = replace(TURN, drafts={D1: draft})
    assert drafting.keep(turn, cut, POLICY).gained == 0
    grown, told = finish(turn, draft="d1", reading="b").facts
    assert (grown.kept, grown.added, grown.doubtful) == (len(HELD.text), rest[9:], None)
    assert json.dumps(HELD.text + rest[9:]) in told.outcome.text


def test_a_guarded_argument_that_was_lost_must_be_given():
    turn = replace(TURN, drafts={D1: Draft(D1, "post", "body", "a long enough text", {"title": "t"})})
    done = finish(turn, draft="d1", after="long enough text", rest="")
    assert "public" in done.facts[0].outcome.text
    done = finish(turn, draft="d1", after="long enough text", rest="", also={"public": False})
    assert done.arguments == {"public": False, "title": "t", "body": "a long enough text"}


def test_a_new_call_settles_drafts_of_the_same_thing_and_no_others():
    others = {
        DraftId(name): Draft(DraftId(name), tool, "content", "x", settled)
        for name, tool, settled in (
            ("same", "write_file", {"path": "a"}),
            ("unsettled", "write_file", {}),
            ("elsewhere", "write_file", {"path": "b"}),
            ("other tool", "append_file", {"path": "a"}),
        )
    }
    turn = replace(TURN, drafts=others)
    closed = drafting.replaced(turn, "write_file", {"path": "a", "content": "short"})
    assert [(fact.draft, fact.how) for fact in closed] == [
        ("same", "superseded"),
        ("unsettled", "superseded"),
    ]


@pytest.mark.requirement("B8")
def test_every_cut_of_a_finish_call_leaves_a_draft_that_the_next_one_can_finish():
    rest = ' six "seven"\neight — nine'
    arguments = json.dumps({"draft": "d1", "after": "three four five", "rest": rest})
    whole = HELD.text + rest
    for at in range(len(arguments)):
        kept = drafting.keep(OPEN, reply(("finish_call", arguments[:at])), POLICY)
        draft = HELD
        for fact in kept.facts:
            assert isinstance(fact, DraftGrown)
            draft = replace(draft, text=draft.text[: fact.kept] + fact.added)
        assert whole.startswith(draft.text), at
        turn = replace(TURN, drafts={D1: draft})
        done = finish(turn, draft="d1", after=draft.text[-20:], rest=whole[len(draft.text) :])
        assert done.arguments["content"] == whole, at


@pytest.mark.requirement("B8")
@pytest.mark.parametrize("cut_before", [False, True])
def test_a_short_call_is_asked_for_again_once_and_kept_when_it_is_cut_again(cut_before):
    policy = replace(POLICY, worth_a_draft=drafting.WORTH_A_DRAFT)
    before = Turn(attempt=1, tally=Tally(cut_tool="write_file", cuts=1) if cut_before else Tally())
    short = reply(("write_file", '{"path": "a", "content": "one two'))
    long = reply(("write_file", '{"path": "a", "content": "' + "one two " * 60))
    kept = drafting.keep(before, short, policy)
    assert (kept.tool, kept.draft) == ("write_file", "d1" if cut_before else None)
    assert drafting.keep(before, long, policy).draft == "d1"
