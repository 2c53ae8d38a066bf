"""Any history becomes a legal one for a protocol.

Theory of operation. Repair is a fold of named passes in a fixed order; each is pure, idempotent, and reports
what it did. What an earlier request already sent (the first `sealed` messages) is never touched, because
providers bind reasoning and caches to the exact prefix; so a hole in it that only an edit could close stays,
and is listed in `left`. Nothing of the user is ever dropped, and no result goes without a note. The judge of
the outcome, `reply/rules.py`, shares no logic with the passes.

Order matters in four places. Parts find their messages before anything is paired. What belongs to nothing is
dropped before ids are given: a new id must not be taken for one that a result has, nor depend on a call that
goes. Turns are joined before results are placed, and again after, since a late result may have stood between
two messages of one turn. Notes that only keep the order legal come last.

No pass looks at what was said later than the next turn of the model. So a history that grows is sent growing:
each request begins with the one before. And so a long history costs what is new in it: of what is sealed the
passes see the last turn alone, if whoever asks knows that it was made legal (`reply/repair/growing.py`).
"""

from msgspec import Struct

from turnbuckle.reply.repair.answers import answers, orphan_results
from turnbuckle.reply.repair.calls import (
    half_calls,
    legal_call_arguments,
    legal_names,
    nameless_calls,
    unique_ids,
)
from turnbuckle.reply.repair.history import History, Pass, RepairNote, Terms
from turnbuckle.reply.repair.order import ends_open, first_is_user, joined_turns, no_user_after_tools
from turnbuckle.reply.repair.parts import empties, foreign_state, loose_thoughts, parts_in_place
from turnbuckle.reply.rules import Violation, violations
from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks

__all__ = ["PASSES", "RepairNote", "Repaired", "repair"]

PASSES: tuple[Pass, ...] = (
    parts_in_place,
    foreign_state,
    nameless_calls,
    half_calls,
    orphan_results,
    unique_ids,
    legal_names,
    empties,
    joined_turns,
    loose_thoughts,
    legal_call_arguments,
    answers,
    joined_turns,
    first_is_user,
    no_user_after_tools,
    ends_open,
)
_ABOUT_CALLS = frozenset(
    (nameless_calls, half_calls, orphan_results, unique_ids, legal_names, legal_call_arguments, answers)
)
_WITHOUT_CALLS = tuple(run for run in PASSES if run not in _ABOUT_CALLS)
"""All that can change a history in which nothing is called and nothing answered."""


class Repaired(Struct, frozen=True):
    """A repaired history, what was done to it, and what is still illegal because it was sent before."""

    messages: History
    notes: tuple[RepairNote, ...]
    terms: Terms

    @property
    def left(self) -> tuple[Violation, ...]:
        """Looked for when somebody asks: a long history takes a while."""
        terms = self.terms
        return violations(
            self.messages,
            terms.rules,
            model=terms.model,
            quirks=terms.quirks,
            to_ask=terms.to_ask,
            tools=terms.tools,
        )


def repair(
    messages: History,
    rules: HistoryRules,
    *,
    model: str = "",
    sealed: int = 0,
    quirks: Quirks | None = None,
    to_ask: bool = False,
    tools: frozenset[str] = frozenset(),
    settled: int = 0,
    used: frozenset[str] = frozenset(),
) -> Repaired:
    """Make a history legal by these rules, changing nothing before message number `sealed`.

    With `model`, state made by another model is foreign too. With `to_ask`, the history will not end with the
    assistant's word. The names of `tools`, which are offered with it, stay as they are. The first `settled`
    messages are sealed and legal, and are not looked at; `used` are the ids of the calls in them."""
    if not settled and _is_plain(messages):
        return Repaired(messages, (), Terms(rules, model, 0, quirks or Quirks(), to_ask, tools, used))
    quirks = quirks or Quirks()
    sealed = max(0, min(sealed, len(messages)))
    head, rest = messages[:settled], messages[settled:]
    terms = Terms(rules, model, sealed - settled, quirks, to_ask, tools, used)
    notes: list[RepairNote] = []
    for run in PASSES if any(map(_is_about_calls, rest)) else _WITHOUT_CALLS:
        rest, did = run(rest, terms)
        notes += [RepairNote(run.__name__, index + settled, what) for index, what in did]
    return Repaired((*head, *rest), tuple(notes), terms)


def _is_plain(messages: History) -> bool:
    """Whether no pass would find anything to do, whatever the rules are: user and assistant take turns with
    plain words, and the user has the last one."""
    turn = "user"
    for place, message in enumerate(messages):
        parts = message.parts
        if len(parts) != 1 or message.state is not None:
            return False
        part = parts[0]
        if type(part) is not TextPart or part.state is not None or not part.text or part.text.isspace():
            return False
        if message.role == turn:
            turn = "assistant" if turn == "user" else "user"
        elif place or message.role != "system":
            return False
    return turn == "assistant"


def _is_about_calls(message: Message) -> bool:
    return message.role == "tool" or any(isinstance(part, (CallPart, ResultPart)) for part in message.parts)
