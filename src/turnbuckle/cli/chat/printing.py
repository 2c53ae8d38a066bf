"""Pieces of a chat as text for a terminal: markdown is set block by block, each of them once.

What is handed out is printed for good. The block that is still open is not among it: `tail` gives its last
characters for the live part of the screen. A notice that comes in the middle of a block stands behind it, and
so does what the user said into the run: a paragraph stays one paragraph. What a model or a tool says cannot
steer the terminal: it is made visible before anything else is done with it. Code stands between two lines and
is not indented, so that it can be copied.
"""

import io
import re
from collections.abc import Sequence
from typing import Any, Literal

from rich.color import ColorSystem
from rich.console import Console
from rich.markdown import Heading, Markdown
from rich.style import Style
from rich.text import Text as RichText
from rich.theme import Theme

from turnbuckle.cli.chat.blocks import Block, BlockSplitter
from turnbuckle.cli.chat.renderer import ChatPiece, CommandOutput, TypedCommand, UserWords
from turnbuckle.cli.pieces import Break, Line, Tone, Words
from turnbuckle.cli.table import fitted
from turnbuckle.vocab.visible import visible_line, visible_text

Kind = Literal["", "you", "command", "text", "item", "code", "thought", "line", "reply"]
NARROWEST = 20
PROMPT = "› "
_STYLES: dict[Tone, str] = {
    "tool": "cyan",
    "file": "cyan",
    "notice": "yellow",
    "quiet": "dim",
    "bad": "red",
    "added": "green",
    "removed": "red",
    "plain": "bold",
}
_CLOSE: frozenset[tuple[Kind, Kind]] = frozenset(
    {
        ("line", "line"),
        ("reply", "reply"),
        ("command", "reply"),
        ("command", "line"),
        ("thought", "thought"),
        ("text", "line"),
        ("item", "line"),
        ("code", "line"),
    }
)
"""What stands below what without a blank line."""
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.block_quote": "italic",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
    }
)
_OWN = re.compile(r"(\x1b\[[0-9;]*m)")  # colours
_EDGES = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|(?:\n(?:\x1b\[[0-9;]*m)*)+\Z")  # blank rows around a block
_PADDING = re.compile(r"(?:[ ]|\x1b\[[0-9;]*m)+$", re.M)  # what fills a row up to the edge


class _Heading(Heading):
    """At the left, as everything else."""

    def __rich_console__(self, console: Console, options: Any) -> Any:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}  # noqa: RUF012 (as the class above it has it)


