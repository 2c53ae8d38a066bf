"""Searching a conversation's own past, for the model that is in it.

The chain of runs is walked from the newest to the oldest, so only what belongs to this very conversation
is found: nothing of another session, and nothing that was taken back or deleted. Between runs others get
their turn.
"""

import asyncio
import heapq
from collections.abc import Iterator

from msgspec import Struct

from turnbuckle.journal.port import Reader
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.runs import READING
from turnbuckle.turn.summary import RECALL, seen_in
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, words_of

MOST_FOUND = 6
MOST_RUNS = 50_000
"""That are looked at: some five seconds of CPU, in small pieces."""
_AROUND = 500
_LONGEST = 20_000
"""Characters of the one result that is asked for by its id."""
_MOST_WORDS = 12
_USER = "the user"


class Passage(Struct, frozen=True, order=True):
    """Something that was found. The more words it holds the better, then the user's own, then the newer."""

    words: int
    is_users: bool
    newness: int
    who: str
    text: str


async def recall(journal: Reader, run: RunId, session: SessionId, query: str) -> str:
    """What was said about these words, or the whole result of the call with this id."""
    conversations = Conversations(journal, READING)
    words = list(dict.fromkeys(query.casefold().split()))[:_MOST_WORDS]
    best: list[Passage] = []
    newness, looked_at = 0, 0
    async for _, link in conversations.chain(run, session):
        if looked_at == MOST_RUNS:
            break
        first, looked_at = not looked_at, looked_at + 1
        asked = _recalls(link.own)
        for message in reversed(link.own):
            newness -= 1
            if first and message.role == "user":
                continue  # the question itself
            for who, text in _texts(message, query.strip(), asked):
                if not who:
                    return f"The result of {query.strip()}:\n{text[:_LONGEST]}"
                if (found := _found(text, words, newness, who)) is not None:
                    heapq.heappush(best, found)
                    if len(best) > MOST_FOUND:
                        heapq.heappop(best)
        await asyncio.sleep(0)
    else:
        looked_at = 0
    more = "" if not looked_at else "\n[The oldest part was not looked at.]"
    if not best:
        return f"Nothing was found. Try other words.{more}"
    return "\n\n".join(f"[{hit.who}] {hit.text}" for hit in sorted(best, reverse=True)) + more


def _recalls(messages: tuple[Message, ...]) -> set[str]:
    """Calls of this very tool, which are not worth finding."""
    parts = [part for message in messages for part in message.parts]
    return {part.id for part in parts if isinstance(part, CallPart) and part.name == RECALL}


def _texts(message: Message, wanted: str, asked: set[str]) -> Iterator[tuple[str, str]]:
    """The words of a message, each with who said them; nobody, if it is the result that is wanted by its
    id."""
    if message.role == "system" or message.note:
        return
    for part in message.parts:
        match part:
            case TextPart(text):
                yield _USER if message.role == "user" else "you", text
            case CallPart(id, name, arguments) if id not in asked:
                yield f"you called {name}", arguments
            case ResultPart(call_id, content) if call_id not in asked:
                text = "\n".join([words_of(content), *(f"[{seen}]" for seen in seen_in(content))]).strip()
                yield "" if call_id == wanted else f"result of {call_id}", text
            case _:
                pass


def _found(text: str, words: list[str], newness: int, who: str) -> Passage | None:
    folded = text.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0]
    if not places or len(places) * 2 < len(words):
        return None
    start = max(min(places) - _AROUND // 2, 0)
    end = start + _AROUND
    shown = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    return Passage(len(places), who == _USER, newness, who, shown)
