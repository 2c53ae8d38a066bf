"""Whatever a provider says went wrong becomes one `Failure`.

Order of evidence: the provider's own code or type, then the few sentences that providers give no code for
(`wire/wordings.py`), then the status. Nobody else reads error text. A code beats its status:
`insufficient_quota` comes with 429 and no wait will help.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from turnbuckle.vocab.failure import RETRYABLE, Failure, FailureKind, failure
from turnbuckle.vocab.quirks import CAP_FIELDS
from turnbuckle.wire import retry_after
from turnbuckle.wire.loose_json import objects
from turnbuckle.wire.payload import Unreadable, mend_all, read_any, sample
from turnbuckle.wire.wordings import refused_cap_field, room_in, sizes_in, spoken_kind, too_large_for_ever

_CODES_OF: dict[FailureKind, str] = {
    "billing": """insufficient_quota billing_hard_limit_reached credit_balance_exhausted
            organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded
            billing_error usage_not_included insufficient_balance payment_required 1113 1008
            1308 1309 1310 1311 1312 1313 1314 1315 1316 1317 1318 1319 1320 1321""",
    "rate_limited": """rate_limit_error rate_limit_exceeded rate_limited too_many_requests
            throttlingexception resource_exhausted 1302 1305 1002 1041 2045""",
    "overloaded": "overloaded_error server_is_overloaded slow_down engine_overloaded_error engine_overloaded",
    "context": """context_length_exceeded model_context_window_exceeded context_window_exceeded
            exceed_context_size_error string_above_max_length 1039 1261""",
    "malformed_call": "tool_use_failed json_validate_failed output_parse_failed",
    "pairing": "invalid_encrypted_content thinking_signature_invalid",
    "auth": """authentication_error invalid_api_key api_key_invalid invalid_authentication unauthenticated
        1004 2049""",
    "permission": "permission_error permission_denied unsupported_country_region_territory",
    "not_found": "not_found_error model_not_found not_found",
    "too_large": "request_too_large payload_too_large",
    "timeout": "timeout_error modeltimeoutexception deadline_exceeded vector_store_timeout",
    "filtered": """content_filter content_policy_violation bio_policy cyber_policy invalid_prompt
            misalignment_policy_violation responsibleaipolicyviolation guardrail_intervened""",
    "server": """server_error api_error internal_error internal_server_error internal internalserverexception
            modelstreamerrorexception serviceunavailableexception unavailable conflict_error network_error""",
    "reset": "connection_error upstream_connection_error connection_lost",
    "invalid": "invalid_request_error validationexception invalid_argument data_residency_mismatch",
}
_CODES = {code: kind for kind, codes in _CODES_OF.items() for code in codes.split()}

_MAY_GIVE_LESS: frozenset[FailureKind] = frozenset({"billing", "context", "invalid"})
_BEHIND_GENERIC: frozenset[FailureKind] = frozenset({"invalid", "server"})

_STATUSES: dict[int, FailureKind] = {
    401: "auth",
    402: "billing",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",  # a conflict that passes; official clients retry it
    413: "too_large",
    420: "rate_limited",
    424: "server",  # what a gateway says when the model behind it failed
    425: "server",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    522: "timeout",
    524: "timeout",
    529: "overloaded",
}
_STATUS = re.compile(r"[0-9]{3}")
SAID = 2000
_MOST_TOKENS = 10**9


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """An HTTP error: status, headers (names in lower case) and whatever the body holds."""
    try:
        document = read_any(body) if body.strip() else None
    except Unreadable:
        document = None
    error = _error_of(document)
    if error is None:
        text = "" if body.lstrip()[:1] == b"<" else sample(body).strip()
        error = {"message": text}
    amazon = headers.get("x-amzn-errortype", "").split(":")[0]
    if amazon and not error.get("code"):
        error = {**error, "code": amazon}
    made = from_error(error, status=status, headers=headers)
    return msgspec.structs.replace(made, said=body[:SAID].decode("utf-8", "replace"))


def from_error(error: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None) -> Failure:
    """An error object, from a body or from inside a stream. Any shape: mapping, text, or nothing of use."""
    headers = headers or {}
    try:
        error = mend_all(error)
        said = error[:SAID] if isinstance(error, str) else msgspec.json.encode(error).decode()[:SAID]
    except RecursionError:
        error, said = "an error nested too deeply to read", ""
    found = _error_of(error) or {}
    message = _first_text(found, "message", "status_msg", "detail", "error_description") or ""
    status = status if status and status >= 400 else _status_in(found)
    code, kind_name = (
        _word(found.get("code")),
        _word(found.get("type") or found.get("error_type") or found.get("status")),
    )
    kind = _kind(found, message, status)
    param = _word(found.get("param"))
    if kind == "invalid" and (field := _refused_field(found, message, param)):
        kind, param = "unsupported", field
    window, taken = _sizes(found, message) if kind == "context" else (None, None)
    wait = retry_after.from_headers(headers)
    if wait is None:
        wait = retry_after.from_error(found, message)
    if wait is None and kind == "rate_limited":
        wait = retry_after.from_limits(headers)
    return Failure(
        kind,
        message or _plain_words(kind, status),
        _retryable(kind, wait, headers),
        retry_after=wait,
        status=status,
        code=code,
        type=kind_name,
        param=param,
        request_id=_request_id(headers) or _word(found.get("request_id")),
        said=said,
        room=room_in(message) if kind in _MAY_GIVE_LESS else None,
        window=window,
        taken=taken,
    )


def error_in(document: Any) -> Any | None:
    """The error that a 200 body holds, in any provider's envelope; None if it holds none."""
    if isinstance(document, list) and document and isinstance(document[0], dict):
        document = document[0]
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    if error:
        return error
    base = document.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return {"code": base["status_code"], "message": base.get("status_msg", "")}
    return document if "error" in (document.get("type"), document.get("object")) else None


