"""On clean recordings our reply equals what the official package makes of the same bytes."""

import pytest
from support.wire.official_clients import openai_client
from support.wire.transcript_files import transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.reply import ReplyOpaque
from turnbuckle.wire.answer import open_answer

CLEAN = [path for path in transcripts("openai_responses") if path.stem.startswith("clean-")]
STREAMS = [path for path in CLEAN if path.suffix == ".sse"]


def whole_name(call):
    """Among ourselves a tool in a namespace goes by both names in one."""
    group = getattr(call, "namespace", None)
    return f"{group}__{call.name}" if group else call.name


def our_reply(path):
    decoder = open_answer("openai_responses")
    return fold(decoder.feed(path.read_bytes()) + decoder.close())


def official_response(path):
    if path.suffix == ".json":
        return openai_client(path.read_bytes(), "application/json").responses.create(model="m", input="Hi")
    with openai_client(path.read_bytes()).responses.stream(model="m", input="Hi") as stream:
        return stream.get_final_response()


def values(response):
    """The official response in our words."""
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [
        "\n\n".join(part.text for part in (item.summary or item.content or []))
        for item in response.output
        if item.type == "reasoning"
    ]
    calls = [item for item in response.output if item.type in ("function_call", "custom_tool_call")]
    known = ("message", "reasoning", "function_call", "custom_tool_call")
    return {
        "id": response.id,
        "model": response.model,
        "text": response.output_text,
        "refusal": "".join(part.refusal for part in parts if part.type == "refusal"),
        "reasoning": "".join(thoughts),
        "calls": [
            (call.call_id, whole_name(call), getattr(call, "arguments", None) or call.input) for call in calls
        ],
        "opaque": [item.to_dict() for item in response.output if item.type not in known],
        "said": response.status,
        "input": response.usage.input_tokens,
        "output": response.usage.output_tokens,
        "cached": response.usage.input_tokens_details.cached_tokens,
        "thinking": response.usage.output_tokens_details.reasoning_tokens,
    }


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.stem)
@pytest.mark.requirement("A1", "A2", "A4")
def test_our_reply_equals_that_of_the_official_package(path):
    reply = our_reply(path)
    assert values(official_response(path)) == {
        "id": reply.id,
        "model": reply.model,
        "text": reply.text,
        "refusal": reply.refusal,
        "reasoning": reply.reasoning,
        "calls": [(call.id, call.name, call.arguments) for call in reply.calls],
        "opaque": [block.data for block in reply.blocks if isinstance(block, ReplyOpaque)],
        "said": reply.finish_said,
        "input": reply.usage.input,
        "output": reply.usage.output,
        "cached": reply.usage.cached,
        "thinking": reply.usage.reasoning,
    }


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_our_deltas_join_to_those_of_the_official_raw_stream(path):
    text = [
        event.delta
        for event in openai_client(path.read_bytes()).responses.create(model="m", input="Hi", stream=True)
        if event.type == "response.output_text.delta"
    ]
    assert our_reply(path).text == "".join(text)
