"""On clean transcripts we read what the official package reads from the same bytes."""

import pytest
from support.wire.chat_cases.case import TRANSCRIPTS, body, reply_of
from support.wire.chat_cases.official import by_answer, by_chunks, by_helper, by_us

from turnbuckle.wire.usage import usage_from_openai

STREAMS = sorted(path.name for path in TRANSCRIPTS.glob("clean-*.sse"))
ANSWERS = sorted(path.name for path in TRANSCRIPTS.glob("clean-*.json"))


@pytest.mark.requirement("A1", "A2", "A10")
@pytest.mark.parametrize("name", STREAMS)
def test_a_clean_stream_folds_as_the_official_package_accumulates_it(name):
    assert by_us(reply_of(name)) == by_helper(body(name))


@pytest.mark.requirement("A1", "A2", "A10")
@pytest.mark.parametrize("name", ANSWERS)
def test_a_clean_answer_reads_as_the_official_package_reads_it(name):
    assert by_us(reply_of(name)) == by_answer(body(name))


@pytest.mark.parametrize("name", STREAMS)
def test_the_pieces_of_a_clean_stream_are_those_that_the_package_yields(name):
    chunks = by_chunks(body(name))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    reply = reply_of(name)
    assert "".join(delta.content or "" for delta in deltas) == reply.text
    assert "".join(delta.refusal or "" for delta in deltas) == reply.refusal
    assert [usage_from_openai(chunk.usage.to_dict()) for chunk in chunks if chunk.usage] == [reply.usage]
