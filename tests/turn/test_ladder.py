"""Which way a model is asked for what is missing, and what becomes of the answer."""

import pytest
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft
from turnbuckle.turn import ladder
from turnbuckle.turn.facts import Continue, FinishDraft
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import Ask, Tally, Turn
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
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


def chosen(draft=DRAFT, route=SMALL, tried=(), worked="", misjoined=0):
    turn = replace(TURN, drafts={D1: draft}, tried=tried, tally=Tally(misjoined=misjoined))
    return ladder.way_for(turn, ASK, route, POLICY, worked)


@pytest.mark.parametrize(
    "expected, given",
    [
        ("", {"route": STRONG}),
        ("whole", {"route": STRONG, "misjoined": 2}),
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
     (PREFILL, "call", (), ""), (SMALL, "text", (), "")],
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