class Typesetter:
    """`take` pieces, get text to print. `width` is asked for each time, since a window can change."""

    def __init__(self, *, color: bool) -> None:
        self._color = color
        self._blocks = BlockSplitter()
        self._before = ""  # the last character of text, which a sign may join with the next
        self._thinking = False
        self._thought: list[str] = []  # of a line of reasoning that is not whole yet
        self._held: list[Line | UserWords] = []
        self._last: Kind = ""
        self._width = 80
        self._out: list[str] = []

    def take(self, pieces: Sequence[ChatPiece | TypedCommand], width: int) -> str:
        self._width = max(width, NARROWEST)
        for piece in pieces:
            self._piece(piece)
        made, self._out = "".join(self._out), []
        return made

    def tail(self, characters: int) -> tuple[str, bool]:
        """The end of what is open, and whether it is reasoning."""
        if self._thinking:
            return "".join(self._thought)[-characters:], True
        return self._blocks.tail(characters), False

    @property
    def gap(self) -> bool:
        """Whether a blank line will stand between what was printed and what is open."""
        return bool(self._last) and (self._last, "thought" if self._thinking else "text") not in _CLOSE

    @property
    def held(self) -> list[Line]:
        """Notices, and words that were said into the run, which wait for the end of a block."""
        return [one if isinstance(one, Line) else Line(f"{PROMPT}{one.text}", "plain") for one in self._held]

    def _piece(self, piece: ChatPiece | TypedCommand) -> None:
        match piece:
            case Words(text, True):
                self._reason(self._visible(text))
            case Words(text, _, apart):
                self._end_thought()
                if apart:
                    self._flush()
                self._set(self._blocks.feed(self._visible(text)))
            case Break():
                self._flush()
            case Line(_, "notice" | "quiet") | UserWords(into=True) if self._blocks.is_open:
                self._held.append(piece)
            case Line():
                self._flush()
                self._line(piece)
            case UserWords(text):
                self._flush()
                self._said(visible_text(text))
            case TypedCommand(text):
                self._put("command", self._printed(RichText(f"{PROMPT}{visible_line(text)}", "dim")))
            case CommandOutput(text, tone, rows):
                shown = visible_text(text)
                if rows:
                    shown = "\n".join(fitted(line, self._width) for line in shown.split("\n"))
                self._put("reply", self._printed(RichText(shown, _STYLES[tone])))

    def _visible(self, text: str) -> str:
        before, self._before = self._before, text[-1:] or self._before
        return visible_text(text, before)

    def _flush(self) -> None:
        """What is open is over."""
        self._end_thought()
        for block in self._blocks.close():  # what is held came behind all of them
            self._block(block)
        self._release()

    def _reason(self, text: str) -> None:
        if not self._thinking:
            self._flush()
            self._thinking = True
        *whole, rest = text.split("\n")
        for line in whole:
            self._thought.append(line)
            self._put("thought", self._printed(RichText("".join(self._thought), "dim")))
            self._thought = []
        if rest:
            self._thought.append(rest)

    def _end_thought(self) -> None:
        if self._thinking and self._thought:
            self._put("thought", self._printed(RichText("".join(self._thought), "dim")))
        self._thinking, self._thought = False, []

    def _set(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._block(block)
            if self._held and block.kind not in ("code_begin", "code"):
                self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for one in held:
            if isinstance(one, Line):
                self._line(one)
            else:
                self._said(visible_text(one.text))

    def _block(self, block: Block) -> None:
        match block.kind:
            case "code_begin":
                name = f" {block.text} " if block.text else ""
                rule = f"──{name}{'─' * self._width}"[: self._width]
                self._put("code", self._printed(RichText(rule, "dim")))
            case "code":
                self._out.append(self._printed(RichText(block.text, "cyan"), wrap=False))
            case "code_end":
                self._out.append(self._printed(RichText("─" * self._width, "dim")))
            case "item":
                self._put("item", self._printed(_markdown(_broken(block.text))), apart=block.apart)
            case "paragraph":
                self._put("text", self._printed(_markdown(_broken(block.text))), apart=block.apart)
            case _:
                self._put("text", self._printed(_markdown(block.text)), apart=block.apart)

    def _line(self, line: Line) -> None:
        text = visible_line(" ".join(line.text.split("\n")))
        words = RichText(text, _STYLES[line.tone])
        if line.tone == "tool":
            words.truncate(self._width - 1, overflow="ellipsis")  # a card is one row
        self._put("line", self._row(words))

    def _said(self, text: str) -> None:
        lines = text.rstrip("\n").split("\n")
        indented = "\n".join([f"{PROMPT}{lines[0]}", *(f"  {line}" for line in lines[1:])])
        self._put("you", self._printed(RichText(indented, "bold")))

    def _put(self, kind: Kind, text: str, *, apart: bool = True) -> None:
        close = (self._last, kind) in _CLOSE or (not apart and self._last in (kind, "item"))
        if self._last and not close:
            self._out.append("\n")
        self._out.append(text)
        self._last = kind

    def _row(self, words: RichText) -> str:
        """A line, quickly if it fits: the text of a file may have tens of thousands of them."""
        if words.cell_len > self._width or "\t" in words.plain:
            return self._printed(words)
        colours = ColorSystem.STANDARD if self._color else None
        return f"{Style.parse(str(words.style)).render(words.plain.rstrip(), color_system=colours)}\n"

    def _printed(self, content: Any, *, wrap: bool = True) -> str:
        file = io.StringIO()
        console = Console(
            file=file,
            width=self._width,
            force_terminal=True,
            color_system="standard" if self._color else None,
            no_color=not self._color,
            theme=_THEME,
            highlight=False,
            legacy_windows=False,
        )
        console.print(content, soft_wrap=not wrap)
        text = _PADDING.sub(_closed, _seen(file.getvalue()))
        return f"{_EDGES.sub('', text)}\n" if wrap else text


def _markdown(text: str) -> Markdown:
    return _Markdown(text, hyperlinks=False)


def _seen(text: str) -> str:
    """Markdown can name a character (`&#x202e;`): what it made of that is made visible, too."""
    parts = _OWN.split(text)
    parts[::2] = map(visible_text, parts[::2])
    return "".join(parts)


def _broken(text: str) -> str:
    """Lines stay lines, as they were while they came in."""
    return text.replace("\n", "  \n")


def _closed(padding: "re.Match[str]") -> str:
    """Nothing of it but the end of its colours."""
    return "\x1b[0m" if "\x1b" in padding[0] else ""
