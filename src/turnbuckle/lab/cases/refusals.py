"""Requests that a provider refuses as they are, and would take if they were said otherwise."""

import re
from collections.abc import Iterable
from typing import Any

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Case, Finish, LabRequest, Say, Script, ScriptItem, Status
from turnbuckle.wire.registry import PROTOCOLS

AFFORDABLE = 1_234
_CAPS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_WORKS: Script = (Say(ANSWER), Finish())
_CALLS: Script = (Call("get_weather", {"city": "Oslo"}), Finish())
_INVENTS: Script = (Call("functions.get weather", {"city": "Oslo"}), Finish())
_UNREADABLE = Status(400, "Failed to call a function. See 'failed_generation'.", "tool_use_failed")
_POOR = Status(402, f"This needs more credits, or fewer max_tokens. You can only afford {AFFORDABLE}.")
_SIGNED = Status(
    400, "messages.1.content.0: Invalid `signature` in `thinking` block", "invalid_request_error"
)
_MISNAMED = Status(400, "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern.")
_OLD_FIELD = Status(
    400, "Unsupported parameter: 'max_tokens' is not supported with this model.", "unsupported_parameter"
)
_GATEWAY = Status(424, "the model behind this gateway failed")


def _can_pay_for_little(request: LabRequest) -> Iterable[ScriptItem]:
    body = {**request.body, **(request.body.get("generationConfig") or {})}
    asked = next((body[name] for name in _CAPS if body.get(name) is not None), None)
    return (_POOR,) if not isinstance(asked, int) or asked > AFFORDABLE else _WORKS


def _strict_about_signatures(request: LabRequest) -> Iterable[ScriptItem]:
    if results_brought(request):
        return (_SIGNED,)
    return _WORKS if request.number > 1 else _CALLS


def _strict_about_names(request: LabRequest) -> Iterable[ScriptItem]:
    history = {name: value for name, value in request.body.items() if name in ("messages", "input")}
    if any(not _NAME.fullmatch(name) for name in _called(history)):
        return (_MISNAMED,)
    return _WORKS if results_brought(request) else _INVENTS


def _called(value: Any) -> Iterable[str]:
    """The names of all calls in a history, in whatever protocol."""
    if isinstance(value, list):
        for one in value:
            yield from _called(one)
    elif isinstance(value, dict):
        function = value.get("function")
        if isinstance(function, dict):
            yield str(function.get("name"))
        elif value.get("type") in ("function_call", "tool_use"):
            yield str(value.get("name"))
        for one in value.values():
            yield from _called(one)


def _strict_about_the_cap(request: LabRequest) -> Iterable[ScriptItem]:
    has_two_names = "output_cap_field" in PROTOCOLS[request.protocol].quirks
    return (_OLD_FIELD,) if has_two_names and "max_tokens" in request.body else _WORKS


REFUSALS: tuple[Case, ...] = (
    Case(
        "call-unreadable-once",
        "400: a call its host could not read; then works",
        ((_UNREADABLE,), _WORKS),
        again=True,
    ),
    Case("gateway-failed-once", "424 from a gateway, then works", ((_GATEWAY,), _WORKS), again=True),
    Case("can-only-afford", f"402 unless the output cap is at most {AFFORDABLE}", ((_can_pay_for_little,),)),
    Case(
        "signature-refused", "calls once; then 400 while the history has it", ((_strict_about_signatures,),)
    ),
    Case("tool-name-refused", "invents a tool; then 400 while its name is there", ((_strict_about_names,),)),
    Case("cap-field-refused", "chat: 400 while the output cap is max_tokens", ((_strict_about_the_cap,),)),
)
