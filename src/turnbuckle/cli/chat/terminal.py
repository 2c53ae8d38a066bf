"""A chat on a real terminal: a line to type on that is always there, and above it what is under way.

What is done is printed above the live part, once, and belongs to the terminal's own scrollback from then on.
The live part is drawn by its differences and is never higher than the screen. It shows the end of the block
that is open, the tools that run, the messages that wait, and what is waited for. Drawing happens at most so
often in a second, however fast a model talks.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from turnbuckle.cli.backend import SessionBackend
from turnbuckle.cli.chat.commands import MODES, WORDS, about
from turnbuckle.cli.chat.controller import ChatController
from turnbuckle.cli.chat.printing import PROMPT, Typesetter
from turnbuckle.cli.chat.renderer import ChatPiece, CommandOutput
from turnbuckle.cli.chat.view import View
from turnbuckle.cli.pieces import Tone
from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.visible import visible_line

TICK = 0.5
REDRAW = 0.05
"""Seconds between two drawings. More often, and nobody sees it; less often, and it looks torn."""
ESCAPE_ALONE = 0.1
"""Seconds after which Esc was pressed alone. Other keys begin with the same byte, and theirs come at once."""
_MOST_UNPRINTED = 1 << 18  # characters that may wait for the terminal; whoever tells more waits
_QUEUED = 3  # waiting messages that are shown
_ROOM = 6  # rows that the live part leaves free: the line to type on, and what it needs
_TONES: dict[Tone, str] = {
    "tool": "class:tool",
    "notice": "class:notice",
    "quiet": "class:quiet",
    "bad": "class:bad",
}
_COLORS = {"tool": "ansicyan", "notice": "ansiyellow", "bad": "ansired"}
_PLAIN = {"quiet": "", "prompt": "bold", "auto-suggestion": ""}
_CHOICES = {"/busy": MODES, "/reasoning": ("on", "off"), "/drafts": ("show", "save")}


class TerminalFront:
    """Where a chat is shown and typed. `run` until somebody leaves."""

    def __init__(
        self,
        place: SessionBackend,
        history: History,
        *,
        color: bool,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._setter = Typesetter(color=color)
        self._unprinted: list[str] = []
        self._unprinted_size = 0
        self._wake = asyncio.Event()
        self._printing = asyncio.Lock()
        self._about = ""
        self._was_begun = False
        self._asked_to_leave = False
        self._talk: ChatController | None = None
        style = Style.from_dict({**_PLAIN, **({"quiet": "ansibrightblack", **_COLORS} if color else {})})
        self._session: PromptSession[str] = PromptSession(
            self._message,
            multiline=True,
            history=history,
            completer=_Words(place),
            complete_while_typing=Condition(self._is_command),
            search_ignore_case=True,
            enable_suspend=True,
            erase_when_done=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            reserve_space_for_menu=6,
            style=style,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            input=input,
            output=output,
        )
        self._session.app.min_redraw_interval = REDRAW
        self._session.app.ttimeoutlen = self._session.app.timeoutlen = ESCAPE_ALONE
        self._session.default_buffer.on_text_changed += self._changed

    def attach(self, talk: ChatController) -> None:
        self._talk = talk

    # Showing

    async def show(self, pieces: list[ChatPiece]) -> None:
        text = self._setter.take(pieces, self._columns)
        if text:
            self._unprinted.append(text)
            self._unprinted_size += len(text)
            self._wake.set()
        if self._unprinted_size > _MOST_UNPRINTED:
            await self._print()
        self.refresh()

    def refresh(self) -> None:
        self._session.app.invalidate()

    @property
    def _columns(self) -> int:
        return self._session.app.output.get_size().columns

    async def _print(self) -> None:
        async with self._printing:
            text, self._unprinted, self._unprinted_size = "".join(self._unprinted), [], 0
            if text:
                await run_in_terminal(lambda: self._write(text))

    def _write(self, text: str) -> None:
        output = self._session.app.output
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()

    async def _print_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._print()
            await asyncio.sleep(REDRAW)

    async def _tick(self) -> None:
        """Seconds that pass are shown, too, while something is waited for."""
        while True:
            await asyncio.sleep(TICK)
            view = self._view
            if view.running or view.lost or view.queued:
                self.refresh()

    # The live part

    @property
    def _view(self) -> View:
        return View(False) if self._talk is None else self._talk.view()

    def _message(self) -> StyleAndTextTuples:
        view = self._view
        size = self._session.app.output.get_size()
        room = max(size.rows - _ROOM - self._session.default_buffer.document.line_count, 3)
        lines = self._live(view, max(size.columns, 2))
        shown: StyleAndTextTuples = []
        for style, text in lines[-room:]:
            shown += [(style, text), ("", "\n")]
        return [*shown, ("class:prompt", _prompt(view))]

    def _live(self, view: View, width: int) -> list[tuple[str, str]]:
        rows = self._session.app.output.get_size().rows
        text, thinking = self._setter.tail(width * rows)
        open_style = "class:quiet" if thinking else ""
        lines = [("", "")] if text and self._setter.gap else []
        lines += [(open_style, line) for line in _wrapped(text.rstrip("\n"), width)[-rows:]] if text else []
        said = [*self._setter.held, *view.lines]
        lines += [(_TONES[line.tone], _cut(line.text, width)) for line in said]
        for words in view.queued[:_QUEUED]:
            lines.append(("class:quiet", _cut(f"waits: {shortened(words, width)}", width)))
        if len(view.queued) > _QUEUED:
            lines.append(("class:quiet", f"and {len(view.queued) - _QUEUED} more wait"))
        if status := _status(view):
            lines.append(("class:quiet", _cut(status, width)))
        return lines

    # Typing

    def _is_command(self) -> bool:
        text = self._session.default_buffer.text
        return text.startswith("/") and "\n" not in text

    def _changed(self, _: Any) -> None:
        """A line belongs to the question that stood there when it was begun."""
        text = self._session.default_buffer.text
        if not text:
            self._about = ""
        elif not self._was_begun:
            self._about = "" if self._talk is None else self._talk.asking
        self._was_begun = bool(text)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(DEFAULT_BUFFER)
        empty = Condition(lambda: not self._session.default_buffer.text)

        @keys.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._enter(event)

        @keys.add("escape", "enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._interrupt(event)

        @keys.add("escape", filter=typing & ~has_completions & Condition(lambda: self._view.running))
        def _(event: KeyPressEvent) -> None:
            self._escape()

        @keys.add("c-d", filter=typing & empty)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result="quit")

        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        self._asked_to_leave = False
        if buffer.text.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        if self._talk is None:
            return
        match self._talk.entered(buffer.text, self._about):
            case "refused":
                return
            case "quit":
                event.app.exit(result="quit")
                return
            case "taken" if buffer.text.strip():
                buffer.append_to_history()
            case _:
                pass
        self._clear()

    def _clear(self) -> None:
        self._session.default_buffer.reset()
        self._about, self._was_begun = "", False

    def _interrupt(self, event: KeyPressEvent) -> None:
        if self._talk is None:
            return
        match self._talk.interrupt():
            case "leave":
                event.app.exit(result="leave")
            case "idle" if event.current_buffer.text:
                self._clear()
            case "idle" if self._asked_to_leave:
                event.app.exit(result="quit")
            case "idle":
                self._asked_to_leave = True
                said = self._setter.take(
                    [CommandOutput("Ctrl-C again leaves, and so does Ctrl-D")], self._columns
                )
                self._unprinted.append(said)
                self._wake.set()
            case _:
                pass

    def _escape(self) -> None:
        """Interrupts once; it neither forces nor leaves, since it is pressed without a thought."""
        if self._talk is not None and not self._talk.is_stopping:
            self._talk.interrupt()

    async def run(self) -> Literal["quit", "leave"]:
        """Until somebody leaves: in good order, or at once."""
        tasks = [asyncio.create_task(self._print_all()), asyncio.create_task(self._tick())]
        try:
            left = await self._session.prompt_async()
        except (EOFError, KeyboardInterrupt):
            left = "quit"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._print()
        return "leave" if left == "leave" else "quit"


class _Words(Completer):
    """Commands, and what they take."""

    def __init__(self, place: SessionBackend) -> None:
        self._place = place

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Any:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        word, space, rest = text.partition(" ")
        if not space:
            for known in WORDS:
                if known.startswith(word):
                    yield Completion(known, -len(word), display_meta=about(known))
        elif " " not in rest:
            for choice in _CHOICES.get(word, ()):
                if choice.startswith(rest):
                    yield Completion(choice, -len(rest))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion]:
        word, space, rest = document.text_before_cursor.partition(" ")
        if word == "/session" and space:
            with contextlib.suppress(TurnbuckleError, JournalError):  # no names, then
                for one in await self._place.sessions(""):
                    if rest in one.name:
                        yield Completion(
                            one.name, -len(rest), display_meta=visible_line(shortened(one.title, 40))
                        )
            return
        for completion in self.get_completions(document, complete_event):
            yield completion


def _prompt(view: View) -> str:
    if view.question is None:
        return PROMPT
    return f"answer {PROMPT}" if view.question.kind == "question" else f"y/n {PROMPT}"


def _status(view: View) -> str:
    if view.lost:
        return "connection lost, trying again"
    if view.running and view.question is None:
        meter = f"{view.meter} · " if view.meter else ""
        return f"{meter}{view.waiting or 'working'} · Esc interrupts"
    return "sending" if view.queued and not view.running else view.meter


def _cut(text: str, width: int) -> str:
    """One row of a terminal."""
    text = visible_line(text.replace("\t", " ").replace("\n", " "))
    room = width - 1
    if get_cwidth(text) <= room:
        return text
    while get_cwidth(text) > room - 1:
        text = text[: max(len(text) - max((get_cwidth(text) - room) // 2, 1), 0)]
    return f"{text}…"


def _wrapped(text: str, width: int) -> list[str]:
    """Rows of a terminal."""
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        row, used = 0, 0
        for at, char in enumerate(line):
            wide = get_cwidth(char)
            if used + wide > width - 1:
                rows.append(line[row:at])
                row, used = at, 0
            used += wide
        rows.append(line[row:])
    return rows
