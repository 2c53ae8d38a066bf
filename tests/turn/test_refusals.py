"""What providers say when they refuse a request, what kind of failure that is, and what is done about it."""

import json

import pytest
from msgspec.structs import replace

from turnbuckle.reply.verdict import verdict
from turnbuckle.turn.facts import Continue, Decision, Fallback, GiveUp, Reask, Retry
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.recover import Broken, decide
from turnbuckle.turn.state import Tally
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.failures import from_response

POLICY = Policy((RouteFacts(RouteName("main"), "openai_chat", "m"),))
OTHER = RouteName("other")
RETOLD, VALID, AGAIN = Reask("retold"), Reask("valid_calls"), Retry(0.5)
LESS = 4362
NAME = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."


def read(status: int, said: object) -> Failure:
    body = said if isinstance(said, dict) else {"error": {"message": said, "type": "invalid_request_error"}}
    return from_response(status, {}, json.dumps(body).encode())


def after(failure: Failure, **changes: object) -> Decision:
    found = verdict(Reply(last=Cut(failure)))
    blank = Broken(
        verdict=found.kind,
        failure=failure,
        said_text=False,
        has_more=False,
        tool="",
        draft=None,
        gained=0,
        tally=Tally(retries=1, malformed=1 if found.kind == "malformed" else 0),
        others=(),
        can_give_room=False,
        can_lower_effort=False,
        streaming=True,
        seconds_left=1000.0,
        jitter=0.0,
        can_retell=True,
        cap=32_000,
    )
    return decide(replace(blank, **changes), POLICY)


def error(message: str, code: object = None, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, **more}}


