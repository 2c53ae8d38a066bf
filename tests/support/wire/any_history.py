"""Histories of every kind, legal or not: what repair must make legal."""

from hypothesis import strategies as st

from turnbuckle.reply.stand_in import NO_RESULT, stand_in
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks

# Few ids and few texts, so that calls collide, results repeat, and ids of one provider meet another.
IDS = st.sampled_from(["call_0", "call_0", "call_1", "toolu_a", "functions.f:0", "", "call_0_1", "x" * 70])
TEXTS = st.sampled_from(["hello", "go on", "wait", " ", "", "\n\n", "a late word"])
ARGUMENTS = st.sampled_from(["{}", '{"a":1}', "", "null", '{"a":"cut', '{"a":1}}', "[1]", "\ud800"])
MODELS = st.sampled_from(["", "m", "other"])
DATA = st.sampled_from(
    [
        {"signature": "s"},
        {"thoughtSignature": "t"},
        {"id": "rs_1", "encrypted_content": "e"},
        {"id": "rs_1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "reasoning", "encrypted_content": "e"},
        {"type": "server_tool_use", "id": "s"},
        {"type": "custom_tool_call", "id": "ctc"},
    ]
)
STATES = st.builds(ProviderState, st.sampled_from(PROTOCOL_NAMES), MODELS, DATA)
MAYBE_STATES = st.none() | STATES
IMAGES = st.just(ImagePart(url="https://example.test/a.png"))
RESULTS = st.builds(
    ResultPart,
    IDS,
    st.lists(st.builds(TextPart, st.sampled_from(["r1", "r2", "r3", "", " "])), max_size=2).map(tuple),
    st.booleans(),
) | st.builds(stand_in, IDS, st.just(NO_RESULT))
CALLS = st.builds(CallPart, IDS, st.sampled_from(["look", "write", ""]), ARGUMENTS, MAYBE_STATES)
TEXT_PARTS = st.builds(TextPart, TEXTS, MAYBE_STATES)
THOUGHTS = st.builds(ReasoningPart, st.sampled_from(["hm", ""]), MAYBE_STATES) | st.builds(OpaquePart, STATES)
ANY_PART: st.SearchStrategy[Part] = st.one_of(
    TEXT_PARTS, CALLS, RESULTS, THOUGHTS, IMAGES, st.builds(RefusalPart, TEXTS)
)


def messages_of(role: str, parts: st.SearchStrategy[Part], at_most: int = 4) -> st.SearchStrategy[Message]:
    many = st.lists(parts, max_size=at_most).map(tuple)
    return st.builds(Message, st.just(role), many, note=st.booleans(), partial=st.booleans())


ASSISTANT = messages_of("assistant", st.one_of(TEXT_PARTS, CALLS, CALLS, THOUGHTS))
TOOL = messages_of("tool", RESULTS)
USER = messages_of("user", TEXT_PARTS, 2)
OF_ANY_PARTS = {role: messages_of(role, ANY_PART) for role in ("system", "user", "assistant", "tool")}
ANY_MESSAGE = st.sampled_from([*OF_ANY_PARTS]).flatmap(OF_ANY_PARTS.__getitem__)
HISTORIES = st.lists(st.one_of(ASSISTANT, ASSISTANT, TOOL, TOOL, USER, ANY_MESSAGE), max_size=9).map(tuple)
QUIRKS = st.sampled_from([Quirks(), Quirks(text_after_tools=False), Quirks(stored=True)])
