"""A question to the person at the terminal, without holding anything else up."""

import asyncio
import os
import sys
import termios
from collections.abc import Awaitable, Callable
from typing import Any, TextIO

import msgspec

from turnbuckle.cli.pieces import Break, Line
from turnbuckle.cli.screen import Screen
from turnbuckle.journal.port import Reader
from turnbuckle.journal.tail import tail
from turnbuckle.runtime.running import Running
from turnbuckle.service.runs import Decision
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, RunEnded, decode
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
    journal: Reader, running: Running, ask: Callable[[str], Awaitable[str]], after: int
) -> None:
    """Put every question of the run to the person at the terminal, one at a time, until the run has its end.
    What stands before `after` is history, in which a question may have its answer already."""
    waiting: dict[str, ApprovalAsked] = {}
    async for items in tail(journal, running.run):
        for item in items:
            match decode(item.data):
                case RunEnded():
                    return
                case ApprovalAsked() as asked:
                    waiting[asked.approval] = asked
                case ApprovalAnswered(_, approval):
                    waiting.pop(approval, None)
        while waiting and items[-1].seq >= after:
            first = next(iter(waiting))
            await _put(running, waiting.pop(first), ask)


async def _put(running: Running, asked: ApprovalAsked, ask: Callable[[str], Awaitable[str]]) -> None:
    if asked.kind == "question":
        await running.answer(asked.approval, "answered", "terminal", await ask(asked.question))
        return
    answer = await ask(f"{question_text(asked)} [y/N]")
    says_yes = answer.strip().lower() in ("y", "yes")
    await running.answer(asked.approval, "allowed" if says_yes else "denied", "terminal")


def question_text(asked: ApprovalAsked) -> str:
    """What a person is asked, with the arguments that a yes would be for."""
    if asked.kind == "question":
        return asked.question
    shown = arguments_text(asked.arguments)
    return (
        f"{asked.name} {shown}: {asked.question}" if asked.question else f"May {asked.name} run with {shown}?"
    )


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


def read_answer(question: ApprovalAsked, text: str) -> tuple[Decision | None, str]:
    """What a line says to a question, and with which words; None if it is no answer."""
    if question.kind == "question":
        return "answer", text
    word, _, rest = text.partition(" ")
    match word.lower().rstrip(",:;."):
        case "y" | "yes" if not rest:
            return "allow", ""
        case "n" | "no":
            return "deny", rest.strip()
        case _:
            return None, ""
