"""Which way a model is asked for what is missing, and what becomes of the answer."""

import msgspec
import pytest
from msgspec.structs import replace

from turnbuckle.reply import rest
from turnbuckle.reply.draft import Draft
from turnbuckle.turn import ladder, prompts
from turnbuckle.turn.facts import Continue, FinishDraft
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import Ask, Tally, Turn
from turnbuckle.vocab.events import Ended
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply, ReplyCall
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import FINISH_CALL
from turnbuckle.wire.openai_chat.request import build

MAIN = RouteName("main")
STRONG = RouteFacts(MAIN, "openai_chat", "m")
SMALL = replace(STRONG, quirks=Quirks(drafts="text"))
PREFILL = replace(STRONG, quirks=Quirks(drafts="text", prefill="plain"))
POLICY = Policy(
    (STRONG,),
    {
        "write_file": ToolFacts("write", draftable="content", subject="path"),
        "post": ToolFacts("write", "body", ("public",)),
    },
)
TEXT = "".join(f"line {number}\n" for number in range(80)) + "lin"
D1 = DraftId("d1")
DRAFT = Draft(D1, "write_file", "content", TEXT, {"path": "a.txt"})
ASK = Ask(MAIN, "finish_draft", wanted=FinishDraft(D1))
TURN = Turn(drafts={D1: DRAFT}, ask=ASK, messages=(Message("user", (TextPart("Do it."),)),))


def chosen(draft=DRAFT, route=SMALL, tried=(), worked="", splice_failures=0):
    turn = replace(TURN, drafts={D1: draft}, tried=tried, tally=Tally(splice_failures=splice_failures))
    return ladder.way_for(turn, ASK, route, POLICY, worked)


@pytest.mark.parametrize(
    "expected, given",
    [
        ("", {"route": STRONG}),
        ("whole", {"route": STRONG, "splice_failures": 2}),
        ("anchored", {"route": STRONG, "worked": "anchored"}),
        ("whole", {}),
        ("prefill", {"route": PREFILL}),
        ("whole", {"route": PREFILL, "tried": ("prefill",)}),
        ("anchored", {"route": PREFILL, "tried": ("prefill", "whole")}),
        ("", {"route": PREFILL, "tried": ("prefill", "whole", "anchored")}),
        ("anchored", {"route": PREFILL, "worked": "anchored"}),
        ("anchored", {"draft": replace(DRAFT, text=TEXT * 40 + "the end of it\nli")}),
        ("whole", {"draft": replace(DRAFT, closed=True), "route": PREFILL}),
        ("", {"draft": replace(DRAFT, settled={})}),
        ("", {"draft": replace(DRAFT, lost="mo")}),
        ("", {"draft": replace(DRAFT, tool="post", argument="body")}),
    ],
)
def test_the_way_follows_from_the_route_the_draft_and_what_was_tried(expected, given):
    assert chosen(**given) == expected


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    "route, kind, tried, way",
    [(PREFILL, "text", (), "prefill"), (PREFILL, "length", (), "prefill"), (PREFILL, "text", ("prefill",), ""),
     (PREFILL, "call", (), ""), (STRONG, "text", (), "")],
)  # fmt: skip
def test_cut_text_goes_on_behind_itself_where_the_route_can(route, kind, tried, way):
    said = Message("assistant", (TextPart("The wav"),), partial=True)
    turn = replace(TURN, messages=(*TURN.messages, said), open_text=("The wav",), tried=tried)
    ask = Ask(MAIN, "continue", wanted=Continue(kind))
    assert ladder.way_for(turn, ask, route, POLICY) == way
    if way:
        turn = replace(turn, ask=replace(ask, way=way))
        assert ladder.prefill(turn, way).parts == (TextPart("The"),)
        assert ladder.held_back(turn, way) == " wav"
        assert ladder.notes_for(turn, ask, way, POLICY) == ()


@pytest.mark.requirement("A12")
@pytest.mark.parametrize(
    "prefill, body, message",
    [
        ("plain", {}, {}),
        ("continue_final_message", {"continue_final_message": True, "add_generation_prompt": False}, {}),
        ("prefix", {}, {"prefix": True}),
        ("partial", {}, {"partial": True}),
    ],
)
def test_each_host_is_told_in_its_own_words_to_go_on(prefill, body, message):
    messages = (Message("user", (TextPart("Hi"),)), Message("assistant", (TextPart("The"),)))
    made = build(ModelRequest("m", messages, prefill=True), Quirks(prefill=prefill))
    assert {key: made[key] for key in body} == body
    assert made["messages"][-1] == {"role": "assistant", "content": "The", **message}
    plain = build(ModelRequest("m", messages), Quirks(prefill=prefill))
    assert not {"continue_final_message", "add_generation_prompt"} & set(plain)
    assert plain["messages"][-1] == {"role": "assistant", "content": "The"}


@pytest.mark.requirement("B13")
@pytest.mark.parametrize(
    ("finish", "fenced", "taken"),
    [
        ("stop", True, True),
        ("stop", False, True),
        (None, True, True),
        (None, False, False),
        ("other", False, False),
    ],
)
def test_a_rest_whose_end_nobody_vouches_for_is_not_taken(finish, fenced, taken):
    """Neither a reason to stop nor a closed code block says that this was all of it."""
    place = rest.anchored(DRAFT.text)
    answer = f"{place.anchor}\n{place.back}ne\nThe last line.\n"
    answer = f"```\n{answer}```" if fenced else answer
    arguments = msgspec.json.encode({"draft": D1, "rest": answer}).decode()
    call = ReplyCall("rest_2", FINISH_CALL, arguments, closed=True)
    turn = replace(
        TURN, drafts={D1: DRAFT}, ask=Ask(MAIN, "finish_draft", wanted=FinishDraft(D1), way="anchored")
    )
    got = ladder.joined(turn, Reply(blocks=(call,), finish=finish, last=Ended("end")), ended=True)
    assert isinstance(got, str) is taken, got


@pytest.mark.requirement("B3")
@pytest.mark.parametrize(
    ("route", "kind", "messages", "way"),
    [
        (SMALL, "text", (), "again"),
        (SMALL, "length", (), ""),  # it would reach the same limit
        (SMALL, "text", (prompts.note("[Runtime] Go on."),), ""),
        (STRONG, "text", (), ""),
    ],
)
def test_a_small_model_that_cannot_go_on_gets_its_question_again(route, kind, messages, way):
    said = Message("assistant", (TextPart("The wav"),), partial=True)
    turn = replace(TURN, messages=(*TURN.messages, *messages, said), open_text=("The wav",))
    ask = Ask(MAIN, "continue", wanted=Continue(kind))
    assert ladder.way_for(turn, ask, route, POLICY) == way
    told = ladder.as_sent(replace(turn, messages=(*TURN.messages, said, said)), way)
    assert (told.messages == TURN.messages) is (way == "again")
