"""One MCP server over its lives: started when it is needed, listed, asked, and started again when it died.

Nothing is done twice. A call that had left this process when its server went is over, and its outcome is not
known; it is made again, once, only if the server calls the tool read-only or idempotent: a lie about that
harms nobody but the server's own user, and no consent depends on it. A call that had not left has not
happened.

A server that fails is not started at once again: the pause grows, and after some failures in a row it rests
for minutes. A run waits for its first start only; after a failure it goes on with the tools that are known.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw, Struct

from turnbuckle.tools.confine import shown_path
from turnbuckle.tools.mcp import messages
from turnbuckle.tools.mcp.listing import MOST_PAGES, MOST_TOOLS, ListedTool, Listing, listing_of, read_page
from turnbuckle.tools.mcp.messages import Unreadable
from turnbuckle.tools.mcp.results import CallResult, read_result
from turnbuckle.tools.mcp.session import ON_LOOP, McpServerGone, McpSession, RequestRefused, read_off_loop
from turnbuckle.tools.output import kept_path
from turnbuckle.tools.private import private_file, private_folder
from turnbuckle.tools.spec import ToolContext, ToolError
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.redaction import Redactor
from turnbuckle.vocab.tooling import ToolOutcome, failed, finished, not_started, unknown
from turnbuckle.vocab.visible import visible_line

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
MOST_FAILURES = 5
REST = 600.0
"""Seconds without a try after that many failures in a row."""
STEADY = 60.0
"""Seconds of life after which a death is not a failure to start."""
SHORT_WAIT = 5.0
"""Seconds of a pause that a call waits for."""
PING_PATIENCE = 5.0
_WHY_CAP = 1000

T = TypeVar("T")
log = logging.getLogger("turnbuckle.mcp")


class ServerDown(Exception):
    """The server does not run, and is not to be had at this moment. The text says why."""


class ServerState(Struct, frozen=True):
    """How a server is, for a person."""

    name: str
    is_up: bool
    version: str
    tools: tuple[str, ...]
    left_out: tuple[str, ...]
    why: str


Connect = Callable[[McpSession], Awaitable[None]]
"""Gives a session its link. Raises ToolError and OSError."""


class McpServer:
    """`connect` starts it, or goes to where it is."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        clock: Clock,
        *,
        wanted: tuple[str, ...] = (),
        start_seconds: float = 30.0,
        client: str = "",
        redactor: Redactor | None = None,
    ) -> None:
        self.name = name
        self.listing = Listing()
        self._connect = connect
        self._clock = clock
        self._wanted = wanted
        self._start_seconds = start_seconds
        self._client = client
        self._redactor = redactor or Redactor()
        self._session: McpSession | None = None
        self._starting = asyncio.Lock()
        self._failures = 0
        self._next_try = 0.0
        self._began = 0.0
        self._why = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    @property
    def state(self) -> ServerState:
        tools = tuple(tool.offered for tool in self.listing.tools)
        session = self._session
        is_up = session is not None and not session.over.is_set()
        why = self._why or ("" if session is None else session.why)
        version = "" if session is None else session.version
        return ServerState(self.name, is_up, version, tools, self.listing.left_out, why)

    async def tools(self) -> tuple[ListedTool, ...]:
        """What it offers. The first start is waited for. After a failure it is tried again, and a list that
        changed is read again, behind the caller's back."""
        session = self._session
        if session is not None and not session.over.is_set():
            if session.list_changed:
                session.list_changed = False
                self._spawn(self._list_again(session))
            return self.listing.tools
        if session is None and self._failures == 0:
            try:
                await self._started()
            except ServerDown:
                return ()
        elif self._clock.now() >= self._next_try and not self._starting.locked():
            self._spawn(self._start_quietly())
        return self.listing.tools

    async def call(self, tool: ListedTool, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Make one call. Never raises but for a wish to stop."""
        lost: ToolOutcome | None = None
        why = ""
        for _ in range(2):
            try:
                return await self._call_once(tool, arguments, context)
            except ServerDown as down:
                return lost or not_started(f"The server {self.name} is not there: {down}.")
            except McpServerGone as gone:
                why = str(gone)
                if gone.reached:
                    lost = unknown(f"The server {self.name} was gone before it answered: {why}.")
            if lost is not None and tool.effect == "write":
                return lost
        return lost or not_started(f"The server {self.name} was gone before it was asked: {why}.")

    async def _call_once(
        self, tool: ListedTool, arguments: dict[str, Any], context: ToolContext
    ) -> ToolOutcome:
        """Raises ServerDown and McpServerGone."""
        session = await self._for_call()
        asked = {"name": tool.name, "arguments": tool.arguments(arguments)}
        try:
            found = await session.ask("tools/call", asked, context.publish)
            return await read_off_loop(found, partial(_outcome, context))
        except RequestRefused as refused:
            return failed(f"The server {self.name} refused: {refused}")
        except Unreadable as error:
            return unknown(f"The server {self.name} answered, but {error}.")
        except asyncio.CancelledError:
            self._spawn(self._end_if_it_hangs(session))
            raise

    async def close(self) -> None:
        """End it."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close("it was ended, since the program ends")

    # Its lives

    async def _for_call(self) -> McpSession:
        while self._session is None or self._session.over.is_set():
            wait = self._next_try - self._clock.now()
            if not 0 < wait <= SHORT_WAIT:
                break
            await self._clock.sleep(wait)  # a sleep may end a moment too early by another clock
        return await self._started()

    async def _started(self) -> McpSession:
        """The conversation with it, begun if there is none. Raises ServerDown."""
        async with self._starting:
            session = self._session
            if session is not None and not session.over.is_set():
                return session
            if self._is_closed:
                raise ServerDown("the program ends")
            if (wait := self._next_try - self._clock.now()) > 0:
                raise ServerDown(f"{self._why or 'it failed'}; it is tried again in {wait:.0f} s")
            return await self._start()

    async def _start(self) -> McpSession:
        session = McpSession(self.name, self._clock, self._redactor)
        self._began = self._clock.now()
        self._why = ""
        try:
            listing = await self._within(self._start_seconds, self._begin(session))
        except TimeoutError:
            why = f"it did not start within {self._start_seconds:g} s (start_seconds)"
            raise await self._failed(session, why) from None
        except (ToolError, OSError, RequestRefused, McpServerGone, Unreadable) as error:
            raise await self._failed(session, str(error)) from None
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(session.close("nobody waits for it any more")))
            raise
        self._session, self.listing = session, listing
        for why in listing.left_out:
            log.warning("a tool of the MCP server %s is not offered: %s", self.name, why)
        self._spawn(self._watched(session))
        return session

    async def _begin(self, session: McpSession) -> Listing:
        await self._connect(session)
        try:
            answered = await session.ask("initialize", messages.initialize(self._client))
            session.version = messages.agreed_version(answered)
            session.notify("notifications/initialized")
        except RequestRefused as refused:
            if refused.fault.code not in (messages.METHOD_UNKNOWN, messages.VERSION_UNKNOWN):
                raise
            session.stateless = messages.stateless_meta(self._client)
            session.version = messages.STATELESS
        return await self._listed(session)

    async def _listed(self, session: McpSession) -> Listing:
        session.list_changed = False
        written: list[Raw] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            result = await session.ask("tools/list", {} if cursor is None else {"cursor": cursor})
            page, following = await read_off_loop(result, read_page)
            written += page
            if not following or following == cursor or len(written) > 10 * MOST_TOOLS:
                break
            cursor = following
        size = sum(map(len, written))
        if size <= ON_LOOP:
            return listing_of(self.name, written, self._wanted)
        return await in_thread(lambda: listing_of(self.name, written, self._wanted))

    async def _list_again(self, session: McpSession) -> None:
        try:
            self.listing = await self._within(self._start_seconds, self._listed(session))
        except (RequestRefused, McpServerGone, Unreadable, TimeoutError) as error:
            log.warning("the MCP server %s does not tell its tools: %s", self.name, error)

    async def _failed(self, session: McpSession, why: str) -> ServerDown:
        self._note_failure(why)
        await session.close(why)
        log.warning("the MCP server %s is not there: %s", self.name, self._why)
        return ServerDown(self._why)

    def _note_failure(self, why: str) -> None:
        self._why = visible_line(self._redactor.message(why))[:_WHY_CAP]
        self._failures += 1
        pause = min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)
        self._next_try = self._clock.now() + (pause if self._failures < MOST_FAILURES else REST)

    async def _watched(self, session: McpSession) -> None:
        """Until this life is over: then what is left of it is ended, too."""
        await session.over.wait()
        if self._clock.now() - self._began >= STEADY:
            self._failures = 0
        self._note_failure(session.why)
        log.warning("the MCP server %s is gone: %s", self.name, session.why)
        await session.close(session.why)

    async def _start_quietly(self) -> None:
        try:
            await self._started()
        except ServerDown:
            return  # it is in the log

    async def _end_if_it_hangs(self, session: McpSession) -> None:
        """After a call that was given up: a server that does not even say that it lives is ended, unless
        somebody else waits for it."""
        try:
            await self._within(PING_PATIENCE, session.ask("ping", {}))
        except (TimeoutError, McpServerGone):
            if not session.is_asked:
                session.end("it did not answer any more")
        except RequestRefused:
            return  # it lives

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """Raises TimeoutError."""
        doing = asyncio.ensure_future(work)
        clock = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({doing, clock}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise TimeoutError
            return doing.result()
        finally:
            for task in (doing, clock):
                task.cancel()
            await asyncio.gather(doing, clock, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _outcome(context: ToolContext, found: bytes) -> ToolOutcome:
    result = read_result(found)
    text = "\n".join(_with_files(result, context))
    return failed(text or "It did not work.") if result.failed else finished(text)


def _with_files(result: CallResult, context: ToolContext) -> list[str]:
    """The lines of a result. What is not text is kept as a file, and named."""
    lines = list(result.lines)
    for number, one in enumerate(result.files):
        path = kept_path(context.kept / context.run, f"{context.key}:{number}", "file").with_suffix(".bin")
        try:
            private_folder(path.parent, context.data)
            private_file(path, one.data)
        except OSError as error:
            lines[one.place] += f" [not kept: {error.strerror}]"
            continue
        where = shown_path(context, path)
        lines[one.place] = f"[{one.kind}, {len(one.data):,} bytes, kept for the user as {where}]"
    return lines
