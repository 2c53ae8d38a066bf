"""A question to the person at the terminal, without holding anything else up."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from turnbuckle.cli.screen import Screen
from turnbuckle.cli.story import Break, Line

_LONGEST = 65_536


def ask_on_terminal(screen: Screen) -> Callable[[str], Awaitable[str]] | None:
    """How to ask; None if nobody sits there."""
    if not (sys.stdin.isatty() and screen.live):
        return None

    async def ask(question: str) -> str:
        screen.show([Break(), Line(f"? {question}", "notice")])
        return await _one_line()

    return ask


async def _one_line() -> str:
    """The next line of the terminal. Nothing is lost if nobody answers and the wait is given up."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not answered.done():
            answered.set_result(os.read(sys.stdin.fileno(), _LONGEST).decode("utf-8", "replace").rstrip("\n"))

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await answered
    finally:
        loop.remove_reader(sys.stdin.fileno())
