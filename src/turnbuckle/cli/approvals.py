"""A question to the person at the terminal, without holding anything else up."""

import asyncio
import os
import sys
import termios
from collections.abc import Awaitable, Callable
from typing import Any, TextIO

import msgspec

from turnbuckle.cli.pieces import Break, Line, Piece, drawn
from turnbuckle.cli.screen import Screen
from turnbuckle.journal.port import Reader
from turnbuckle.journal.tail import tail
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.questions import question_lines, undrawn
from turnbuckle.narrate.told import QuestionAnswered, QuestionAsked
from turnbuckle.runtime.driver import PersonsAnswer
from turnbuckle.runtime.running import Running
from turnbuckle.service.runs import Decision
from turnbuckle.turn.facts import ApprovalAsked, RunEnded, decode
from turnbuckle.vocab.visible import visible_line

_LONGEST = 65_536


def ask_on_terminal(screen: Screen, source: TextIO | None = None) -> Callable[[str], Awaitable[str]] | None:
    """How to ask; None if nobody sits there."""
    typed = sys.stdin if source is None else source
    if not (typed.isatty() and screen.is_terminal):
        return None

    async def ask(question: str) -> str:
        # What was typed before does not answer this. What is typed from here on may: it is shown next.
        termios.tcflush(typed.fileno(), termios.TCIFLUSH)
        screen.show([Break(), Line(f"? {question}", "notice")])
        return await _one_line(typed.fileno())

    return ask


async def answer_all(
    journal: Reader,
    running: Running,
    ask: Callable[[str], Awaitable[str]],
    after: int,
    show: Callable[[list[Piece]], None],
) -> None:
    """Put every question of the run to the person at the terminal, one at a time, until the run has its end.
    What stands before `after` is history, in which a question may have its answer already. One that got its
    answer otherwise, or whose time is over, is put no more. `show` draws what it is about."""
    narration = Narration(running.run)
    waiting: dict[str, QuestionAsked] = {}
    putting: asyncio.Task[None] | None = None
    put = ""
    given: set[str] = set()  # a question is put once, also while its answer is not read yet
    try:
        async for items in tail(journal, running.run):
            for item in items:
                fact = decode(item.data)
                for told in narration.take(fact):
                    match told:
                        case QuestionAsked():
                            waiting[told.approval] = told
                        case QuestionAnswered(approval):
                            waiting.pop(approval, None)
                if isinstance(fact, RunEnded):
                    return
            if putting is not None and (put not in waiting or putting.done()):
                await _ended(putting)
                putting = None
            unasked = [approval for approval in waiting if approval not in given]
            if putting is None and unasked and items[-1].seq >= after:
                put = unasked[0]
                given.add(put)
                putting = asyncio.create_task(_put(running, waiting[put], ask, show))
    finally:
        if putting is not None:
            await _ended(putting)


async def _ended(putting: "asyncio.Task[None]") -> None:
    putting.cancel()
    await asyncio.wait({putting})
    if not putting.cancelled():
        putting.result()


async def _put(
    running: Running,
    asked: QuestionAsked,
    ask: Callable[[str], Awaitable[str]],
    show: Callable[[list[Piece]], None],
) -> None:
    if asked.kind == "question":
        await running.answer(asked.approval, "answered", "terminal", await ask(asked.question))
        return
    show([Break(), *drawn(question_lines(asked))])
    answer = await ask(f"{question_text(asked)} [{'y/a/N' if asked.always else 'y/N'}]")
    decision, words = read_answer(asked, answer.strip())
    verdict: PersonsAnswer = "allowed" if decision in ("allow", "allow_always") else "denied"
    always = decision == "allow_always"
    await running.answer(asked.approval, verdict, "terminal", words, always=always)


def question_text(asked: ApprovalAsked | QuestionAsked) -> str:
    """What a person is asked, with the arguments that are not drawn above it: the command is, and the text
    of a file is in its diff."""
    if asked.kind == "question":
        return asked.question
    name = asked.name if isinstance(asked, ApprovalAsked) else asked.tool
    shown = arguments_text(asked.arguments)
    if asked.question:
        return f"{name} {shown}: {asked.question}"
    left = undrawn(name, asked.arguments, asked.changes)
    if left == asked.arguments:
        return f"May {name} run with {shown}?"
    do = "run" if "command" not in left and "command" in asked.arguments else "do"
    return f"May {name} {do} this{f', with {arguments_text(left)}' if left else ''}?"


def arguments_text(arguments: dict[str, Any]) -> str:
    """All of the arguments: a yes is for all of them. What a terminal would not show, or would turn around,
    is spelled out."""
    return "".join(map(_printable, visible_line(msgspec.json.encode(arguments).decode())))


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape", "backslashreplace").decode()


async def _one_line(typed: int) -> str:
    """The next line of the terminal. Nothing is lost if nobody answers and the wait is given up."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not answered.done():
            answered.set_result(os.read(typed, _LONGEST).decode("utf-8", "replace").rstrip("\n"))

    loop.add_reader(typed, read)
    try:
        return await answered
    finally:
        loop.remove_reader(typed)


def read_answer(question: ApprovalAsked | QuestionAsked, text: str) -> tuple[Decision | None, str]:
    """What a line says to a question, and with which words; None if it is not an answer."""
    if question.kind == "question":
        return "answer", text
    word, _, rest = text.partition(" ")
    match word.lower().rstrip(",:;."):
        case "y" | "yes" if not rest:
            return "allow", ""
        case "a" | "always" if not rest and question.always:
            return "allow_always", ""
        case "n" | "no":
            return "deny", rest.strip()
        case _:
            return None, ""
