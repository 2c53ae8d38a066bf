"""Is the server alive, is it ready, and what does it count? For balancers, supervisors and Prometheus."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from turnbuckle import __version__
from turnbuckle.journal.port import Changes, Journal, JournalError, StorageError
from turnbuckle.journal.trouble import PROBE, PROBED
from turnbuckle.observe.metrics import CONTENT_TYPE
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.service import store_words

_FRESH = 2.0  # seconds for which one look at the journal counts, so that balancers do not write all the time
_PATIENCE = 2.0  # seconds after which a write that is not done says as much as one that failed
_STATE = {
    "type": "object",
    "required": ["status"],
    "properties": {name: {"type": "string"} for name in ("status", "version", "node")},
}
_NOT = {
    "type": "object",
    "required": ["status", "why"],
    "properties": {name: {"type": "string"} for name in ("status", "why", "code", "fix", "node")},
}

log = logging.getLogger("turnbuckle.server")


class Readiness:
    """Whether new work is welcome. `stopping` tells whether the server is on its way out."""

    def __init__(self, journal: Journal, stopping: Callable[[], bool]) -> None:
        self._journal = journal
        self._stopping = stopping
        self._looked = -_FRESH
        self._found = READY

    async def state(self) -> "State":
        """All of it."""
        if self._stopping():
            return State("the server is stopping")
        now = asyncio.get_running_loop().time()
        is_denied = self._found is READY and self._journal.trouble() is not None
        if now - self._looked >= _FRESH or is_denied:
            self._looked = now
            self._found = await self._look()
        return self._found

    async def _look(self) -> "State":
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._journal.note(PROBE, PROBED)  # makes it
                # A disk may take what it cannot keep.
                await self._journal.change_all(Changes(notes=[(PROBE, PROBED)]))
                await self._journal.look()
        except StorageError as error:
            return _not_ready(error.fault, str(error))
        except TimeoutError:
            return _not_ready("slow", f"a write takes longer than {_PATIENCE:g} seconds")
        except JournalError as error:
            log.error("the server is not ready: %s", error)
            return State("the journal cannot be written", store_words.code("failed"))
        trouble = self._journal.trouble()
        return READY if trouble is None else _not_ready(trouble.fault, trouble.why)


class State(Struct, frozen=True):
    """Why the server is not ready, a word for programs, and what helps."""

    why: str = ""
    code: str = ""
    fix: str = ""


READY = State()


def _not_ready(fault: str, detail: str) -> State:
    log.error("the server is not ready: %s", detail)
    return State(store_words.words(fault), store_words.code(fault), store_words.TO_DO.get(fault, ""))


def health_endpoints(
    readiness: Readiness, metrics: Callable[[], Awaitable[bytes]], node: str = ""
) -> tuple[Endpoint, ...]:
    """The endpoints. `metrics` gives the text that Prometheus reads. `node` is the name of this process among
    several that share an address."""
    named = {"node": node} if node else {}

    async def alive(exchange: Exchange) -> Answer:
        return json_answer({"status": "ok", "version": __version__, **named})

    async def ready(exchange: Exchange) -> Answer:
        state = await readiness.state()
        if state.why:
            answer = {"status": "not ready", "why": state.why, **named}
            answer |= {"code": state.code, "fix": state.fix} if state.code else {}
            return json_answer(answer, 503, (("retry-after", "5"),))
        return json_answer({"status": "ready", **named})

    async def count(exchange: Exchange) -> Answer:
        return Answer(200, await metrics(), (), CONTENT_TYPE)

    fine, busy = Given("Yes.", _STATE), Given("No; `why` says why not.", _NOT)
    counters = Given("Counters.", None, "text/plain")
    return (
        Endpoint(
            "GET",
            "/healthz",
            alive,
            Operation("alive", "Is it alive?", "health", answers={200: (fine,)}),
            True,
        ),
        Endpoint(
            "GET",
            "/readyz",
            ready,
            Operation("ready", "Is new work welcome?", "health", answers={200: (fine,), 503: (busy,)}),
            True,
        ),
        Endpoint(
            "GET", "/metrics", count, Operation("metrics", "Counters", "health", answers={200: (counters,)})
        ),
    )
