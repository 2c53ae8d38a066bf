"""A chat on a real terminal: a line to type on that is always there, and above it what is under way.

What is done is printed above the live part, once, and belongs to the terminal's own scrollback from then on.
The live part is drawn by its differences and is never higher than the screen. It shows the end of the block
that is open, the tools that run, the messages that wait, and what is waited for. Drawing happens at most so
often in a second, however fast a model talks.
"""

import asyncio
from typing import Any, Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from turnbuckle.cli.backend import SessionBackend
from turnbuckle.cli.chat.chat_output import ChatOutput, chat_output
from turnbuckle.cli.chat.completion import ChatCompleter
from turnbuckle.cli.chat.controller import ChatController
from turnbuckle.cli.chat.pastes import CHANGED, FoldedPastes
from turnbuckle.cli.chat.printing import PROMPT, Typesetter
from turnbuckle.cli.chat.renderer import ChatPiece, CommandOutput, TypedCommand, UserWords
from turnbuckle.cli.chat.view import View, prompt_for
from turnbuckle.cli.chat.workspace_files import ChatFiles
from turnbuckle.cli.pieces import Break, Tone
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
    "file": "class:tool",
    "notice": "class:notice",
    "quiet": "class:quiet",
    "bad": "class:bad",
    "added": "class:added",
    "removed": "class:bad",
    "plain": "",
}
_COLORS = {"tool": "ansicyan", "notice": "ansiyellow", "bad": "ansired", "added": "ansigreen"}
_PLAIN = {"quiet": "", "prompt": "bold", "auto-suggestion": ""}