def with_request_id(said: Failure, headers: Mapping[str, str]) -> Failure:
    """The same failure, with the id that the provider's support asks for."""
    found = _request_id(headers)
    return msgspec.structs.replace(said, request_id=found) if found and not said.request_id else said


def incomplete(what: str) -> Failure:
    """The body ended without the protocol's terminal event."""
    return failure("incomplete", what)


def _error_of(document: Any) -> dict[str, Any] | None:
    if isinstance(document, str):
        return {"message": document} if document.strip() else None
    inner = error_in(document)
    if inner is None and isinstance(document, dict) and not document.get("message"):
        inner = next(iter(objects(document.get("errors"))), None)  # Cloudflare, watsonx
    if isinstance(inner, str):
        return {"message": inner}
    if isinstance(inner, dict):
        nested = inner.get("error")
        found = {**inner, **nested} if isinstance(nested, dict) else inner
        outer = document if isinstance(document, dict) else {}
        beside = {"request_id": found.get("request_id") or outer.get("request_id")}
        if isinstance(outer.get("status"), int) and not found.get("status"):
            beside["status"] = outer["status"]
        return {**found, **beside}
    return document if isinstance(document, dict) else None


def _kind(error: Mapping[str, Any], message: str, status: int | None) -> FailureKind:
    metadata = error.get("metadata")
    hints = metadata if isinstance(metadata, dict) else {}
    words = (
        error.get("code"),
        error.get("type"),
        hints.get("error_type"),
        hints.get("provider_code"),
        *_reasons(error),
        error.get("status"),
    )
    named = [kind for word in words if (kind := _CODES.get(_word(word).lower()))]
    exact = [kind for kind in named if kind not in _BEHIND_GENERIC]
    spoken = spoken_kind(message) or spoken_kind(_raw(hints))
    if spoken == "pairing" and exact[:1] in (["context"], ["not_found"]):
        return spoken  # an id or a name that is too long, a thought that is not stored any more
    if "billing" in (*exact, spoken) and exact[:1] in ([], ["billing"], ["rate_limited"]):
        return (
            "billing"  # an account that has spent its money is also called rate limited, but no wait helps it
        )
    if exact[:1] == ["rate_limited"]:
        return too_large_for_ever(message) or "rate_limited"
    if exact:
        return exact[0]
    if spoken is not None:
        return spoken
    if status in _STATUSES:
        return _STATUSES[status]
    if named:
        return named[0]
    if status is None:
        return "server"
    return "server" if status >= 500 else "invalid"


def _sizes(error: Mapping[str, Any], message: str) -> tuple[int | None, int | None]:
    """The window and what the prompt takes of it: in words, or as llama.cpp has them, in fields."""
    fields = error.get("n_ctx"), error.get("n_prompt_tokens")
    if all(type(field) is int and 0 < field < _MOST_TOKENS for field in fields):
        return fields
    metadata = error.get("metadata")
    spoken = sizes_in(message)
    return spoken if spoken[0] else sizes_in(_raw(metadata if isinstance(metadata, dict) else {}))


def _reasons(error: Mapping[str, Any]) -> list[Any]:
    """Google's own code for what is wrong stands among the details."""
    return [detail.get("reason") for detail in objects(error.get("details"))]


def _raw(hints: Mapping[str, Any]) -> str:
    """What the provider behind a gateway said, where the gateway passes it on."""
    raw = hints.get("raw")
    return raw[:SAID] if isinstance(raw, str) else ""


def _refused_field(error: Mapping[str, Any], message: str, param: str) -> str:
    field = refused_cap_field(message)
    if not field and _word(error.get("code")) in ("unsupported_parameter", "unknown_parameter"):
        field = param if param in CAP_FIELDS else ""
    return field if field in CAP_FIELDS else ""


def _retryable(kind: FailureKind, wait: float | None, headers: Mapping[str, str]) -> bool:
    asked = headers.get("x-should-retry", "").strip().lower()
    if asked in ("true", "false"):
        return asked == "true"
    # A provider that says when to come back after a payment error expects us to.
    return kind in RETRYABLE or (kind == "billing" and wait is not None)


def _status_in(error: Mapping[str, Any]) -> int | None:
    for key in ("status", "code", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and _STATUS.fullmatch(value):
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return None


def _request_id(headers: Mapping[str, str]) -> str:
    for name in ("x-request-id", "request-id", "x-generation-id", "x-amzn-requestid", "cf-ray"):
        if headers.get(name):
            return headers[name]
    return ""


def _first_text(error: Mapping[str, Any], *keys: str) -> str:
    for key in keys:
        value = error.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, (list, dict)) and value:
            return msgspec.json.encode(value).decode()[:SAID]
    return ""


def _word(value: Any) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _plain_words(kind: FailureKind, status: int | None) -> str:
    told = f"status {status}" if status else "an error"
    return f"the provider answered with {told} and no message ({kind.replace('_', ' ')})"
