"""What stands in for the parts of a call that never arrived: arguments that are legal, results that are
honest.

The texts are constants, so that a stand-in can be told from a tool's own words: a real result that turns up
later takes the stand-in's place as long as nobody has sent it.
"""

import msgspec

from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import CallPart, ProviderState, ResultPart, TextPart

NO_RESULT = "No result was recorded for this call. It is not known whether it ran."
CUT_CALL = "The reply with this call was cut as it arrived. The call did not run."
BAD_ARGUMENTS = "The arguments of this call are not a JSON object, and no result was recorded for it."

KEPT_RAW = 4096
"""How many characters of unusable arguments are shown to the model again."""

_TEXTS = frozenset({NO_RESULT, CUT_CALL, BAD_ARGUMENTS})


def stand_in(call_id: str, text: str) -> ResultPart:
    """A failed result in our own words, one of the constants above."""
    return ResultPart(call_id, (TextPart(text),), failed=True)


def is_stand_in(result: ResultPart) -> bool:
    """Whether this result was written by us because there was no other."""
    if not result.failed or len(result.content) != 1:
        return False
    only = result.content[0]
    return isinstance(only, TextPart) and only.text in _TEXTS


def legal_arguments(raw: str) -> str:
    """The same text if it is a JSON object, `{}` if it is blank, else an object that holds what was
    received."""
    judged = judge(raw)
    if judged.status == "whole":
        return raw if raw.strip(" \t\r\n") not in ("", "null") else "{}"
    key = "_truncated" if judged.status == "cut" else "_malformed"
    # A lone surrogate cannot be sent in UTF-8, whatever the protocol.
    shown: dict[str, str | int] = {key: raw[:KEPT_RAW].encode("utf-8", "replace").decode("utf-8")}
    if len(raw) > KEPT_RAW:
        shown["_characters"] = len(raw)
    return msgspec.json.encode(shown).decode("utf-8")


def takes_free_text(call: CallPart, rules: HistoryRules) -> bool:
    """Whether this call's input is text of any kind, and goes back to where that is known."""
    state = call.state
    return (
        state is not None
        and state.protocol == rules.protocol
        and state.data.get("type") in rules.free_text_calls
    )


def state_once_changed(call: CallPart, rules: HistoryRules) -> ProviderState | None:
    """What a call that we changed may keep of its state. Where items are known by their ids a changed call
    must not pretend to be the one that was sent; only its kind stays."""
    if not rules.items_have_identity or call.state is None:
        return call.state
    if not takes_free_text(call, rules):
        return None
    return ProviderState(call.state.protocol, call.state.model, {"type": call.state.data["type"]})
