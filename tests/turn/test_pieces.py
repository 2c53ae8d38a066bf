"""A new call in place of one that was cut is the whole, a piece of it, or neither."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft
from turnbuckle.turn import calls, drafting, pieces
from turnbuckle.turn import client_calls as handing
from turnbuckle.turn.facts import ToolFinished, ToolStarted
from turnbuckle.turn.policy import ANY_TEXT, Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import Ask, PendingCall, Turn
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.quirks import Quirks

MAIN = RouteName("main")
TOOLS = {
    "write_file": ToolFacts("write", draftable="content", subject="path"),
    "append_file": ToolFacts("write", draftable="content", subject="path"),
    "Write": ToolFacts(draftable=ANY_TEXT, client=True),
}
POLICY = Policy((RouteFacts(MAIN, "openai_chat", "m"),), TOOLS)
SMALL = Policy((RouteFacts(MAIN, "openai_chat", "m", quirks=Quirks(drafts="text")),), TOOLS)
KEPT = "".join(f"line number {number} of the file\n" for number in range(100))
D1 = DraftId("d1")
DRAFT = Draft(D1, "write_file", "content", KEPT, {"path": "a.py"})
TURN = Turn(now=5.0, attempt=3, drafts={D1: DRAFT}, ask=Ask(MAIN, "finish_draft"))
WHOLE = KEPT + "the last line\n"


def call(content, tool="write_file", path="a.py"):
    return PendingCall("c", tool, {"path": path, "content": content})


@pytest.mark.parametrize(
    "text, share",
    [
        (WHOLE, "whole"),
        (KEPT, "whole"),
        (KEPT.rstrip(), "whole"),
        ("Another file, as long as it takes.\n" * 200, "whole"),
        (KEPT[:600], "piece"),
        (KEPT[KEPT.index("line number 30") : 1500], "shorter"),
        ("A short one.\n" * 20, "shorter"),
        ("", "shorter"),
        (KEPT[-90:] + "and the rest\n", "tail"),
        (KEPT[-90:] + "and the rest\n" * 900, "tail"),
        ('"' + KEPT[-90:].replace("\n", "\\n") + '" and more', "tail"),
        ("<<<" + KEPT[-60:] + ">>>", "tail"),
        ("[Runtime] Your call was cut\n" * 200, "note"),
    ],
    ids=["all", "the same", "without its end", "another", "its beginning", "its middle", "short", "empty", "the end",
         "the end and much more", "the end as JSON", "the end in marks", "our words"],
)  # fmt: skip
def test_a_new_text_is_the_whole_only_if_it_begins_at_the_beginning_and_is_no_shorter(text, share):
    assert pieces.share_of(DRAFT, text) == share


@pytest.mark.requirement("B8", "B13")
@pytest.mark.parametrize(
    "text", ["A short one.\n" * 20, KEPT[-90:] + "rest\n", KEPT[300:900], "[Runtime] no"]
)
@pytest.mark.parametrize("policy", [POLICY, SMALL], ids=["strong", "small"])
def test_a_part_never_takes_the_place_of_the_whole(text, policy):
    record = drafting.refuse_part(TURN, call(text), policy)
    (told,) = record.facts
    assert told.outcome.status == "not_started"
    assert "d1" in told.outcome.text
    assert drafting.replaced(TURN, "write_file", call(text).arguments) == []
    after = calls.finish(replace(TURN, calls=(call(text),)), told)
    assert after.tally.splice_failures == 1


@pytest.mark.requirement("B8")
def test_the_whole_takes_the_place_of_its_draft():
    assert drafting.refuse_part(TURN, call(WHOLE), POLICY) is None
    assert [closed.how for closed in drafting.replaced(TURN, "write_file", call(WHOLE).arguments)] == [
        "superseded"
    ]


@pytest.mark.parametrize("path, tool", [("b.py", "write_file"), ("a.py", "append_file")])
def test_a_call_about_something_else_is_no_matter_of_the_draft(path, tool):
    assert drafting.refuse_part(TURN, call("short", tool, path), POLICY) is None
    assert drafting.replaced(TURN, tool, call("short", tool, path).arguments) == []


@pytest.mark.requirement("B8")
def test_smaller_calls_settle_the_draft_when_all_of_it_is_written():
    turn = TURN
    cuts = [0, 700, 1_500, 2_400, len(WHOLE)]
    for begin, end in pairwise(cuts):
        tool = "append_file" if begin else "write_file"
        arguments = {"path": "a.py", "content": WHOLE[begin:end]}
        assert drafting.refuse_part(turn, PendingCall("c", tool, arguments), POLICY) is None
        closed = drafting.replaced(turn, tool, arguments)
        assert bool(closed) == (end >= len(KEPT))
        turn = calls.start(turn, ToolStarted(6.0, "c", tool, arguments, "k"))
    assert turn.pieces == {D1: len(WHOLE)}


def test_a_model_that_does_not_write_in_pieces_may_not_begin_with_one():
    assert drafting.refuse_part(TURN, call(KEPT[:600]), POLICY) is None
    record = drafting.refuse_part(TURN, call(KEPT[:600]), SMALL)
    assert isinstance(record.facts[0], ToolFinished)


@pytest.mark.requirement("F11")
def test_a_part_is_not_handed_over_either():
    draft = Draft(D1, "Write", "content", KEPT, {"path": "a.py"})
    short = call("short", "Write")
    turn = replace(TURN, drafts={D1: draft}, calls=(short,))
    assert not handing.is_for_caller(turn, short, POLICY)
    assert handing.is_for_caller(replace(turn, calls=(call(WHOLE, "Write"),)), call(WHOLE, "Write"), POLICY)
