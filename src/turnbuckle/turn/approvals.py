"""Calls that wait for a person. The question is stored, bound to the exact arguments, and so is the one
answer to it: any client can see and give it, also after a restart. No answer in time is not consent, and is
told as what it is."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.turn.commands import AskPerson, AwaitAnswer, Command, Record, RunTool
from turnbuckle.turn.consent import (
    ConsentRule,
    Rule,
    fitting,
    rule_text,
    stricter,
    subject_of,
    unruled,
)
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, ApprovalKind, ToolFinished
from turnbuckle.turn.policy import Policy, ToolFacts
from turnbuckle.turn.state import Consent, PendingCall, Turn
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus

NOBODY_CONSENTS = "This needs the approval of a person, and nobody can be asked."
DECIDE = "Decide yourself, and say what you assumed."
NOBODY_ANSWERS = f"There is nobody to ask in this run. {DECIDE}"
CHANGED = "it was always allowed, but its description or its arguments have changed since"
LONGEST_PATTERN = 2_000
"""Nobody reads a rule that is longer."""
_QUESTION = "question"


def gate(turn: Turn, call: PendingCall, wanted: RunTool, policy: Policy) -> Command:
    """What stands between a sound call and its start."""
    facts = policy.tool(wanted.name)
    if call.consent is not None:
        return _after_asking(turn, call.consent, wanted, policy)
    if facts.asks:
        return (
            _ask(turn, call, wanted, policy, "question")
            if policy.attended
            else _no(turn, wanted, "failed", NOBODY_ANSWERS)
        )
    judged = judge(policy, wanted.name, wanted.arguments, turn.rules)
    match judged.rule:
        case "allow":
            return wanted
        case "deny":
            return _no(turn, wanted, "denied", "The settings do not allow this.")
        case "ask" if not policy.attended:
            return _no(turn, wanted, "denied", NOBODY_CONSENTS)
        case "ask":
            return _ask(turn, call, wanted, policy, "approval", judged.why)


class Judgement(Struct, frozen=True):
    """What the rules say of a call, and which of them does."""

    rule: Rule
    why: str = ""


def judge(
    policy: Policy, name: str, arguments: dict[str, Any], more: tuple[ConsentRule, ...] = ()
) -> Judgement:
    """What the rules say of a call, with `more` that people gave since. What it wants beyond its tool needs
    the rule of that name, too; without one, a person is asked."""
    facts = policy.tool(name)
    default = unruled(facts.kind, ask_first=policy.ask_first, versioned=policy.versioned)
    if stricter(facts.unruled, default[0]):
        default = (facts.unruled, "it is a tool of somebody else's server, and no rule covers it")
    judged = _judged(policy, name, arguments, facts, more, Judgement(*default))
    if not facts.widens or arguments.get(facts.widens) is not True:
        return judged
    unsaid = Judgement("ask", f"it wants more than it has: {facts.widens}")
    wider = _judged(policy, facts.widens, arguments, facts, more, unsaid)
    return wider if stricter(wider.rule, judged.rule) else judged


def _judged(
    policy: Policy,
    name: str,
    arguments: dict[str, Any],
    facts: ToolFacts,
    more: tuple[ConsentRule, ...],
    otherwise: Judgement,
) -> Judgement:
    found = _fitting(policy.consent, name, arguments, facts)
    given = (*policy.allowed, *more)
    if found is None or found.rule != "deny":  # what the settings deny, no yes for good allows
        stand = tuple(rule for rule in given if _stands(policy, name, rule))
        found = _fitting((*policy.consent, *stand), name, arguments, facts)
    if found is not None:
        return Judgement(found.rule, f"the rule {rule_text(found)}")
    once = _fitting(given, name, arguments, facts)
    return otherwise if once is None else Judgement(otherwise.rule, CHANGED)


def _stands(policy: Policy, name: str, rule: ConsentRule) -> bool:
    """Whether a yes for good still counts. One for a tool of somebody else's server counts for the tool that
    the person saw: if it describes itself otherwise now, it may be another one."""
    return not name.startswith(policy.foreign) or (bool(rule.mark) and rule.mark == policy.marks.get(name))


def _fitting(
    rules: tuple[ConsentRule, ...], name: str, arguments: dict[str, Any], facts: ToolFacts
) -> ConsentRule | None:
    return fitting(rules, name, arguments, facts.subject, is_command=facts.is_command)


def rules_for_good(
    policy: Policy, name: str, arguments: dict[str, Any], more: tuple[ConsentRule, ...] = ()
) -> tuple[ConsentRule, ...]:
    """The narrowest rules that would let this very call start without a question; none, if no rule can: a
    line with more than one command, a call that does not say what it works on, or one that is asked about
    whatever else it says."""
    facts = policy.tool(name)
    wider = facts.widens if facts.widens and arguments.get(facts.widens) is True else ""
    value = arguments.get(facts.subject)
    text = (
        subject_of(value, facts.subject, is_command=facts.is_command).text if isinstance(value, str) else ""
    )
    patterns = [_literal(text)] if text and len(text) <= LONGEST_PATTERN else []
    if facts.kind == "write" and _fitting(policy.consent, name, arguments, facts) is None:
        patterns.insert(0, "")  # whoever allows one change for good means the tool, if no rule was about it
    elif not facts.subject:
        patterns = [""]
    for pattern in patterns:
        mark = policy.marks.get(name, "")
        rules = tuple(ConsentRule(one, "allow", pattern, mark) for one in (name, wider) if one)
        if judge(policy, name, arguments, (*more, *rules)).rule == "allow":
            return rules
    return ()


def _literal(text: str) -> str:
    """A pattern that fits this text alone."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)


