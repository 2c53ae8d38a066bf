"""Questions of runs, put to a function of the program: one at a time, and taken back when somebody else
answers.

The function gets the stored question. For an approval it gives `True` or `False`, or `Allow` or `Deny`, which
can say more; for a question a text; and None if it has no answer: then the question stays open for others
until its time is over. A plain function works in a thread of its own, so it may wait for a person. One that
fails has not given consent.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from turnbuckle.journal.port import Reader
from turnbuckle.journal.tail import tail
from turnbuckle.narrate.questions import asked
from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.runtime.running import Running
from turnbuckle.tools.threads import in_thread
from turnbuckle.turn import facts


class Allow(Struct, frozen=True):
    """Yes. `always`: the rules that the question names in `always` are kept, and such calls are not asked
    about again. If it names none, no rule can allow it, and this is a yes to the one call."""

    always: bool = False


class Deny(Struct, frozen=True):
    """No, with words for the model."""

    why: str = ""


Given = bool | str | Allow | Deny
Answer = Given | None
Ask = Callable[[QuestionAsked], Answer | Awaitable[Answer]]
BY = "program"

log = logging.getLogger("turnbuckle.agent")


class Asker:
    """Answers what runs ask, by the program's function."""

    def __init__(self, journal: Reader, ask: Ask) -> None:
        self._journal = journal
        self._ask = ask
        self._one_at_a_time = asyncio.Lock()
        self._following: set[asyncio.Task[None]] = set()

    def attend(self, running: Running) -> None:
        """Answer whatever this run asks, also what it asked before it was taken up here."""
        task = asyncio.create_task(self._attend(running), name=f"questions of {running.run}")
        self._following.add(task)
        task.add_done_callback(self._following.discard)

        def over(_: BaseException | None) -> None:
            task.cancel()

        running.when_done(over)

    async def close(self) -> None:
        tasks = set(self._following)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _attend(self, running: Running) -> None:
        waiting: dict[str, facts.ApprovalAsked] = {}
        putting: dict[str, asyncio.Task[None]] = {}
        try:
            async for items in tail(self._journal, running.run):
                for item in items:
                    match facts.decode(item.data):
                        case facts.ApprovalAsked() as fact:
                            waiting[fact.approval] = fact
                        case facts.ApprovalAnswered(_, approval):
                            waiting.pop(approval, None)
                            if approval in putting:
                                putting.pop(approval).cancel()
                        case facts.RunEnded():
                            return
                for approval in [one for one in waiting if one not in putting]:
                    putting[approval] = asyncio.create_task(self._put(running, waiting[approval]))
        finally:
            for task in putting.values():
                task.cancel()

    async def _put(self, running: Running, fact: facts.ApprovalAsked) -> None:
        async with self._one_at_a_time:
            answer = await self._answer(asked(running.run, fact))
        if answer is not None:
            await give(running, fact.kind == "question", fact.approval, answer, BY)

    async def _answer(self, question: QuestionAsked) -> Answer:
        try:
            if inspect.iscoroutinefunction(self._ask):
                answer: Answer = await self._ask(question)
                return answer
            given = await in_thread(lambda: self._ask(question), "turnbuckle-ask")
            return await given if inspect.isawaitable(given) else given
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # these two would end the loop
            log.error("the function that answers questions failed, which is not consent", exc_info=error)
            return False


async def give(running: Running, is_question: bool, approval: str, answer: Given, by: str) -> bool:
    """Store an answer. False if nobody waits for it any more. Raises ValueError for one that does not fit."""
    match answer:
        case True | Allow() if is_question:
            raise ValueError("this is a question: answer it with a text, or with False not to answer")
        case str() if not is_question:
            raise ValueError("this asks for consent: answer it with True, False, Allow(…) or Deny(…)")
        case str(text):
            return await running.answer(approval, "answered", by, text)
        case Deny(why):
            return await running.answer(approval, "denied", by, why)
        case Allow(always):
            return await running.answer(approval, "allowed", by, always=always)
        case _:
            return await running.answer(approval, "allowed" if answer else "denied", by)
