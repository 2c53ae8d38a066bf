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
    ("You passed 8193 input tokens and requested 512 output tokens. However, the model's context length is only "
     "8192 tokens, resulting in a maximum input length of 7680 tokens. Please reduce the length of the input "
     "prompt. (parameter=input_tokens, value=8193)", 8192, 8193),
    ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please "
     "reduce the length of the messages.", 272000, 300123),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1048576, None),
    ("Reached context length of 4096 tokens with model (arch: qwen2) that does not currently support "
     "mid-generation context overflow.", 4096, None),
    ("too many tokens: size limit exceeded by 3000 tokens. Try using shorter or fewer inputs. The limit for this "
     "model is 128000 tokens.", 128000, None),
    ("The input token count plus max_tokens exceed the model limit: 131073.", 131073, None),
    ("The maximum context length of Meta-Llama-3 is 8192. However, answering your request will take 9000 tokens. "
     "Please reduce the length of the messages.", 8192, 9000),
    ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000, None),
    ('["User message is too long: 200000 tokens; maximum 127072"]', 127072, 200000),
    ("Prompt length 9000 exceeds the model's maximum of 8192 tokens", 8192, 9000),
    ("Prompt length 9000 is greater than max_seq_len 8192", 8192, 9000),
    ("AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window "
     "limit (8000).", 8000, 9000),
    ("Invalid input argument for Model 'm': the number of input tokens 9000 cannot exceed the total tokens limit "
     "8192 for this model", 8192, 9000),
    ("Input length 140000 exceeds the maximum length 131072. Request id: 02", 131072, 140000),
    ("length of prompt_tokens (40000) must be less than max_seq_len (32768).", 32768, 40000),
    ("the input length 9000 plus max tokens 512 is longer than session_len 8192", 8192, 9000),
    ("The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)", 8192, 9000),
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
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input.",
        "Total tokens of image and text exceed max message tokens. Request id: 02",
        "max tokens of 131072 exceeded",
        "Prompt too long",
        "Extra usage is required for long context requests.",
        "Prompt \u8d85\u957f",
        "\u8f93\u5165\u5185\u5bb9\u8fc7\u957f\uff0c\u8bf7\u7f29\u77ed\u540e\u91cd\u8bd5",
    ],
)
def test_a_refusal_without_a_number_is_still_known(message):
    told = from_error({"message": message}, status=400)

    assert (told.kind, told.window, told.taken) == ("context", None, None)


@pytest.mark.parametrize("message", ["Rate limit of 8192 tokens a minute", "model gpt-4 has moved", ""])
def test_other_words_name_no_window(message):
    assert sizes_in(message) == (None, None)


@pytest.mark.requirement("I1")
@pytest.mark.parametrize(
    "body",
    [
        {
            "errors": [{"message": "prompt is too long: 9000 tokens > 8192 maximum", "code": 5021}],
            "success": False,
        },
        {"detail": {"msg": "prompt is too long: 9000 tokens > 8192 maximum"}},
        {
            "errors": [{"code": "invalid", "message": "prompt is too long: 9000 tokens > 8192 maximum"}],
            "trace": "x",
        },
    ],
)
def test_a_refusal_is_read_in_whatever_envelope_it_stands(body):
    told = from_response(400, {}, json.dumps(body).encode())

    assert (told.kind, told.window, told.taken) == ("context", 8192, 9000)
    assert "prompt is too long" in told.message


@pytest.mark.requirement("I2")
@pytest.mark.parametrize("status", [413, 429])
def test_a_limit_a_minute_that_one_request_breaks_by_itself_asks_for_less_and_not_for_a_wait(status):
    said = (
        "Request too large for model `m` in organization `o` on tokens per minute (TPM): Limit 6000, Requested "
        "8000, please reduce your message size and try again."
    )

    told = from_error({"message": said, "type": "tokens", "code": "rate_limit_exceeded"}, status=status)

    assert (told.kind, told.retryable) == ("too_large", False)


@pytest.mark.requirement("I2")
def test_a_long_prompt_that_takes_another_contract_asks_for_less_and_not_for_a_wait():
    error = {"type": "rate_limit_error", "message": "Extra usage is required for long context requests."}

    assert from_error(error, status=429).kind == "context"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "Invalid 'tools[0].function.description': string too long. Expected maximum length 1024", "invalid"),
        (400, "Invalid 'messages[1].name': string too long. Expected a string with maximum length 64", "pairing"),
        (400, "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64", "invalid"),
        (400, "max_tokens is too large: 9000. This model supports at most 4096 completion tokens", "invalid"),
        (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes", "invalid"),
        (400, "tools.0.custom.input_schema: JSON schema is invalid. It exceeds maximum length", "invalid"),
        (422, '[{"loc":["body","top_p"],"msg":"Input should be less than or equal to 2"}]', "invalid"),
        (429, "Too many tokens, please wait before trying again.", "rate_limited"),
        (429, "This request would exceed your rate limit of 30,000 input tokens per minute", "rate_limited"),
        (429, "Input tokens per minute exceeded: the limit is 8000 tokens", "rate_limited"),
        (504, "Upstream took longer than 60 s to read the input tokens", "timeout"),
    ],
)  # fmt: skip
def test_other_things_that_are_too_long_are_not_the_conversation(status, message, kind):
    assert from_error({"message": message}, status=status).kind == kind