def _ask(
    turn: Turn, call: PendingCall, wanted: RunTool, policy: Policy, kind: ApprovalKind, why: str = ""
) -> AskPerson:
    place = next(index for index, other in enumerate(turn.calls) if other.id == call.id)
    expires = None if policy.answer_seconds is None else turn.now + policy.answer_seconds
    question = str(wanted.arguments.get(_QUESTION, "")) if kind == "question" else ""
    approval = f"a{turn.attempt}-{place}"
    always = rules_for_good(policy, wanted.name, wanted.arguments, turn.rules) if why else ()
    return AskPerson(
        ApprovalAsked(
            turn.now,
            approval,
            call.id,
            wanted.name,
            wanted.arguments,
            kind,
            question,
            expires,
            why=why,
            always=always,
        )
    )


def seen_files(turn: Turn, consent: Consent | None) -> tuple[str, ...] | None:
    """The marks of a file that a call may change after a person has seen it: as it was then, or as another
    call of this reply has left it. None: nobody was shown a file."""
    if consent is None or consent.seen is None:
        return None
    ours = (change.after for call in turn.calls if call.outcome for change in call.outcome.changes)
    return (consent.seen, *ours)


def _after_asking(turn: Turn, consent: Consent, wanted: RunTool, policy: Policy) -> Command:
    match consent.verdict:
        case None if not policy.attended:
            # It was asked while somebody was there. Nobody is now, and to wait for nobody would be to hang.
            return Record((ApprovalAnswered(turn.now, consent.id, "withdrawn"),))
        case None:
            return AwaitAnswer(consent.id, consent.expires)
        case "allowed" if (wanted.name, wanted.arguments) != (consent.name, consent.arguments):
            return _no(turn, wanted, "denied", "This is not the call that the user has allowed.")
        case "allowed":
            return replace(wanted, seen=seen_files(turn, consent))
        case "answered":
            text = consent.text if consent.text.strip() else "(the user gave an empty answer)"
            return _no(turn, wanted, "finished", text)
        case "denied" if consent.question:
            return _no(turn, wanted, "failed", f"The user did not want to answer. {consent.text or DECIDE}")
        case "denied":
            return _no(turn, wanted, "denied", f"The user said no. {consent.text}".rstrip())
        case "expired" if consent.question:
            return _no(turn, wanted, "failed", f"Nobody answered in time. {DECIDE}")
        case "expired":
            return _no(turn, wanted, "denied", "Nobody answered in time, so there is no consent.")
        case "withdrawn" if consent.question:
            return _no(turn, wanted, "failed", NOBODY_ANSWERS)
        case "withdrawn":
            return _no(turn, wanted, "denied", NOBODY_CONSENTS)


def _no(turn: Turn, wanted: RunTool, status: ToolStatus, text: str) -> Record:
    """The call has its outcome without being run."""
    return Record((ToolFinished(turn.now, wanted.call_id, wanted.name, ToolOutcome(status, text)),))


def open_in(turn: Turn) -> tuple[PendingCall, ...]:
    """The calls that wait for a person at this moment."""
    return tuple([call for call in turn.calls if is_waited_for(call)])


def is_waited_for(call: PendingCall) -> bool:
    """Whether nothing of this call is under way, since a person must answer first."""
    return call.outcome is None and call.consent is not None and call.consent.verdict is None


def question(turn: Turn, approval: str) -> Consent | None:
    """What a person was asked under this name, if an answer would still count: it has none yet, and nobody
    wants the run to stop."""
    asked = (
        call.consent for call in open_in(turn) if call.consent is not None and call.consent.id == approval
    )
    return None if turn.stopping else next(asked, None)


def withdrawn(turn: Turn, calls: list[PendingCall]) -> tuple[ApprovalAnswered, ...]:
    """Nobody needs to answer any more."""
    waiting = {call.id for call in open_in(turn)}
    return tuple(
        ApprovalAnswered(turn.now, call.consent.id, "withdrawn")
        for call in calls
        if call.id in waiting and call.consent is not None
    )


def asked(turn: Turn, fact: ApprovalAsked) -> Turn:
    """The question is stored. It stands for these arguments and no others: of `finish_call`, for what it
    finished."""
    seen = fact.changes[0].before if fact.changes else None
    consent = Consent(
        fact.approval,
        fact.name,
        fact.arguments,
        fact.kind == "question",
        expires=fact.expires,
        seen=seen,
        always=fact.always,
    )
    since = turn.tally.asked_since if open_in(turn) else fact.at
    calls = tuple(
        # Of a call that was started only one thing can be asked.
        replace(call, consent=replace(consent, doubt=call.started)) if call.id == fact.call_id else call
        for call in turn.calls
    )
    return replace(turn, calls=calls, tally=replace(turn.tally, asked_since=since))


def answered(turn: Turn, fact: ApprovalAnswered) -> Turn:
    """The first answer counts. Time in which several people are waited for is counted once, up to the last of
    them."""
    call = next(
        (one for one in open_in(turn) if one.consent is not None and one.consent.id == fact.approval), None
    )
    if call is None or call.consent is None:
        return turn
    settled = replace(call, consent=replace(call.consent, verdict=fact.verdict, text=fact.text))
    rules = (*turn.rules, *call.consent.always) if fact.always else turn.rules
    calls = tuple(settled if one is call else one for one in turn.calls)
    turn = replace(turn, calls=calls, rules=rules)
    waited = 0.0 if open_in(turn) else max(fact.at - turn.tally.asked_since, 0.0)
    return replace(
        turn, tally=replace(turn.tally, seconds_asked=turn.tally.seconds_asked + waited, recoveries=0)
    )
