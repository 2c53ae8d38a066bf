"""One conversation with one server, up to its end: questions and answers by JSON-RPC, over any link.

Theory of operation. What comes is queued and read by one task, in order; a long message is read in a thread.
Each question has a number and at most one answer. What fits no question is dropped and counted: a server that
says too much unasked is cut off, and so is one that sends what is not JSON-RPC without end. However the
conversation ends, every open question ends with it (`McpServerGone`), so nobody waits for an answer that
cannot come. `McpServerGone.reached` says whether the question had left this process whole.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from turnbuckle.tools.mcp import messages
from turnbuckle.tools.mcp.messages import Incoming, RpcFault, UnaskedBudget, Unreadable
from turnbuckle.tools.threads import in_thread
from turnbuckle.tools.workers import worked
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.redaction import Redactor
from turnbuckle.vocab.visible import visible_line

ON_LOOP = 64 << 10
"""Bytes of a message that may be read without a thread."""
WORKER_FROM = 512 << 10
"""Bytes from which a process looks at a message first: it may be made of millions of tiny parts."""
MOST_PARTS = 2000
_WORKER = Path(__file__).with_name("message_worker.py")
QUEUE_CAP = 3 * messages.LINE_CAP
UNSENT_CAP = 8 << 20
MOST_GARBAGE = 200
"""Unreadable messages in a row: some servers print a greeting to the wrong place."""
MOST_PROGRESS = 500
_NOTE_CAP = 300
_WORDS_CAP = 2000
_KNOWS_NONE = Redactor()

T = TypeVar("T")
log = logging.getLogger("turnbuckle.mcp")


async def read_off_loop(content: bytes, read: Callable[[bytes], T]) -> T:
    """Read what a stranger sent: in a thread, if it is long."""
    return read(content) if len(content) <= ON_LOOP else await in_thread(lambda: read(content))


class _LookedAt(Struct, frozen=True):
    fault: str
    number: int | None = None


class McpServerGone(Exception):
    """The conversation ended before the answer came. The text says why."""

    def __init__(self, why: str, *, reached: bool = True) -> None:
        super().__init__(why)
        self.reached = reached


class RequestRefused(Exception):
    """The server answered with an error."""

    def __init__(self, fault: RpcFault, words: str) -> None:
        super().__init__(words or f"error {fault.code}")
        self.fault = fault


class McpLink(Protocol):
    """Carries messages to a server. What comes back is handed to the session that uses it."""

    def send(self, message: bytes) -> int:
        """Give it one message. Returns a mark for `has_sent`."""
        ...

    def has_sent(self, mark: int) -> bool:
        """Whether the message with this mark may have reached the server whole."""
        ...

    def drop(self, mark: int) -> None:
        """Nobody waits for the answer to this message any more."""
        ...

    @property
    def unsent(self) -> int: ...

    async def close(self) -> str:
        """End it, and whatever it started. How that ended, in words."""
        ...


class _Open(Struct):
    """A question without an answer."""

    answered: asyncio.Future[bytes]
    mark: int
    told: Callable[[str], None] | None
    progress: int = 0


class McpSession:
    """`heard` and `end` are called by the link."""

    def __init__(self, name: str, clock: Clock, redactor: Redactor = _KNOWS_NONE) -> None:
        self.name = name
        self.redactor = redactor
        self.over = asyncio.Event()
        self.why = ""
        self.list_changed = False
        self.stateless: dict[str, Any] | None = None
        """What every request says of us, in the revision that has no beginning."""
        self.version = ""
        """The revision that was agreed on."""
        self.link: McpLink | None = None
        self._clock = clock
        self._numbers = 0
        self._open: dict[int | str, _Open] = {}
        self._unasked = UnaskedBudget(clock.now())
        self._garbage = 0
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether there is a question without an answer."""
        return bool(self._open)

    def awaits(self, number: int) -> bool:
        """Whether this question has no answer yet."""
        return number in self._open and not self._open[number].answered.done()

    def discreet(self, text: str, cap: int) -> str:
        """A server's words in one line that can be shown. Secrets are taken out before anything is cut off:
        what is left of one would not be known any more."""
        return visible_line(self.redactor.sample(text[: 4 * cap], cut=len(text) > 4 * cap))[:cap]

    # What comes

    def heard(self, message: bytes) -> None:
        """Take one message."""
        if self.over.is_set():
            return
        self._queue.append(message)
        self._queued += len(message)
        if self._queued > QUEUE_CAP:
            self.end("it sent more than can be read")
            return
        self._wake.set()
        self._idle.clear()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name=f"mcp {self.name}")

    def end(self, why: str) -> None:
        """There will be no more answers."""
        if self.over.is_set():
            return
        self.why = why
        self.over.set()
        self._wake.set()
        self._idle.set()
        for asked in self._open.values():
            if not asked.answered.done():
                reached = self.link is not None and self.link.has_sent(asked.mark)
                asked.answered.set_exception(McpServerGone(why, reached=reached))
        self._queue.clear()

    def lose(self, number: int, why: str, *, reached: bool) -> None:
        """There will be no answer to this one question."""
        waiting = self._open.pop(number, None)
        if waiting is not None and not waiting.answered.done():
            waiting.answered.set_exception(McpServerGone(why, reached=reached))

    async def settled(self) -> None:
        """All that was heard has been read."""
        await self._idle.wait()

    async def _read_all(self) -> None:
        try:
            await self._read_on()
        except Exception as error:
            log.exception("what the MCP server %s sent could not be read", self.name)
            self.end(f"what it sent could not be read ({type(error).__name__})")

    async def _read_on(self) -> None:
        while not self.over.is_set():
            if not self._queue:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            line = self._queue[0]
            try:
                if len(line) > WORKER_FROM:
                    await self._look_through(line)
                message = await read_off_loop(line, messages.read_message)
            except Unreadable as error:
                self._count_garbage(len(line), error)
            else:
                self._garbage = 0
                self._take(message, len(line))
            if self._queue:  # it is empty if that was the end
                self._queue.popleft()
            self._queued -= len(line)

    async def _look_through(self, line: bytes) -> None:
        """Let a process of its own say that a long message can be read. If not, the question that it answers
        has no answer. Raises Unreadable."""
        wish = {"seconds": 5, "memory": 1 << 30, "most": MOST_PARTS}
        answer = await worked(_WORKER, wish, line, environment={})
        if answer is None:
            raise Unreadable("it sent a message that takes too long to read")
        found = msgspec.json.decode(answer, type=_LookedAt)
        if found.fault and found.number is not None:
            self.lose(found.number, found.fault, reached=True)
        if found.fault:
            raise Unreadable(found.fault)

    def _count_garbage(self, size: int, error: Unreadable) -> None:
        self._garbage += 1
        if self._garbage == 1:
            log.warning("the MCP server %s: %s", self.name, self.discreet(str(error), _NOTE_CAP))
        if self._garbage > MOST_GARBAGE:
            self.end(f"it sent {MOST_GARBAGE} lines that are not messages")
        self.count_unasked(size)

    def count_unasked(self, size: int) -> None:
        """It said so many bytes that nobody asked for."""
        if flood := self._unasked.spend(size, self._clock.now()):
            self.end(f"it sent too many {flood} that nobody asked for")

    def _take(self, message: Incoming, size: int) -> None:
        asked = message.id
        if message.method and (asked is UNSET or asked is None):
            self.count_unasked(size)
            self._note(message)
        elif message.method and isinstance(asked, int | str):
            self.count_unasked(size)
            self._send(messages.answer(asked, message.method))
        elif isinstance(asked, int) and asked in self._open and (message.result or message.error):
            waiting = self._open.pop(asked)
            if waiting.answered.done():
                return
            if message.error is not None:
                waiting.answered.set_exception(
                    RequestRefused(message.error, self.discreet(message.error.message, _WORDS_CAP))
                )
            else:
                waiting.answered.set_result(bytes(message.result))
        else:
            self.count_unasked(size)  # an answer that came too late, twice, or to nobody

    def _note(self, message: Incoming) -> None:
        match message.method:
            case "notifications/tools/list_changed":
                self.list_changed = True
            case "notifications/progress":
                self._take_progress(message.params)
            case "notifications/message":
                text = bytes(message.params)[: 8 * _NOTE_CAP].decode("utf-8", "replace")
                log.debug("the MCP server %s notes: %s", self.name, self.discreet(text, _NOTE_CAP))
            case _:
                return

    def _take_progress(self, params: Raw) -> None:
        if len(params) > ON_LOOP or (told := messages.read_progress(params)) is None:
            return
        waiting = self._open.get(told.progressToken)
        if waiting is None or waiting.told is None or waiting.progress >= MOST_PROGRESS:
            return
        waiting.progress += 1
        of = "" if told.total is None else f" of {told.total:g}"
        waiting.told((self.discreet(told.message, _NOTE_CAP) or f"{told.progress:g}{of}") + "\n")

    # What is sent

    def _send(self, message: bytes) -> int:
        assert self.link is not None
        if self.link.unsent > UNSENT_CAP:
            self.end("it does not read what it is asked")
            return 0
        return self.link.send(message)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        if not self.over.is_set():
            self._send(messages.notification(method, params))

    async def ask(
        self, method: str, params: dict[str, Any], told: Callable[[str], None] | None = None
    ) -> bytes:
        """The answer. Raises RequestRefused and McpServerGone. The server is told if nobody waits."""
        if self.over.is_set():
            raise McpServerGone(self.why, reached=False)
        self._numbers += 1
        number = self._numbers
        meta = {**(self.stateless or {}), **({} if told is None else {"progressToken": number})}
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        message = messages.request(number, method, {**params, "_meta": meta} if meta else params)
        waiting = self._open[number] = _Open(answered, 0, told)
        waiting.mark = self._send(message)
        try:
            return await answered
        except asyncio.CancelledError:
            self.notify("notifications/cancelled", {"requestId": number, "reason": "it took too long"})
            if self.link is not None:
                self.link.drop(waiting.mark)
            raise
        finally:
            self._open.pop(number, None)

    async def close(self, why: str) -> str:
        """End the conversation and what carries it."""
        self.end(why)
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(self._reading, return_exceptions=True)
        return "" if self.link is None else await self.link.close()
