"""Names that models invent, and ids that providers refuse, never reach a provider."""

from itertools import product

import pytest

from turnbuckle.reply.repair import repair
from turnbuckle.reply.repair.calls import legal_name
from turnbuckle.reply.rules import violations
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, ProviderState, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.registry import PROTOCOLS, rules_of

USER = Message("user", (TextPart("Do it."),))
INVENTED = (
    "functions.shell",
    "run shell",
    " shell",
    "shell\n",
    "x" * 200,
    "x" * 129,
    "shéll",
    "工具",
    "🔧",
    "a/b:c",
    "...",
    "\x00",
    "\ud800",
    "<function=shell>",
    'shell{"command": "ls"}',
)


def history_of(*calls: CallPart) -> tuple[Message, ...]:
    told = TextPart("There is no tool with that name. The tools are: shell.")
    answers = tuple(ResultPart(call.id, (told,), failed=True) for call in calls)
    return USER, Message("assistant", calls), Message("tool", answers), USER


def calls_in(messages: tuple[Message, ...]) -> list[CallPart]:
    return [part for message in messages for part in message.parts if isinstance(part, CallPart)]


@pytest.mark.requirement("C11", "C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("name", INVENTED)
def test_an_invented_name_is_spelled_as_the_provider_takes_it(protocol: ProtocolName, name: str):
    history = history_of(CallPart("c", name, "{}"))
    assert [found.rule for found in violations(history, rules_of(protocol))] == ["bad_name"]
    made = repair(history, rules_of(protocol), tools=frozenset({"shell"}))
    assert made.left == ()
    (call,) = calls_in(made.messages)
    assert rules_of(protocol).tool_names.takes(call.name)
    assert call.name != "shell"
    assert made.messages[2:] == history[2:], "the answer still belongs to it, and names the true tools"
    assert repair(made.messages, rules_of(protocol)).messages == made.messages


@pytest.mark.requirement("C11")
@pytest.mark.parametrize("name", ["9lives", "-x"])
def test_a_name_that_begins_with_a_digit_begins_with_a_letter_where_a_host_may_want_one(name: str):
    for protocol, is_changed in (("openai_chat", True), ("openai_responses", False), ("anthropic", False)):
        (call,) = calls_in(repair(history_of(CallPart("c", name, "{}")), rules_of(protocol)).messages)  # type: ignore[arg-type]
        assert (call.name != name) == is_changed


@pytest.mark.requirement("C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_names_that_differ_stay_apart_and_the_same_one_is_always_spelled_the_same(protocol: ProtocolName):
    spelled = [legal_name(name, rules_of(protocol)) for name in INVENTED]
    assert len(set(spelled)) == len(INVENTED)
    assert spelled == [legal_name(name, rules_of(protocol)) for name in INVENTED]


@pytest.mark.requirement("C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_the_name_of_a_tool_that_is_offered_stays_as_its_owner_spelled_it(protocol: ProtocolName):
    history = history_of(CallPart("c", "mcp.files/read", "{}"))
    assert repair(history, rules_of(protocol), tools=frozenset({"mcp.files/read"})).messages == history
    assert repair(history_of(CallPart("c", "shell", "{}")), rules_of(protocol)).messages == history_of(
        CallPart("c", "shell", "{}")
    )


@pytest.mark.requirement("C11", "A3")
def test_a_call_whose_name_was_changed_keeps_its_signature_but_is_no_known_item_any_more():
    for protocol, is_kept in (("openai_chat", True), ("anthropic", True), ("openai_responses", False)):
        state = ProviderState(protocol, "m", {"id": "fc_1"})  # type: ignore[arg-type]
        (call,) = calls_in(repair(history_of(CallPart("c", "a.b", "{}", state)), rules_of(protocol)).messages)  # type: ignore[arg-type]
        assert (call.state is not None) == is_kept


@pytest.mark.requirement("C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_no_body_that_is_sent_holds_a_name_that_was_invented(protocol: ProtocolName):
    calls = tuple(
        CallPart(f"c{place}", name, "{}") for place, name in enumerate(INVENTED) if name != "\ud800"
    )
    made = repair(history_of(*calls), rules_of(protocol))
    body = repr(PROTOCOLS[protocol].build(ModelRequest("m", made.messages), Quirks()))
    for call in calls:
        assert f"'name': {call.name!r}" not in body


IDS = ("", " ", "x", "x_1", "x y", "é", "\n", "i" * 39, "i" * 41, "i" * 65, "f.a:0")


@pytest.mark.requirement("C11", "C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_short_list_of_ids_over_the_whole_history_becomes_a_legal_one(
    protocol: ProtocolName, record_property
):
    tried = 0
    quirks = Quirks(longest_call_id=40)
    for ids in product(IDS, repeat=3):
        tried += 1
        together = history_of(*(CallPart(name, "look", f'{{"n":{place}}}') for place, name in enumerate(ids)))
        apart = tuple(message for name in ids for message in history_of(CallPart(name, "look", "{}"))[:3])
        for history in (together, (*apart, USER)):
            made = repair(history, rules_of(protocol), quirks=quirks)
            assert made.left == (), ids
            own = [call.id for call in calls_in(made.messages)]
            assert len(set(own)) == 3, ids
            answered = [
                part.call_id
                for message in made.messages
                for part in message.parts
                if isinstance(part, ResultPart)
            ]
            assert answered == own, ids
            if protocol == "openai_chat":
                assert all(len(name) <= 40 for name in own), ids
    record_property("cases", tried)


@pytest.mark.requirement("C5", "C11")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_an_id_that_was_sent_is_never_renamed_because_of_a_later_one(protocol: ProtocolName):
    """`x` twice, so the second goes out as `x_1`; then the model itself makes an `x_1`."""
    first = history_of(CallPart("x", "look", "{}"))
    second = (*first, *history_of(CallPart("x", "look", "{}"))[1:])
    third = (*second, *history_of(CallPart("x_1", "look", "{}"))[1:])
    sent = [repair(history, rules_of(protocol)).messages for history in (first, second, third)]
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][: len(sent[1])] == sent[1]
    assert [call.id for call in calls_in(sent[2])] == ["x", "x_1", "x_1_1"]
