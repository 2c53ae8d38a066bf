"""What must be true of a run that asks people, whatever broke on its way: judged from its facts alone."""

from collections import Counter
from collections.abc import Callable, Iterator

from turnbuckle.testing.world.run_world import Story
from turnbuckle.turn.consent import rule_for
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    ModelAsked,
    RunClaimed,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolStarted,
)


def _one_answer_each(story: Story) -> Iterator[str]:
    asked = Counter(fact.approval for fact in story.facts if isinstance(fact, ApprovalAsked))
    answered = Counter(fact.approval for fact in story.facts if isinstance(fact, ApprovalAnswered))
    yield from (f"{name} was asked {count} times" for name, count in asked.items() if count > 1)
    yield from (f"{name} has {count} answers" for name, count in answered.items() if count > 1)
    yield from (f"{name} was answered and never asked" for name in answered.keys() - asked.keys())
    yield from (f"{name} was never answered" for name in asked.keys() - answered.keys())


def _no_start_without_consent(story: Story) -> Iterator[str]:
    """A consent stands for one call of one reply, with these arguments, and for one run of it."""
    asked: dict[str, ApprovalAsked] = {}
    verdicts: dict[str, str] = {}
    doubts = doubts_of(story)
    for fact in story.facts:
        match fact:
            case ModelAsked():
                asked.clear()
            case ApprovalAsked() if fact.approval not in doubts:
                asked[fact.call_id] = fact
            case ApprovalAnswered():
                verdicts[fact.approval] = fact.verdict
            case ToolStarted():
                about = asked.get(fact.call_id)
                if about is None:
                    rule = _rule(story, fact)
                    if rule != "allow":
                        yield f"{fact.name} {fact.call_id} started, and the rule is {rule}"
                elif verdicts.get(about.approval) != "allowed":
                    yield f"{fact.call_id} started and was {verdicts.get(about.approval, 'not yet answered')}"
                elif (about.name, about.arguments) != (fact.name, fact.arguments):
                    yield f"{fact.call_id} started with other arguments than were allowed"
            case _:
                pass


def _rule(story: Story, started: ToolStarted) -> str:
    facts = story.policy.tool(started.name)
    if facts.asks:
        return "ask"
    return rule_for(
        story.policy.consent, started.name, started.arguments, facts.subject, is_command=facts.is_command
    )


def _told_truly(story: Story) -> Iterator[str]:
    """No answer is told as no answer, a no as a no, and only an answer as one."""
    about: dict[str, str] = {}
    verdicts: dict[str, ApprovalAnswered] = {}
    doubts = doubts_of(story)
    for fact in story.facts:
        match fact:
            case ModelAsked():
                about.clear()
            case ApprovalAsked() if fact.approval not in doubts:
                about[fact.call_id] = fact.approval
            case ApprovalAnswered():
                verdicts[fact.approval] = fact
            case ToolFinished() if fact.call_id in about:
                answer = verdicts.get(about[fact.call_id])
                told, status = fact.outcome.text, fact.outcome.status
                if answer is not None and status == "not_started" and story.turn.stopping:
                    continue  # it was stopped before it was told
                match answer.verdict if answer is not None else "open":
                    case "open":
                        yield f"{fact.call_id} ended before anybody answered"
                    case "expired" if status == "finished" or "in time" not in told:
                        yield f"{fact.call_id} expired and is told as {status}: {told}"
                    case "denied" if status not in ("denied", "failed"):
                        yield f"{fact.call_id} was denied and is told as {status}"
                    case "withdrawn" if status == "finished":
                        yield f"{fact.call_id} was withdrawn and is told as finished"
                    case "answered" if answer is not None and answer.text not in told:
                        yield f"{fact.call_id} was answered, and the answer is not in its result"
                    case _:
                        pass
            case _:
                pass


def doubts_of(story: Story) -> dict[str, ApprovalAsked]:
    """The questions about a call that was under way when its process was gone."""
    under_way: set[str] = set()
    found: dict[str, ApprovalAsked] = {}
    for fact in story.facts:
        match fact:
            case ToolStarted():
                under_way.add(fact.call_id)
            case ToolFinished():
                under_way.discard(fact.call_id)
            case ApprovalAsked() if fact.call_id in under_way:
                found[fact.approval] = fact
            case _:
                pass
    return found


def _asked_before_going_on(story: Story) -> Iterator[str]:
    """A call that may have stopped the server is asked about, once, and never run again. Only a yes lets the
    run go on, and nobody is asked about any other call."""
    doubts = doubts_of(story)
    verdicts = {fact.approval: fact.verdict for fact in story.facts if isinstance(fact, ApprovalAnswered)}
    gave_up = "without any progress" in story.outcome.why
    suspects: set[str] = set()
    orphans: set[str] = set()
    about: dict[str, str] = {}
    stopping = False
    for fact in story.facts:
        match fact:
            case ModelAsked():
                about.clear()
            case ToolStarted():
                if fact.call_id in about:
                    yield f"{fact.call_id} was run again, and may have stopped the server"
                if _may_stop(story, fact):
                    suspects.add(fact.call_id)
            case RunClaimed():
                orphans |= suspects
            case ApprovalAsked() if fact.approval in doubts:
                about[fact.call_id] = fact.approval
                if fact.call_id not in orphans:
                    yield f"somebody was asked about {fact.call_id}, which cannot have stopped the server"
            case StopAsked():
                stopping = True
            case ToolFinished():
                if fact.call_id in orphans and not (stopping or gave_up or not story.policy.attended):
                    answer = verdicts.get(about.get(fact.call_id, ""), "never asked about")
                    if answer != "allowed":
                        yield f"the run went on behind {fact.call_id}, which was {answer}"
                suspects.discard(fact.call_id)
                orphans.discard(fact.call_id)
            case _:
                pass
    if (
        any(verdicts.get(name) in ("denied", "expired") for name in doubts)
        and story.outcome.kind != "cancelled"
    ):
        yield f"nobody let the run go on, and it ended as {story.outcome.kind}"


def _may_stop(story: Story, started: ToolStarted) -> bool:
    facts = story.policy.tool(started.name)
    return facts.is_command and "kill" in str(started.arguments.get(facts.subject, "")).split()


def _left_in_good_order(story: Story) -> Iterator[str]:
    """Behind the mark of a process that let go comes the next process, and nothing else."""
    for place, fact in enumerate(story.facts):
        if isinstance(fact, RunLeft) and not isinstance(story.facts[place + 1], RunClaimed):
            yield (
                f"{type(story.facts[place + 1]).__name__} right behind the mark of a process that had let go"
            )


Rule = Callable[[Story], Iterator[str]]
CONSENT_RULES: tuple[Rule, ...] = (
    _one_answer_each,
    _no_start_without_consent,
    _told_truly,
    _asked_before_going_on,
    _left_in_good_order,
)
