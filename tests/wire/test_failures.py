"""Whatever a provider says went wrong becomes one failure with the facts that recovery needs."""

import json

import pytest

from turnbuckle.vocab.failure import failure
from turnbuckle.wire.failures import error_in, from_error, from_response, incomplete, with_request_id


def _body(**error):
    return json.dumps({"error": error}).encode()


def _read(status, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return from_response(status, named, body)


# By status alone


@pytest.mark.parametrize(
    "status, kind, retryable",
    [
        (400, "invalid", False),
        (401, "auth", False),
        (402, "billing", False),
        (403, "permission", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (409, "server", True),
        (413, "too_large", False),
        (418, "invalid", False),
        (422, "invalid", False),
        (420, "rate_limited", True),
        (424, "server", True),
        (425, "server", True),
        (429, "rate_limited", True),
        (499, "invalid", False),
        (500, "server", True),
        (501, "server", True),
        (502, "server", True),
        (503, "overloaded", True),
        (504, "timeout", True),
        (520, "server", True),
        (524, "timeout", True),
        (529, "overloaded", True),
    ],
)
def test_a_bare_status_has_a_kind_and_says_whether_to_try_again(status, kind, retryable):
    for body in (b"", b"{}", b"<html>x</html>", b"\xff"):
        found = _read(status, body)
        assert (found.kind, found.retryable, found.status) == (kind, retryable, status)
        assert found.message


# By code or type

QUOTA = """insufficient_quota billing_hard_limit_reached credit_balance_exhausted organization_spend_limit_exceeded
    project_spend_limit_exceeded organization_usage_limit_exceeded 1113 1308 1310 1321"""


@pytest.mark.parametrize("code", QUOTA.split())
def test_a_429_that_no_wait_will_cure_is_not_tried_again(code):
    for spelled in (code, int(code)) if code.isdigit() else (code,):
        found = _read(429, _body(message="You exceeded your limit", code=spelled))
        assert (found.kind, found.retryable, found.code) == ("billing", False, code)


@pytest.mark.parametrize(
    "status, error, kind, retryable",
    [
        pytest.param(429, {"code": 1302}, "rate_limited", True, id="Z.ai 1302"),
        pytest.param(429, {"code": "1305"}, "rate_limited", True, id="Z.ai 1305"),
        pytest.param(429, {"code": "slow_down"}, "overloaded", True, id="OpenAI's ramp limit, 429"),
        pytest.param(503, {"code": "slow_down"}, "overloaded", True, id="OpenAI's ramp limit, 503"),
        pytest.param(503, {"code": "server_is_overloaded"}, "overloaded", True, id="overloaded"),
        pytest.param(400, {"code": "context_length_exceeded"}, "context", False, id="OpenAI's context"),
        pytest.param(
            400, {"message": "prompt is too long: 210000 tokens"}, "context", False, id="Claude's context"
        ),
        pytest.param(
            400,
            {"status": "INVALID_ARGUMENT", "message": "The input token count (1100000) exceeds the maximum"},
            "context",
            False,
            id="Gemini's context",
        ),
        pytest.param(
            400,
            {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API"},
            "billing",
            False,
            id="Claude's balance, as a 400",
        ),
        pytest.param(404, {"code": "model_not_found"}, "not_found", False, id="model_not_found on Chat"),
        pytest.param(400, {"code": "model_not_found"}, "not_found", False, id="model_not_found on Responses"),
        pytest.param(
            400,
            {
                "message": "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            },
            "pairing",
            False,
            id="calls without results",
        ),
        pytest.param(
            400,
            {
                "message": "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            },
            "pairing",
            False,
            id="results without calls",
        ),
        pytest.param(
            400,
            {
                "message": "Invalid value: 'image_url'. Supported values are: 'text' and 'refusal'.",
                "type": "invalid_request_error",
                "param": "messages[1].content[1].type",
                "code": "invalid_value",
            },
            "pairing",
            False,
            id="parts of an answer",
        ),
        pytest.param(
            400,
            {"message": "No tool output found for function call call_1."},
            "pairing",
            False,
            id="Responses pairing",
        ),
        pytest.param(
            400,
            {"message": "Item 'rs_1' of type 'reasoning' was provided without its required following item."},
            "pairing",
            False,
            id="reasoning without its item",
        ),
        pytest.param(
            400,
            {"message": "Function call is missing a thought_signature"},
            "pairing",
            False,
            id="Gemini's signature",
        ),
        pytest.param(
            400,
            {"message": "The reasoning_content in the thinking mode must be passed back to the API."},
            "pairing",
            False,
            id="DeepSeek's reasoning",
        ),
        pytest.param(
            400,
            {
                "type": "invalid_request_error",
                "message": "thinking block is bound to a different conversation",
            },
            "pairing",
            False,
            id="Claude's prefix check",
        ),
        pytest.param(
            400,
            {"message": "Streaming is not supported for this model"},
            "unstreamable",
            False,
            id="no streaming",
        ),
        pytest.param(
            400,
            {"message": "Your organization must be verified to stream this model.", "param": "stream"},
            "unstreamable",
            False,
            id="not verified to stream",
        ),
        pytest.param(400, {"code": "content_policy_violation"}, "filtered", False, id="a policy"),
        pytest.param(
            400,
            {"code": "tool_use_failed", "failed_generation": "<f>"},
            "malformed_call",
            False,
            id="Groq's call",
        ),
        pytest.param(
            500, {"message": "The model is overloaded"}, "overloaded", True, id="overloaded by sentence"
        ),
        pytest.param(
            500, {"type": "server_error", "message": "Connection lost"}, "reset", True, id="a lost connection"
        ),
        pytest.param(401, {"code": "invalid_api_key"}, "auth", False, id="a bad key"),
    ],
)
def test_a_code_or_a_sentence_beats_its_status(status, error, kind, retryable):
    found = _read(status, _body(**error))
    assert (found.kind, found.retryable, found.status) == (kind, retryable, status)


ANTHROPIC = [
    ("invalid_request_error", "invalid", False),
    ("authentication_error", "auth", False),
    ("billing_error", "billing", False),
    ("permission_error", "permission", False),
    ("not_found_error", "not_found", False),
    ("conflict_error", "server", True),
    ("request_too_large", "too_large", False),
    ("rate_limit_error", "rate_limited", True),
    ("api_error", "server", True),
    ("timeout_error", "timeout", True),
    ("overloaded_error", "overloaded", True),
]
BEDROCK = [
    ("internalServerException", "server", True),
    ("modelStreamErrorException", "server", True),
    ("serviceUnavailableException", "server", True),
    ("throttlingException", "rate_limited", True),
    ("validationException", "invalid", False),
    ("modelTimeoutException", "timeout", True),
]


@pytest.mark.parametrize("name, kind, retryable", ANTHROPIC + BEDROCK)
def test_an_error_event_without_a_status_is_known_by_its_type(name, kind, retryable):
    found = from_error({"type": "error", "error": {"type": name, "message": "no"}})
    assert (found.kind, found.retryable, found.status, found.type) == (kind, retryable, None, name)


@pytest.mark.parametrize("name, kind, retryable", BEDROCK)
def test_amazons_error_type_is_read_from_its_header(name, kind, retryable):
    header = f"{name[0].upper()}{name[1:]}:http://internal.amazon.com/coral/"
    found = _read(400, b'{"message":"no"}', x_amzn_errortype=header)
    assert (found.kind, found.retryable, found.message) == (kind, retryable, "no")


@pytest.mark.parametrize(
    "code, kind",
    [
        (1002, "rate_limited"),
        (1041, "rate_limited"),
        (2045, "rate_limited"),
        (1004, "auth"),
        (2049, "auth"),
        (1008, "billing"),
        (1039, "context"),
        (9999, "server"),
    ],
)
def test_minimax_puts_its_error_into_base_resp(code, kind):
    document = {"choices": None, "base_resp": {"status_code": code, "status_msg": "words"}}
    found = from_error(error_in(document))
    assert (found.kind, found.message, found.code) == (kind, "words", str(code))
    assert error_in({"base_resp": {"status_code": 0, "status_msg": "success"}}) is None


@pytest.mark.parametrize(
    "error, kind, status",
    [
        ({"code": 429, "message": "x"}, "rate_limited", 429),
        ({"code": "529", "message": "x"}, "overloaded", 529),
        (
            {"code": 502, "message": "x", "metadata": {"error_type": "rate_limit_exceeded"}},
            "rate_limited",
            502,
        ),
        (
            {"code": 400, "message": "x", "metadata": {"provider_code": "context_length_exceeded"}},
            "context",
            400,
        ),
        ({"status": "UNAVAILABLE", "code": 503, "message": "x"}, "overloaded", 503),
        ({"status": "RESOURCE_EXHAUSTED", "code": 429, "message": "x"}, "rate_limited", 429),
        ({"status": "UNAUTHENTICATED", "message": "x"}, "auth", None),
    ],
)
def test_an_error_inside_a_stream_may_carry_its_status(error, kind, status):
    found = from_error(error)
    assert (found.kind, found.status, found.message) == (kind, status, "x")


@pytest.mark.parametrize(
    "message, kind",
    [
        ("Connection lost", "reset"),
        ("upstream connect error or disconnect/reset before headers", "reset"),
        ("peer closed connection without sending complete message body (incomplete chunked read)", "reset"),
        ("terminated", "reset"),
        ("Something else", "server"),
        ("", "server"),
    ],
)
def test_an_error_without_code_or_status_is_the_providers_or_the_transports(message, kind):
    for error in (message, {"message": message}, {"error": message}, {"error": {"message": message}}):
        assert (from_error(error).kind, from_error(error).retryable) == (kind, True)


@pytest.mark.parametrize(
    "body, message",
    [
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"error":"no"}', "no"),
        (b'{"message":"no"}', "no"),
        (b'{"detail":"no"}', "no"),
        (b'{"detail":[{"loc":["body"],"msg":"no"}]}', '[{"loc":["body"],"msg":"no"}]'),
        (b'[{"error":{"message":"no"}}]', "no"),
        (b'{"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_9"}', "no"),
        (b'{"object":"error","message":"no","code":400}', "no"),
        (b'"no"', "no"),
        (b" no ", "no"),
        (b'{"error":{"error":{"message":"no"}}}', "no"),
        (b'{"error":{"message":"\\ud83d"}}', "\ufffd"),
        (b"<html>no</html>", "the provider answered with status 500 and no message (server)"),
    ],
)
def test_the_message_is_found_in_any_envelope(body, message):
    found = _read(500, body)
    assert found.message == message
    assert found.said == body.decode()


@pytest.mark.parametrize(
    "value", [None, 7, True, [], {}, [1], {"error": None}, {"error": []}, {"code": None}]
)
def test_an_error_of_no_use_is_still_a_failure(value):
    assert from_error(value).kind == "server"
    assert from_error(value).message


def test_an_error_nested_without_end_is_survived():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert from_error({"message": deep}).kind == "server"


def test_facts_of_an_error_are_kept():
    found = _read(
        400,
        _body(message="no", type="invalid_request_error", param="messages[1]", code="bad"),
        x_request_id="r",
    )
    assert (found.code, found.type, found.param, found.request_id) == (
        "bad",
        "invalid_request_error",
        "messages[1]",
        "r",
    )


def test_a_long_answer_is_quoted_only_in_part():
    assert len(_read(500, b"x" * 100_000).said) == 2000
    assert len(from_error({"message": "x" * 100_000}).said) == 2000


@pytest.mark.parametrize("status, body", [(402, b""), (429, _body(code="insufficient_quota"))])
def test_a_payment_error_is_tried_again_only_if_it_says_when(status, body):
    assert not _read(status, body).retryable
    assert _read(status, body, retry_after="5").retryable


@pytest.mark.parametrize("status", [400, 429, 500])
def test_x_should_retry_overrules_the_status(status):
    assert _read(status, x_should_retry="true").retryable
    assert not _read(status, x_should_retry="false").retryable
    assert _read(status, x_should_retry="maybe").retryable == (status != 400)


# Request ids


@pytest.mark.parametrize(
    "name", ["x-request-id", "request-id", "x-generation-id", "x-amzn-requestid", "cf-ray"]
)
def test_the_id_for_the_providers_support_is_kept(name):
    assert from_response(500, {name: "id-1"}, b"").request_id == "id-1"
    assert with_request_id(failure("reset", "x"), {name: "id-1"}).request_id == "id-1"


def test_a_request_id_in_the_body_is_used_where_no_header_has_one():
    body = b'{"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_9"}'
    assert _read(500, body).request_id == "req_9"
    assert _read(500, body, request_id="req_1").request_id == "req_1"


def test_a_failure_keeps_the_request_id_that_it_has():
    known = with_request_id(failure("reset", "x"), {"request-id": "one"})
    assert with_request_id(known, {"request-id": "two"}) == known
    assert with_request_id(known, {}) == known


def test_a_body_without_its_terminal_event_is_incomplete_and_may_be_tried_again():
    found = incomplete("no end")
    assert (found.kind, found.message, found.retryable) == ("incomplete", "no end", True)


@pytest.mark.parametrize(
    "message", ["You have reached your spend limit", "You reached your specified API usage limits."]
)
@pytest.mark.parametrize("status", [400, 429])
def test_an_account_that_has_spent_its_money_is_not_asked_to_wait(status, message):
    found = _read(
        status, _body(type="rate_limit_error" if status == 429 else "invalid_request_error", message=message)
    )
    assert (found.kind, found.retryable) == ("billing", False)


def test_a_code_for_money_beats_a_code_for_haste():
    assert (
        _read(429, _body(code="rate_limit_exceeded", type="insufficient_quota", message="x")).kind
        == "billing"
    )


def test_a_status_beside_the_error_object_counts():
    found = from_error(
        {"type": "error", "status": 429, "error": {"type": "usage_limit_reached", "message": "x"}}
    )
    assert (found.kind, found.status) == ("rate_limited", 429)


@pytest.mark.parametrize("odd", [10**400, -(10**400), "9" * 5000, "\u00b2\u00b2\u00b2", 1e308, float("inf")])
def test_a_number_that_is_none_breaks_nothing(odd):
    found = from_error(
        {"message": "x", "code": odd, "status": odd, "retry_after": odd, "retry_after_ms": odd}
    )
    assert (found.kind, found.status, found.retry_after) == ("server", None, None)
