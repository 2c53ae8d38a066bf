"""What a client is told of a question to a person: facts for programs, and one line that a plain client shows."""

from typing import Any

from turnbuckle.server.dialects.tool_lines import Label
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.redaction import without_credentials


def asked(run: RunId, fact: ApprovalAsked, label: Label = short_argument) -> dict[str, Any]:
    """The question, and where it is answered."""
    return {
        "id": fact.approval,
        "status": "asked",
        "kind": fact.kind,
        "tool": fact.name,
        "label": without_credentials(shortened(fact.question)) or label(fact.arguments),
        "expires": fact.expires,
        "answer": f"POST /v1/runs/{run}/approvals/{fact.approval}",
    }


def answered(fact: ApprovalAnswered) -> dict[str, Any]:
    """The one answer."""
    return {"id": fact.approval, "status": fact.verdict}


def words(run: RunId, fact: ApprovalAsked, label: Label = short_argument) -> str:
    """Why nothing happens at this moment, and what to do about it."""
    told, named = asked(run, fact, label), label(fact.arguments)
    what = f"{fact.name}{f': {named}' if named else ''}"
    if fact.kind == "question":
        line = f"Waiting for an answer: {told['label']}"
    elif fact.question:
        line = f"Waiting for consent. {what}: {told['label']}"
    else:
        line = f"Waiting for consent to run {what}"
    return f"{line} ({told['answer']})"