REFUSALS: dict[str, tuple[int, object, str, Decision]] = {
    # A call that the provider itself could not read: its model may do better the next time
    "Groq, a call": (
        400,
        error(
            "Failed to call a function. See 'failed_generation'.",
            "tool_use_failed",
            failed_generation="<function>",
        ),
        "malformed_call",
        VALID,
    ),
    "Groq, JSON": (400, error("Failed to generate JSON.", "json_validate_failed"), "malformed_call", VALID),
    "Groq, no code": (
        400,
        "tool call validation failed: attempted to call tool 'x' which was not in request.tools",
        "malformed_call",
        VALID,
    ),
    "Ollama": (
        500,
        "error parsing tool call: raw='{', err=unexpected end of JSON input",
        "malformed_call",
        VALID,
    ),
    # State that its provider does not take back
    "Gemini, corrupted": (400, "Corrupted thought signature.", "pairing", RETOLD),
    "Gemini, invalid": (
        400,
        [{"error": {"code": 400, "message": "Invalid thought signature", "status": "INVALID_ARGUMENT"}}],
        "pairing",
        RETOLD,
    ),
    "Gemini, missing": (
        400,
        "Function call is missing a thought_signature in functionCall parts.",
        "pairing",
        RETOLD,
    ),
    "Claude, signature": (
        400,
        "messages.3.content.0: Invalid `signature` in `thinking` block",
        "pairing",
        RETOLD,
    ),
    "Claude, no signature": (
        400,
        "messages.1.content.0.thinking.signature: Field required",
        "pairing",
        RETOLD,
    ),
    "Claude, bound": (400, "thinking block is bound to a different conversation", "pairing", RETOLD),
    "Claude, edited": (
        400,
        "messages.5: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "pairing",
        RETOLD,
    ),
    "Claude, thinking first": (
        400,
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "pairing",
        RETOLD,
    ),
    "Responses, code": (400, error("could not be verified", "invalid_encrypted_content"), "pairing", RETOLD),
    "Responses, words": (
        400,
        "The encrypted content gAAAAB could not be verified. Reason: Encrypted content could not be decrypted.",
        "pairing",
        RETOLD,
    ),
    "Responses, not stored": (
        404,
        "Item with id 'rs_68' not found. Items are not persisted when `store` is set to false.",
        "pairing",
        RETOLD,
    ),
    "behind a gateway": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": "Invalid `signature` in `thinking` block"},
            }
        },
        "pairing",
        RETOLD,
    ),
    # Names and ids of calls in the history
    "OpenAI, a name": (
        400,
        error(f"Invalid 'messages[2].tool_calls[0].function.name': {NAME}", "invalid_value"),
        "pairing",
        RETOLD,
    ),
    "OpenAI, a long name": (
        400,
        error(
            "Invalid 'messages[2].tool_calls[0].function.name': string too long. Expected a maximum length of 64.",
            "string_above_max_length",
        ),
        "pairing",
        RETOLD,
    ),
    "Responses, a long id": (
        400,
        error(
            "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64.",
            "string_above_max_length",
        ),
        "pairing",
        RETOLD,
    ),
    "Responses, a name": (400, error(f"Invalid 'input[4].name': {NAME}", "invalid_value"), "pairing", RETOLD),
    "Claude, a name": (
        400,
        "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "pairing",
        RETOLD,
    ),
    "Claude, an id": (
        400,
        "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        "pairing",
        RETOLD,
    ),
    "Claude, the same id": (400, "messages: `tool_use` ids must be unique", "pairing", RETOLD),
    "Mistral, a name": (
        400,
        "Function name was functions.shell but must be a-z, A-Z, 0-9, or contain underscores and dashes.",
        "pairing",
        RETOLD,
    ),
    "Mistral, an id": (
        400,
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "pairing",
        RETOLD,
    ),
    "Mistral, order": (400, "Unexpected role 'user' after role 'tool'", "pairing", RETOLD),
    "a template": (
        400,
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "pairing",
        RETOLD,
    ),
    # A gateway whose model failed
    "424": (424, {}, "server", AGAIN),
    "424, in words": (424, "The model returned an error", "server", AGAIN),
    # The prompt does not fit
    "context limit": (
        400,
        "The prompt and tools exceed context limit",
        "context",
        GiveUp("failed", "The prompt and tools exceed context limit"),
    ),
    "llama.cpp": (
        400,
        {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}},
        "context",
        GiveUp("failed", "too long"),
    ),
    # Less is allowed than was asked for
    "credits": (
        402,
        {
            "error": {
                "code": 402,
                "message": f"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford {LESS}.",
            }
        },
        "billing",
        Reask("less_room", cap=LESS),
    ),
    "window, Claude": (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length",
        "context",
        Reask("less_room", cap=10_000),
    ),
    "window, OpenAI": (
        400,
        error(
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the messages, 8000 in the completion).",
            "context_length_exceeded",
        ),
        "context",
        Reask("less_room", cap=7_192),
    ),
    "window, vLLM": (
        400,
        "'max_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 12000 input tokens",
        "context",
        Reask("less_room", cap=20_768),
    ),
    "window, nothing left": (
        400,
        "input length and `max_tokens` exceed context limit: 199990 + 32000 > 200000",
        "context",
        GiveUp("failed", "input length and `max_tokens` exceed context limit: 199990 + 32000 > 200000"),
    ),
    "cap, OpenAI": (
        400,
        "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
        "invalid",
        Reask("less_room", cap=16_384),
    ),
    "cap, Claude": (
        400,
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3",
        "invalid",
        Reask("less_room", cap=8_192),
    ),
    "cap, DeepSeek": (
        400,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "invalid",
        Reask("less_room", cap=8_192),
    ),
    # A field that has another name
    "old name": (
        400,
        error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "unsupported_parameter",
            param="max_tokens",
        ),
        "unsupported",
        Reask("cap_field", cap_field="max_completion_tokens"),
    ),
    "new name": (
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "max_completion_tokens"],
                    "msg": "Extra inputs are not permitted",
                }
            ]
        },
        "unsupported",
        Reask("cap_field", cap_field="max_tokens"),
    ),
    "new name, plainly": (
        400,
        "Unrecognized request argument supplied: max_completion_tokens ",
        "unsupported",
        Reask("cap_field", cap_field="max_tokens"),
    ),
    # What stays a plain refusal
    "a tool's definition": (
        400,
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        "invalid",
        GiveUp("failed", "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    ),
    "no money": (402, "Payment required", "billing", GiveUp("failed", "Payment required")),
    "another field": (
        400,
        error("Unsupported parameter: 'logit_bias'", "unsupported_parameter", param="logit_bias"),
        "invalid",
        GiveUp("failed", "Unsupported parameter: 'logit_bias'"),
    ),
}


@pytest.mark.requirement("C4", "C5", "C11")
@pytest.mark.parametrize("status, said, kind, choice", REFUSALS.values(), ids=REFUSALS)
def test_what_a_provider_says_has_a_kind_and_something_is_done_about_it(
    status: int, said: object, kind: str, choice: Decision
):
    body = said if isinstance(said, list) else None
    failure = from_response(status, {}, json.dumps(body).encode()) if body else read(status, said)
    assert failure.kind == kind
    assert after(failure) == choice


def test_what_was_changed_once_and_refused_again_is_not_changed_again():
    credits, name, bound, call = (
        read(*REFUSALS[key][:2]) for key in ("credits", "old name", "Claude, bound", "Groq, a call")
    )
    assert isinstance(after(credits, tally=Tally(curbed=True)), GiveUp)
    assert after(credits, tally=Tally(curbed=True), others=(OTHER,)) == Fallback(OTHER)
    assert isinstance(after(name, tally=Tally(renamed=True)), GiveUp)
    assert isinstance(after(bound, tally=Tally(retold=3)), GiveUp)
    assert isinstance(after(call, tally=Tally(malformed=4)), GiveUp)
    assert after(call, tally=Tally(malformed=4), others=(OTHER,)) == Fallback(OTHER)


def test_a_smaller_cap_is_tried_only_where_it_is_smaller():
    credits = read(*REFUSALS["credits"][:2])
    assert after(credits, cap=None) == Reask("less_room", cap=LESS)
    assert isinstance(after(credits, cap=LESS), GiveUp)
    assert isinstance(after(credits, cap=LESS - 1), GiveUp)


def test_an_unreadable_call_behind_shown_text_leaves_the_text():
    call = read(*REFUSALS["Groq, a call"][:2])
    assert after(call, said_text=True) == Continue("unreadable")