class TerminalFront:
    """Where a chat is shown and typed. `run` until somebody leaves."""

    def __init__(
        self,
        place: SessionBackend,
        history: History,
        *,
        color: bool,
        files: ChatFiles | None = None,
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
        self._pastes = FoldedPastes()
        self._completer = ChatCompleter(place, files)
        self._output = output if output is not None else chat_output()
        style = Style.from_dict({**_PLAIN, **({"quiet": "ansibrightblack", **_COLORS} if color else {})})
        self._session: PromptSession[str] = PromptSession(
            self._message,
            multiline=True,
            history=history,
            completer=self._completer,
            complete_while_typing=Condition(self._completes),
            search_ignore_case=True,
            erase_when_done=True,
            key_bindings=self._keys(),
            prompt_continuation="  ",
            reserve_space_for_menu=6,
            style=style,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            input=input,
            output=self._output,
        )
        self._session.app.min_redraw_interval = REDRAW
        self._session.app.ttimeoutlen = self._session.app.timeoutlen = ESCAPE_ALONE
        self._session.default_buffer.on_text_changed += self._changed

    def attach(self, talk: ChatController) -> None:
        self._talk = talk

    # Showing

    async def show(self, pieces: list[ChatPiece]) -> None:
        text = self._setter.take([self._as_typed(piece) for piece in pieces], self._columns)
        if text:
            self._unprinted.append(text)
            self._unprinted_size += len(text)
            self._wake.set()
        if self._unprinted_size > _MOST_UNPRINTED:
            await self._print()
        self.refresh()

    def _as_typed(self, piece: ChatPiece) -> ChatPiece:
        if not isinstance(piece, UserWords):
            return piece
        return UserWords(self._pastes.folded(piece.text), piece.run, piece.into)

    def refresh(self) -> None:
        self._session.app.invalidate()

    @property
    def _columns(self) -> int:
        return self._session.app.output.get_size().columns

    async def shown(self) -> None:
        await self._print()

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
            if view.running or view.lost or view.queued or view.own:
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
        return [*shown, ("class:prompt", prompt_for(view, PROMPT))]

    def _live(self, view: View, width: int) -> list[tuple[str, str]]:
        rows = self._session.app.output.get_size().rows
        text, thinking = self._setter.tail(width * rows)
        open_style = "class:quiet" if thinking else ""
        lines = [("", "")] if text and self._setter.gap else []
        lines += [(open_style, line) for line in _wrapped(text.rstrip("\n"), width)[-rows:]] if text else []
        said = [*self._setter.held, *view.lines]
        lines += [(_TONES[line.tone], _cut(line.text, width)) for line in said]
        for words in view.queued[:_QUEUED]:
            lines.append(
                ("class:quiet", _cut(f"waits: {shortened(self._pastes.folded(words), width)}", width))
            )
        if len(view.queued) > _QUEUED:
            lines.append(("class:quiet", f"and {len(view.queued) - _QUEUED} more wait"))
        if status := status_text(view, width):
            lines.append(("class:quiet", status))
        return lines

    # Typing

    def _completes(self) -> bool:
        return self._completer.completes(self._session.default_buffer.document.text_before_cursor)

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

        @keys.add("escape", filter=typing & ~has_completions & Condition(self._is_busy))
        def _(event: KeyPressEvent) -> None:
            self._escape()

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _(event: KeyPressEvent) -> None:
            pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
            event.current_buffer.insert_text(self._pastes.fold(pasted))

        @keys.add("backspace", filter=typing & Condition(lambda: bool(self._folded_before())))
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.delete_before_cursor(len(self._folded_before()))

        @keys.add("c-d", filter=typing & empty)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result="quit")

        @keys.add("c-z")
        def _(event: KeyPressEvent) -> None:
            self._give_back()
            event.app.suspend_to_background()

        return keys

    def _give_back(self) -> None:
        if isinstance(self._output, ChatOutput):
            self._output.give_back()

    def _folded_before(self) -> str:
        return self._pastes.sign_before(self._session.default_buffer.document.text_before_cursor)

    def _is_busy(self) -> bool:
        return self._view.running or bool(self._view.own)

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        self._asked_to_leave = False
        if buffer.text.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        if self._talk is None:
            return
        whole = self._pastes.unfolded(buffer.text)
        if whole is None:
            self._say(CHANGED)
            return
        match self._talk.entered(whole, self._about):
            case "refused":
                return
            case "quit":
                event.app.exit(result="quit")
                return
            case "taken" | "command" as how if whole.strip():
                buffer.history.append_string(whole)
                if how == "command" and not whole.startswith("!"):  # whose output names it
                    self._print_soon(TypedCommand(whole.strip()))
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
                self._say("Ctrl-C again leaves, and so does Ctrl-D")
            case _:
                pass

    def _say(self, words: str) -> None:
        self._print_soon(CommandOutput(words, "notice"))

    def _print_soon(self, piece: ChatPiece | TypedCommand) -> None:
        self._unprinted.append(self._setter.take([piece], self._columns))
        self._wake.set()

    def _escape(self) -> None:
        """Interrupts once; it neither forces nor leaves, since it is pressed without a thought."""
        if self._talk is not None and not self._talk.is_stopping:
            self._talk.interrupt()

    async def run(self) -> Literal["quit", "leave"]:
        """Until somebody leaves: in good order, or at once."""
        self._output.enable_bracketed_paste()  # what is pasted at the very first is a paste, too
        self._output.flush()
        tasks = [asyncio.create_task(self._print_all()), asyncio.create_task(self._tick())]
        try:
            left = await self._session.prompt_async()
        except (EOFError, KeyboardInterrupt):
            left = "quit"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._give_back()
        self._print_soon(Break())  # what is still open was shown, and is not taken away with the live part
        await self._print()
        return "leave" if left == "leave" else "quit"


def status_text(view: View, width: int) -> str:
    """One row: what happens, and what it has used so far as long as there is room for both."""
    if view.lost:
        return _cut("connection lost, trying again", width)
    if view.own:
        return _cut(f"! {_cut(view.own, max(width - 20, 8))} · Ctrl-C ends it", width)
    if not view.running or view.question is not None:
        return "sending" if view.queued and not view.running else _cut(view.meter, width)
    parts = view.meter.split(" · ") if view.meter else []
    for used in range(len(parts), -1, -1):
        text = " · ".join([*parts[:used], view.waiting or "working", "Esc interrupts"])
        if get_cwidth(text) < width:
            break
    return _cut(text, width)


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
