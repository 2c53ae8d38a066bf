"""The judge: which rules of a protocol a history breaks.

It knows nothing of how histories are repaired. Each rule is one small function over the messages as they are,
and says what the provider would refuse. Tests, the lab and the server ask it; so does repair, to report what
it may not touch.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from turnbuckle.reply.stand_in import takes_free_text
from turnbuckle.reply.thoughts import can_return, is_foreign, is_thought
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks

Rule = Literal[
    "misplaced_part",
    "empty_message",
    "blank_text",
    "bad_call_id",
    "repeated_call_id",
    "nameless_call",
    "bad_name",
    "bad_arguments",
    "unanswered_call",
    "stray_result",
    "refused_reasoning",
    "foreign_state",
    "loose_reasoning",
    "first_not_user",
    "user_after_tools",
    "assistant_last",
]
_FORBIDDEN: dict[str, tuple[type, ...]] = {
    "system": (CallPart, ResultPart, ReasoningPart, RefusalPart),
    "user": (CallPart, ResultPart, ReasoningPart, RefusalPart),
    "assistant": (ResultPart, ImagePart, FilePart),
}


class Violation(Struct, frozen=True):
    """One broken rule, and the message that breaks it."""

    rule: Rule
    index: int
    what: str


class _Case(Struct, frozen=True):
    messages: tuple[Message, ...]
    rules: HistoryRules
    model: str
    quirks: Quirks
    to_ask: bool
    tools: frozenset[str]


def violations(
    messages: tuple[Message, ...],
    rules: HistoryRules,
    *,
    model: str = "",
    quirks: Quirks | None = None,
    to_ask: bool = False,
    tools: frozenset[str] = frozenset(),
) -> tuple[Violation, ...]:
    """Every rule of this protocol that these messages break, in the order of the messages."""
    case = _Case(messages, rules, model, quirks or Quirks(), to_ask, tools)
    pairing = _pairing_anywhere if rules.results == "anywhere" else _pairing_behind
    checks = (_placing, _emptiness, _call_shape, pairing, _reasoning, _followers, _speakers)
    found = [violation for check in checks for violation in check(case)]
    return tuple(sorted(found, key=lambda violation: violation.index))


def _placing(case: _Case) -> Iterator[Violation]:
    for index, message in enumerate(case.messages):
        for part in message.parts:
            wrong = (
                not isinstance(part, ResultPart)
                if message.role == "tool"
                else isinstance(part, _FORBIDDEN[message.role])
            )
            if wrong:
                yield Violation("misplaced_part", index, f"{type(part).__name__} in a {message.role} message")


def _emptiness(case: _Case) -> Iterator[Violation]:
    for index, message in enumerate(case.messages):
        texts = [part.text for part in message.parts if isinstance(part, (TextPart, RefusalPart))]
        solid = [
            part
            for part in message.parts
            if not isinstance(part, (TextPart, RefusalPart)) and not is_thought(part)
        ]
        if not solid and not any(text.strip() for text in texts):
            yield Violation("empty_message", index, f"a {message.role} message says nothing")
        if case.rules.refuses_blank_text:
            inner = [
                piece for part in message.parts if isinstance(part, ResultPart) for piece in part.content
            ]
            texts += [piece.text for piece in inner if isinstance(piece, TextPart)]
            if any(not text.strip() for text in texts):
                yield Violation("blank_text", index, "a text of nothing but white space")


def _call_shape(case: _Case) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, call in _calls(case.messages):
        if not case.rules.takes_call_id(call.id, case.quirks):
            yield Violation("bad_call_id", index, f"the id {call.id!r}")
        elif call.id in seen:
            yield Violation("repeated_call_id", index, f"the id {call.id!r} again")
        seen.add(call.id)
        if not call.name.strip():
            yield Violation("nameless_call", index, f"the call {call.id!r} has no name")
        elif call.name not in case.tools and not case.rules.tool_names.takes(call.name):
            yield Violation("bad_name", index, f"the name of {call.id!r} is {call.name[:100]!r}")
        is_object = judge(call.arguments).status == "whole" and call.arguments.strip().startswith("{")
        if not is_object and not takes_free_text(call, case.rules):
            yield Violation("bad_arguments", index, f"the arguments of {call.id!r} are not a JSON object")


def _pairing_behind(case: _Case) -> Iterator[Violation]:
    """Directly behind a message with calls stand its results, all of them and no others. Where turns are
    joined, assistant messages behind each other are one."""
    messages = case.messages
    asked: list[tuple[int, CallPart]] = []
    results: list[tuple[int, ResultPart]] = []
    before = ""
    for index, message in enumerate(messages):
        goes_on = message.role == before == "assistant" and case.rules.joins_turns
        if message.role != "tool" and not goes_on:
            yield from _match(asked, results)
            asked, results = [], []
        # Calls and results in messages of any other role are misplaced: they ask and answer nothing.
        if message.role == "assistant":
            asked += [(index, part) for part in message.parts if isinstance(part, CallPart)]
        if message.role == "tool":
            results += [(index, part) for part in message.parts if isinstance(part, ResultPart)]
        before = message.role
    yield from _match(asked, results)


def _match(asked: list[tuple[int, CallPart]], results: list[tuple[int, ResultPart]]) -> Iterator[Violation]:
    wanted = Counter(call.id for _, call in asked)
    for index, result in results:
        if wanted[result.call_id] > 0:
            wanted[result.call_id] -= 1
        else:
            yield Violation("stray_result", index, f"a result of {result.call_id!r} that nothing waits for")
    for index, call in asked:
        if wanted[call.id] > 0:
            wanted[call.id] -= 1
            yield Violation("unanswered_call", index, f"the call {call.id!r} has no result behind it")


def _pairing_anywhere(case: _Case) -> Iterator[Violation]:
    """Each call has one result with its id, anywhere behind it."""
    waiting: dict[str, list[int]] = {}
    for index, message in enumerate(case.messages):
        for part in message.parts:
            if isinstance(part, CallPart) and message.role == "assistant":
                waiting.setdefault(part.id, []).append(index)
            elif isinstance(part, ResultPart) and message.role == "tool":
                if waiting.get(part.call_id):
                    waiting[part.call_id].pop(0)
                else:
                    yield Violation(
                        "stray_result", index, f"a result of {part.call_id!r} that nothing waits for"
                    )
    for call_id, indexes in waiting.items():
        for index in indexes:
            yield Violation("unanswered_call", index, f"the call {call_id!r} has no result")


def _reasoning(case: _Case) -> Iterator[Violation]:
    for index, message in enumerate(case.messages):
        for part in message.parts:
            if not can_return(part, case.rules, case.model, case.quirks):
                yield Violation("refused_reasoning", index, f"{type(part).__name__} that cannot go back")
                continue
            for piece in (part, *(part.content if isinstance(part, ResultPart) else ())):
                state = None if isinstance(piece, (ReasoningPart, RefusalPart)) else piece.state
                model = "" if isinstance(piece, OpaquePart) else case.model
                if state is not None and is_foreign(state, case.rules, model):
                    yield Violation("foreign_state", index, f"state of {state.protocol} {state.model}")
        if message.state is not None and is_foreign(message.state, case.rules, ""):
            yield Violation("foreign_state", index, f"state of {message.state.protocol}")


def _followers(case: _Case) -> Iterator[Violation]:
    """Reasoning leads to something in its own turn, unless it stands beside the text and nothing can follow
    it."""
    if not case.rules.reasoning_leads:
        return
    for index, message in enumerate(case.messages):
        goes_on = index + 1 < len(case.messages) and case.messages[index + 1].role == "assistant"
        if message.role == "assistant" and message.parts and is_thought(message.parts[-1]) and not goes_on:
            yield Violation("loose_reasoning", index, "reasoning that nothing follows")


def _speakers(case: _Case) -> Iterator[Violation]:
    spoken = [
        (index, message.role) for index, message in enumerate(case.messages) if message.role != "system"
    ]
    if case.rules.user_first and spoken and spoken[0][1] != "user":
        yield Violation("first_not_user", spoken[0][0], f"the first word is the {spoken[0][1]}'s")
    if case.to_ask and spoken and spoken[-1][1] == "assistant":
        yield Violation("assistant_last", spoken[-1][0], "the last word is the assistant's")
    if case.quirks.text_after_tools:
        return
    for index in range(1, len(case.messages)):
        if case.messages[index].role in ("user", "system") and case.messages[index - 1].role == "tool":
            yield Violation("user_after_tools", index, "directly behind results")


def _calls(messages: tuple[Message, ...]) -> Iterator[tuple[int, CallPart]]:
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, CallPart):
                yield index, part
