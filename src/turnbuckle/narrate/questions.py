"""What a person is asked, made in one place for every surface: whose task it is, which rule asks, the
command as a command, the change of a file as a diff, and what a yes for good would write. Nothing is left
out: a yes is for all of it.
"""

from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.turn.consent import rule_text
from turnbuckle.turn.facts import ApprovalAsked
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.messages import Message, text_of


def title_of(messages: tuple[Message, ...]) -> str:
    """The task in one line."""
    said = (text_of(one.parts) for one in messages if one.role == "user" and not one.note)
    return shortened(next(said, ""))


def asked(run: str, fact: ApprovalAsked, card: int = 0, title: str = "") -> QuestionAsked:
    """A stored question as whoever answers it sees it."""
    command = fact.arguments.get("command")
    return QuestionAsked(
        run,
        fact.approval,
        fact.kind,
        fact.name,
        fact.arguments,
        fact.question,
        fact.expires,
        card,
        title,
        fact.why,
        command if isinstance(command, str) else "",
        fact.changes,
        tuple(rule_text(rule) for rule in fact.always),
    )
