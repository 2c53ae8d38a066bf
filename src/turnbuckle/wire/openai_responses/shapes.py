"""The objects that our encoder writes: output items and the response around them."""

from collections.abc import Mapping
from typing import Any

from turnbuckle.vocab.events import FinishNoted, Usage
from turnbuckle.vocab.failure import Failure, FailureKind
from turnbuckle.wire.answer_fields import joined
from turnbuckle.wire.openai_responses.answer_fields import PART_FIELDS
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.openai_responses.namespaces import name_in
from turnbuckle.wire.usage import usage_to_responses

# Item types that clients of this wire know beside messages, reasoning and calls.
FOREIGN_ITEMS = frozenset(
    f"{stem}{end}"
    for stem, ends in {
        "function_call": ("_output",),
        "custom_tool_call": ("_output",),
        "computer_call": ("", "_output"),
        "shell_call": ("", "_output"),
        "local_shell_call": ("", "_output"),
        "apply_patch_call": ("", "_output"),
        "program": ("", "_output"),
        "tool_search": ("_call", "_output"),
        "mcp": ("_call", "_list_tools", "_approval_request", "_approval_response"),
        "web_search_call": ("",),
        "file_search_call": ("",),
        "code_interpreter_call": ("",),
        "image_generation_call": ("",),
        "additional_tools": ("",),
        "compaction": ("",),
    }.items()
    for end in ends
)
OWN_LABEL = "turnbuckle"
"""The server under whose name our own tools go."""
_UNFINISHED: dict[str, str] = {
    "length": "max_output_tokens",
    "window": "max_output_tokens",
    "filtered": "content_filter",
}
_OF_PART = ("annotations", "logprobs", PART_FIELDS)
_FINISHED = (None, "stop", "calls", "refused", "other")
_ERROR_CODES: dict[FailureKind, str] = {
    "rate_limited": "rate_limit_exceeded",
    "overloaded": "server_is_overloaded",
    "timeout": "timeout_error",
    "auth": "invalid_api_key",
    "permission": "permission_denied",
    "billing": "insufficient_quota",
    "not_found": "model_not_found",
    "context": "context_length_exceeded",
    "too_large": "request_too_large",
    "filtered": "content_filter",
    "pairing": "invalid_request_error",
    "unsupported": "invalid_request_error",
    "unstreamable": "invalid_request_error",
    "invalid": "invalid_request_error",
}


def text_content(text: str, state: Mapping[str, Any]) -> dict[str, Any]:
    own = state if state.get("type") == "message" else {}
    return {
        "type": "output_text",
        "text": text,
        "annotations": own.get("annotations") or [],
        "logprobs": own.get("logprobs") or [],
        **(own.get(PART_FIELDS) or {}),
    }


def refusal_content(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def message_item(
    item_id: str, status: str, content: list[dict[str, Any]], state: Mapping[str, Any]
) -> dict[str, Any]:
    made = {"type": "message", "id": item_id, "status": status, "role": "assistant", "content": content}
    own = state if state.get("type") == "message" else {}
    return {**made, **{key: value for key, value in own.items() if key not in made and key not in _OF_PART}}


def call_item(
    item_id: str, status: str, call_id: str, name: str, arguments: str, state: Mapping[str, Any]
) -> dict[str, Any]:
    kind = state.get("type") if state.get("type") in CALLS else None
    own = state if kind else {}
    kind = kind or "function_call"
    made = {
        "type": kind,
        "id": item_id,
        "status": status,
        "call_id": call_id,
        "name": name_in(own.get("namespace"), name),
        CALLS[kind]: arguments,
    }
    return {**made, **{key: value for key, value in own.items() if key not in made}}


def hosted_call_item(
    item_id: str, status: str, name: str, arguments: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    """A call that is run where the response is made, with its result. This is the one shape that every known
    client shows, or leaves alone, and none runs: the API's own for tools that it calls by itself."""
    return {
        "type": "mcp_call",
        "id": item_id,
        "status": status,
        "server_label": OWN_LABEL,
        "name": name,
        "arguments": arguments,
        "output": result.get("output"),
        "error": result.get("error"),
        "approval_request_id": None,
    }


def reasoning_item(item_id: str, status: str, text: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Reasoning as a summary. What its provider said of it (its parts, its encrypted form) is told as it
    was."""
    own = state if state.get("type") == "reasoning" else {}
    made: dict[str, Any] = {"type": "reasoning", "id": item_id, "status": status}
    made["summary"] = own.get("summary") or ([{"type": "summary_text", "text": text}] if text else [])
    return {**made, **{key: value for key, value in own.items() if key not in made}}


def response_body(
    base: Mapping[str, Any],
    status: str,
    output: list[dict[str, Any]],
    *,
    usage: Usage | None = None,
    counted: Mapping[str, Any] | None = None,
    reason: str = "",
    failure: Failure | None = None,
) -> dict[str, Any]:
    """A response object. Clients differ in which fields they insist on, so all the usual ones are there.
    `counted` is what a provider counts beside what we know."""
    over = status in ("completed", "incomplete")
    told = usage_to_responses(usage or Usage()) if over or usage is not None else None
    return {
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        **base,
        "status": status,
        "error": error_of(failure) if failure is not None else None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": joined(told, counted) if told is not None and counted else told,
    }


def error_of(failure: Failure) -> dict[str, Any]:
    """The error inside a response that failed."""
    return {
        "code": failure.code or _ERROR_CODES.get(failure.kind, "server_error"),
        "message": failure.message,
    }


def status_of(finish: FinishNoted | None) -> tuple[str, str]:
    """The status of an ended reply and, if it is not whole, the reason."""
    word = finish.finish if finish is not None else None
    if finish is not None and finish.said == "incomplete":
        return "incomplete", finish.detail or _UNFINISHED.get(finish.finish, "max_output_tokens")
    if word in _FINISHED:
        return "completed", ""
    return "incomplete", _UNFINISHED.get(str(word), str(word))
