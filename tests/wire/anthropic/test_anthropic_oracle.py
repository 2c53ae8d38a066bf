"""On clean transcripts we read what the official package reads."""

from pathlib import Path

import pytest
from support.wire.official_clients import anthropic_client

from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.reply import ReplyCall, ReplyOpaque, ReplyReasoning
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.decoder import ReplyDecoder

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"
CLEAN = sorted(path.name for path in FOLDER.glob("clean-*"))
ASKED = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}


def theirs(name):
    body = (FOLDER / name).read_bytes()
    if name.endswith(".json"):
        return anthropic_client(body, "application/json").messages.create(**ASKED)
    with anthropic_client(body).messages.stream(**ASKED) as stream:
        return stream.get_final_message()


def ours(name):
    decoder = ReplyDecoder(AnthropicDecoder())
    return fold(decoder.feed((FOLDER / name).read_bytes()) + decoder.close())


def as_content(block):
    """Our block in the shape of theirs."""
    match block:
        case ReplyCall():
            value = judge(block.arguments).value
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": value,
                **(block.state or {}),
            }
        case ReplyReasoning():
            state = block.state or {}
            return state if "data" in state else {"thinking": block.text, **state}
        case ReplyOpaque():
            return block.data
        case _:
            return {"type": "text", "text": block.text, **(block.state or {})}


def plain(block):
    made = block.to_dict()
    if not made.get("citations", True):
        del made["citations"]  # none, said as an empty list
    return made


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.requirement("A1", "A2", "A4", "A10")
def test_a_clean_transcript_reads_as_the_official_package_reads_it(name):
    message, reply = theirs(name), ours(name)
    usage = message.usage
    assert [as_content(block) for block in reply.blocks] == [plain(block) for block in message.content]
    assert (reply.id, reply.model, reply.finish_said) == (message.id, message.model, message.stop_reason)
    assert reply.usage.output == usage.output_tokens
    assert reply.usage.cached == usage.cache_read_input_tokens
    assert reply.usage.cache_written == usage.cache_creation_input_tokens
    assert reply.usage.input == usage.input_tokens + reply.usage.cached + reply.usage.cache_written
    assert reply.usage.reasoning == (
        usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0
    )
    assert reply.ended
