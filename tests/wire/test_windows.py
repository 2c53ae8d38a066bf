"""How large a model's window is, read from the refusals of providers in all their spellings."""

import json

import pytest

from turnbuckle.wire.failures import from_error, from_response
from turnbuckle.wire.wordings import sizes_in

REFUSALS = [
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in 10042 tokens. "
     "Please reduce the length of the messages.", 8192, 10042),
    ("This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (4000 in the "
     "messages, 1000 in the completion). Please reduce the length.", 4097, 4000),
    ("This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens "
     "(139000 of text input, 1000 in the output). Please reduce the length of either one.", 131072, 139000),
    ("'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 8192 "
     "tokens and your request has 500 input tokens (8000 > 8192 - 500).", 8192, 500),
    ("Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
     "5000 tokens.", 4096, 5000),
    ("This model's maximum context length is 32768 tokens.", 32768, None),
    ("prompt is too long: 208310 tokens > 200000 maximum", 200000, 208310),
    ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
     "`max_tokens` and try again", 200000, 188240),
    ("The prompt is too long: 140000, model maximum context length: 131071", 131071, 140000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576, 1200000),
    ("Unable to submit request because the input token count is 40000 but model only supports up to 32768. "
     "Reduce the input token count and try again.", 32768, 40000),
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096, 5000),
    ("Trying to keep the first 5012 tokens when context the overflows. However, the model is loaded with "
     "context length of only 4096 tokens, which is not enough.", 4096, 5012),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096, 5000),
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4096, 5000),
    ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
     32768, 40000),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072, 537812),
    ("Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)", 131072, 140000),
    ("Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
     8192, 9000),
    ("prompt token count of 14000 exceeds the limit of 12800", 12800, 14000),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.", 4081, 5000),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens "
     "and 512 `max_new_tokens`", 8193, 8000),
    ("`inputs` must have less than 4096 tokens. Given: 5000", 4096, 5000),
    ("Range of input length should be [1, 30720]", 30720, None),
    ("This model's maximum context length is 1,048,576 tokens.", 1048576, None),
]  # fmt: skip


@pytest.mark.requirement("I1")
@pytest.mark.parametrize("message, window, taken", REFUSALS, ids=[text[:40] for text, *_ in REFUSALS])
def test_a_refusal_tells_the_window_and_what_the_prompt_took(message, window, taken):
    told = from_response(400, {}, json.dumps({"error": {"message": message}}).encode())

    assert told.kind == "context"
    assert (told.window, told.taken) == (window, taken)


def test_llama_cpp_says_it_in_fields():
    error = {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5000,
        "n_ctx": 4096,
    }

    told = from_error(error)

    assert (told.kind, told.window, told.taken) == ("context", 4096, 5000)


def test_a_gateway_that_quotes_its_provider_is_read_too():
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": '{"error":{"message":"prompt is too long: 208310 tokens > 200000 maximum"}}'},
    }

    assert from_error(error).window == 200000


@pytest.mark.parametrize(
    "message",
    [
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Prompt exceeds max length",
        "the input length exceeds the context length",
    ],
)
def test_a_refusal_without_a_number_is_still_known(message):
    told = from_error({"message": message}, status=400)

    assert (told.kind, told.window, told.taken) == ("context", None, None)


@pytest.mark.parametrize("message", ["Rate limit of 8192 tokens a minute", "model gpt-4 has moved", ""])
def test_other_words_name_no_window(message):
    assert sizes_in(message) == (None, None)
