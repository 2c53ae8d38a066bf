"""What Tab and the menu offer in a chat: commands, what they take, sessions, and files behind an `@`."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from turnbuckle.cli.backend import SessionBackend
from turnbuckle.cli.chat.commands import MODES, WORDS, about
from turnbuckle.cli.chat.workspace_files import ChatFiles, typed_name
from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.visible import visible_line

_CHOICES = {"/busy": MODES, "/reasoning": ("on", "off"), "/drafts": ("show", "save")}


class ChatCompleter(Completer):
    """`files` are those that a message may name; None: they are not known here."""

    def __init__(self, place: SessionBackend, files: ChatFiles | None = None) -> None:
        self._place = place
        self._files = files

    def completes(self, before: str) -> bool:
        """Whether there may be something to offer while it is typed."""
        if before.startswith("/") and "\n" not in before and "@" not in before:
            return True
        return self._files is not None and typed_name(before) is not None

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
        before = document.text_before_cursor
        word, space, rest = before.partition(" ")
        if word == "/session" and space:
            with contextlib.suppress(TurnbuckleError, JournalError):  # no names, then
                for one in await self._place.sessions(""):
                    if rest in one.name:
                        yield Completion(
                            one.name, -len(rest), display_meta=visible_line(shortened(one.title, 40))
                        )
            return
        if self._files is not None and (typed := typed_name(before)) is not None:
            behind = len(before) - before.rindex("@")
            for path in await asyncio.to_thread(self._files.offered, typed):
                if visible_line(path) == path and '"' not in path:  # else it cannot be typed either
                    named = f'@"{path}"' if any(map(str.isspace, path)) else f"@{path}"
                    yield Completion(named, -behind, display=path)
            return
        for completion in self.get_completions(document, complete_event):
            yield completion
