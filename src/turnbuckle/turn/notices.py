"""What the user is told of a break: one quiet line, or nothing."""

import re

from turnbuckle.turn.facts import Decision, Fallback, FinishDraft, GiveUp, Reask, Retry
from turnbuckle.turn.recover import Broken, told_tool


def notice(choice: Decision, broken: Broken, length: int = 0) -> str:
    """One quiet line for the user; empty where nothing that was shown is touched. `length` is what a draft
    holds."""
    tool = told_tool(broken)
    where = f" in {tool}" if tool else ""
    what = _what_broke(broken)
    match choice:
        case Retry():
            return ""
        case Reask(change):
            return f"{what}: {_CHANGES[change]}" if change in _CHANGES else ""
        case FinishDraft() | Fallback(_, FinishDraft()):
            return f"{what}{where}, {length:,} characters kept, finishing the draft"
        case Fallback(route):
            return f"{what}{where}, going on with {route}" if broken.said_text or broken.tool else ""
        case GiveUp("cancelled", _):
            return ""  # the wish to stop was told, and so is the end
        case GiveUp(_, why):
            told_alone = broken.verdict == "refused" or why == what or _is_our_own(broken)
            return why if told_alone else f"{what}{where}: {why}"
        case _:
            return f"{what}{where}, nothing ran, asking for smaller calls" if broken.tool else ""


_CHANGES = {
    "more_room": "retrying with more room",
    "less_effort": "retrying with less effort",
    "say_something": "retrying",
    "valid_calls": "asking for a valid call",
    "less_room": "retrying with a smaller output limit",
    "unsummarised": "going on without a summary",
    "retold": "retrying with the history in plain words",
    "words_only": "retrying without parts that only the provider knows",
}


def _is_our_own(broken: Broken) -> bool:
    """Whether we ended the stream ourselves, so that it did not break."""
    return broken.failure is not None and broken.failure.kind in ("cancelled", "repeated", "budget")


_WAITED = re.compile(r"\b(?:for|after|stalled) (\d[\d.]* s)\b")
"""The time in the words of a clock that fired; its limit and its source are for the record, not for a quiet
line."""


def _what_broke(broken: Broken) -> str:
    failure = broken.failure
    if failure is not None:
        if failure.kind == "stalled":
            waited = _WAITED.search(failure.message)
            return f"stream stalled {waited[1]}" if waited is not None else "stream stalled"
        return f"stream broke ({failure.kind.replace('_', ' ')})"
    words = {
        "cut_by_length": "the output limit was reached",
        "thinking_exhausted": "the output limit was used up by thinking",
        "empty": "nothing arrived",
        "malformed": "the call could not be read",
    }
    return words.get(broken.verdict, broken.verdict.replace("_", " "))
