"""People who are asked. They learn of a question as any client does, by reading the journal, and answer it;
and since two clients may do so at the same moment, each answer is given twice, once with another word."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from turnbuckle.journal.port import Reader
from turnbuckle.runtime.driver import Driver, PersonsAnswer
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, RunEnded, decode


class Says(Struct, frozen=True):
    """What a person answers, and how many seconds that takes."""

    verdict: PersonsAnswer
    text: str = ""
    seconds: float = 0.0


Person = Callable[[ApprovalAsked], Says | None]
"""None: no answer."""


class Onlooker(Protocol):
    """Knows what happens while a person thinks; the world does."""

    def question_at(self) -> None: ...


def always(verdict: PersonsAnswer, text: str = "", seconds: float = 0.0) -> Person:
    """A person who has one answer to everything."""
    return lambda asked: Says(verdict, text, seconds)


async def attend(
    person: Person,
    journal: Reader,
    stream: str,
    driver: Driver,
    onlooker: Onlooker,
    pass_time: Callable[[float], None],
) -> None:
    """Answer whatever a run asks, until it has its end."""
    waiting: dict[str, ApprovalAsked] = {}
    after = 0
    while True:
        await journal.wait(stream, after)
        for item in await journal.read(stream, after):
            after = item.seq
            match decode(item.data):
                case ApprovalAsked() as asked:
                    waiting[asked.approval] = asked
                case ApprovalAnswered(_, approval):
                    waiting.pop(approval, None)
                case RunEnded():
                    return
                case _:
                    pass
        for asked in tuple(waiting.values()):
            said = person(asked)
            if said is not None:
                pass_time(said.seconds)
                onlooker.question_at()
                await _say(driver, asked, said)


async def _say(driver: Driver, asked: ApprovalAsked, said: Says) -> None:
    """False from both is not a mistake: the run may not yet know where it stands, or has been told to
    stop."""
    taken = await asyncio.gather(
        driver.answer(asked.approval, said.verdict, "somebody", said.text),
        driver.answer(asked.approval, "denied", "somebody else", "a moment too late"),
    )
    if taken[1]:
        raise AssertionError(f"the second answer to {asked.approval} was taken")
