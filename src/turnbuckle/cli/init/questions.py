"""Questions to whoever sets something up: plain lines, so that any terminal and any pipe will do."""

import getpass
import sys
from collections.abc import Sequence

from turnbuckle.cli.echo import echo, prompted
from turnbuckle.errors import TurnbuckleError
from turnbuckle.vocab.visible import visible_line

_SHOWN = 30
"""So many choices fit on a screen; the others are found by a part of their name."""


class NoAnswer(TurnbuckleError):
    """The answers ended before the questions."""


class Questions:
    """Asks, or with `accept` takes the usual answer without asking."""

    def __init__(self, *, accept: bool = False, quiet: bool = False) -> None:
        self.accept = accept
        self._quiet = quiet

    def say(self, *lines: str) -> None:
        """Tell something."""
        if not self._quiet:
            echo(*lines)

    def line(self, question: str, usual: str = "") -> str:
        """One line; an empty one is the usual answer."""
        if self.accept:
            return usual
        shown = f"{question}{f' [{usual}]' if usual else ''}: "
        try:
            return prompted(shown).strip() or usual
        except EOFError:
            raise NoAnswer(
                "the answers ended before the questions; give them as options (--help), or --yes takes "
                "the usual ones"
            ) from None

    def yes(self, question: str, *, usual: bool = False) -> bool:
        """Yes or no."""
        while True:
            answer = self.line(f"{question} {'[Y/n]' if usual else '[y/N]'}").lower()
            if not answer:
                return usual
            if answer in ("y", "yes", "n", "no"):
                return answer in ("y", "yes")
            self.say("Please answer y or n.")

    def secret(self, question: str) -> str:
        """One line that is not shown while it is typed."""
        if self.accept:
            return ""
        if sys.stdin.isatty():
            return getpass.getpass(visible_line(f"{question}: ")).strip()
        return self.line(question)

    def one_of(self, question: str, choices: Sequence[str], usual: str) -> str:
        """One of a few words."""
        while True:
            answer = self.line(f"{question} ({', '.join(choices)})", usual).lower()
            fitting = [choice for choice in choices if choice.startswith(answer)]
            if answer in choices or len(fitting) == 1:
                return answer if answer in choices else fitting[0]
            self.say(f"Please answer one of {', '.join(choices)}.")

    def pick(self, question: str, choices: Sequence[str], notes: Sequence[str] = (), usual: str = "") -> str:
        """One of a list, by its number, its name, or a part of its name that fits only one. Any other words
        are taken as they are: lists may be old, and whoever asks knows what to make of it."""
        self._list(choices, notes)
        while True:
            answer = self.line(question, usual or (choices[0] if choices else ""))
            if answer.isdigit() and 1 <= int(answer) <= len(choices):
                return choices[int(answer) - 1]
            fitting = [choice for choice in choices if answer.lower() in choice.lower()]
            if answer in choices or len(fitting) == 1:
                return answer if answer in choices else fitting[0]
            if not fitting:
                return answer
            self.say(f"{len(fitting)} names fit:")
            self._list(fitting, (), [choices.index(name) + 1 for name in fitting])

    def _list(self, choices: Sequence[str], notes: Sequence[str], numbers: Sequence[int] = ()) -> None:
        if self.accept:
            return
        width = max(map(len, choices), default=0) if notes else 0
        for at, choice in enumerate(choices[:_SHOWN]):
            number = numbers[at] if numbers else at + 1
            self.say(f"  {number:>3}  {choice:<{width}}{f'  {notes[at]}' if notes else ''}".rstrip())
        if len(choices) > _SHOWN:
            self.say(f"       and {len(choices) - _SHOWN} more: type a part of the name")
