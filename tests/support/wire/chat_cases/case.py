"""What a recorded Chat Completions body must fold to, as whole values."""

from pathlib import Path
from typing import Any, NamedTuple

from support.wire.transcript_files import FOLDER

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.answer import open_answer

TRANSCRIPTS: Path = FOLDER / "openai_chat"


class Case(NamedTuple):
    """One row. The defaults are the plain good end: `stop`, the end mark, a complete reply."""

    name: str
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    finish: str | None = "stop"
    usage: tuple[int, int] | None = None
    last: str = "ended by [DONE]"
    verdict: str = "complete"
    skipped: int = 0
    quirks: Quirks = Quirks()
    cap: int | None = None


def body(name: str) -> bytes:
    return (TRANSCRIPTS / name).read_bytes()


def read(data: bytes, quirks: Quirks = Quirks()) -> list[Event]:
    """All events of a body that arrives in one read and ends tidily."""
    decoder = open_answer("openai_chat", quirks=quirks)
    return decoder.feed(data) + decoder.close()


def reply_of(name: str, quirks: Quirks = Quirks()) -> Reply:
    return fold(read(body(name), quirks))


def found(case: Case) -> Case:
    """The same row, as our code reads that body."""
    reply = reply_of(case.name, case.quirks)
    usage = reply.usage
    return Case(
        name=case.name,
        text=reply.text,
        reasoning=reply.reasoning,
        refusal=reply.refusal,
        calls=tuple((call.id, call.name, call.arguments) for call in reply.calls),
        finish=reply.finish,
        usage=None if usage is None else (_number(usage.input), _number(usage.output)),
        last=last_word(reply),
        verdict=verdict(reply, cap=case.cap).kind,
        skipped=reply.skipped,
        quirks=case.quirks,
        cap=case.cap,
    )


def last_word(reply: Reply) -> str:
    match reply.last:
        case Ended(by):
            return f"ended by {by}"
        case Cut(failure):
            return f"cut: {failure.kind}{'' if failure.retryable else ', final'}"
    return "none"


def states(reply: Reply) -> list[dict[str, Any]]:
    """The provider state of all blocks that have some, in order."""
    return [state for block in reply.blocks if (state := getattr(block, "state", None))]


def _number(count: int | None) -> int:
    assert count is not None
    return count
