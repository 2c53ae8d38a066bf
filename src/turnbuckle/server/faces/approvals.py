"""What a client is told of a question to a person: facts for programs, and one line that a plain client
shows."""

from typing import Any

from turnbuckle.narrate.told import QuestionAnswered, QuestionAsked
from turnbuckle.turn.labels import short_argument, shortened
from turnbuckle.vocab.redaction import without_credentials


def asked(question: QuestionAsked) -> dict[str, Any]:
    """The question, and where it is answered."""
    return {
        "id": question.approval,
        "status": "asked",
        "kind": question.kind,
        "tool": question.tool,
        "label": without_credentials(shortened(question.question)) or short_argument(question.arguments),
        "expires": question.expires,
        "answer": f"POST /v1/runs/{question.run}/approvals/{question.approval}",
    }


def answered(answer: QuestionAnswered) -> dict[str, Any]:
    """The one answer."""
    return {"id": answer.approval, "status": answer.verdict}


def words(question: QuestionAsked) -> str:
    """Why nothing happens at this moment, and what to do about it."""
    shown, argument = asked(question), short_argument(question.arguments)
    what = f"{question.tool}{f': {argument}' if argument else ''}"
    if question.kind == "question":
        line = f"Waiting for an answer: {shown['label']}"
    elif question.question:
        line = f"Waiting for consent. {what}: {shown['label']}"
    else:
        line = f"Waiting for consent to run {what}"
    return f"{line} ({shown['answer']})"
