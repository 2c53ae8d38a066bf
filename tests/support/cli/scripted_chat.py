"""For tests of the chat: a view that remembers what it was shown, and a backend that does what a test says."""

import asyncio
import re

from support.server.live_server import eventually

from turnbuckle.cli.backend import BackendRefused, Lost, Recap, RouteLine, Taken
from turnbuckle.cli.chat.controller import ChatController
from turnbuckle.cli.chat.printing import Typesetter
from turnbuckle.cli.chat.renderer import CommandOutput, UserWords
from turnbuckle.cli.pieces import Line, Words
from turnbuckle.runtime.environment import Environment
from turnbuckle.service.sessions import SessionChange
from turnbuckle.testing.clock import numbered
from turnbuckle.turn.facts import RunEnded, RunStarted, Streamed
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.outcome import Outcome

_SECONDS = re.compile(r"\d+\.\d s(?:, [\d,]+ tokens in)?")
_CONNECTION = re.compile(r"^conn\w+ (?:lost|again).*\n", re.M)


class RecordingView:
    """A front. `screen` is what a terminal without colours would have in its scrollback, once it is `readable`."""

    def __init__(self, width=80):
        self.pieces = []
        self.screen = ""
        self.readable = asyncio.Event()
        self.readable.set()
        self._setter = Typesetter(color=False)
        self._width = width

    async def show(self, pieces):
        self.pieces += pieces
        self.screen += self._setter.take(pieces, self._width)

    async def shown(self):
        await self.readable.wait()

    def refresh(self):
        pass

    @property
    def text(self):
        return "".join(piece.text for piece in self.pieces if isinstance(piece, Words))

    @property
    def lines(self):
        return [piece.text for piece in self.pieces if isinstance(piece, Line)]

    @property
    def replies(self):
        return [piece.text for piece in self.pieces if isinstance(piece, CommandOutput)]

    @property
    def said(self):
        return [piece.text for piece in self.pieces if isinstance(piece, UserWords)]

    @property
    def story(self):
        """The screen without what differs from one connection to the next: times, and the connection itself."""
        told = _CONNECTION.sub("", _SECONDS.sub("N s", self.screen))
        return [line for line in told[told.index("› ") :].splitlines() if line.strip()]


async def no_pause(seconds):
    await asyncio.sleep(0)


def controller_of(place, front=None, session="work", **more):
    front = RecordingView() if front is None else front
    wall, new_name = more.pop("wall", lambda: 1_000.0), more.pop("new_name", numbered())
    environment = Environment("chat", wall, no_pause, new_name)
    return ChatController(place, session, front, environment=environment, **more), front


def started(run, text, at=1_000.0):
    return RunStarted(at, RunId(run), SessionId("work"), (Message("user", (TextPart(text),)),))


def spoke(text, at=1_000.0):
    return Streamed(at, 1, (TextDelta(0, text),))


def ended(kind="completed", at=1_001.0, **more):
    return RunEnded(at, Outcome(kind, **more))


class ScriptedBackend:
    """A place whose runs are lists of facts. A number in `cuts` is a fact behind which the connection of that run is
    lost, once. With `hold`, a run waits behind its last fact until `go` is called."""

    about = "a scenario"
    stays = True

    def __init__(self, **runs):
        self.runs_told = {name: list(facts) for name, facts in runs.items()}
        self.cuts = {}
        self.begun = []
        self.answers = {}
        self.said = []
        self.say_fails = []
        self.stopped = []
        self.interrupted = []
        self.routed = []
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.changed = []
        self.given = []
        self.away = 0
        self.known: tuple[str, ...] = ()
        self.grew = asyncio.Event()

    def begin(self, run):
        self.begun.append(run)
        self.grew.set()

    def add(self, run, *facts):
        self.runs_told.setdefault(run, []).extend(facts)
        self.grew.set()

    async def _more(self):
        self.grew.clear()
        await self.grew.wait()

    async def latest(self):
        if self.away:
            self.away -= 1
            raise Lost("nobody there")
        return "work"

    async def sessions(self, words):
        return []

    async def recap(self, session):
        return Recap(bool(self.begun), "", (), self.known, "")

    async def next_run(self, session, seen):
        while True:
            for run in self.begun:
                if run not in seen:
                    return run
            await self._more()

    async def follow(self, run, after):
        while True:
            facts = self.runs_told[run][after:]
            for fact in facts:
                after += 1
                yield [(after, fact)]
                if isinstance(fact, RunEnded):
                    return
                if after in self.cuts.get(run, ()):
                    self.cuts[run].remove(after)
                    raise Lost("cut")
            if after >= len(self.runs_told[run]):
                await self._more()

    async def routes(self):
        return [RouteLine("main", "m"), RouteLine("small", "s")]

    async def say(self, session, text, busy, key, route=""):
        self.routed.append(route)
        self.said.append((text, busy, key))
        if self.say_fails:
            error = self.say_fails.pop(0)
            if error is not None:
                raise error
        run = self.answers.get(text)
        if run is None:
            raise BackendRefused("nobody answers this")
        if run not in self.begun:
            self.begin(run)
        return Taken(run)

    async def answer(self, run, approval, decision, text):
        self.given.append((run, approval, decision, text))
        return True

    async def told(self, session, command):
        return f"{command} of {session}"

    async def interrupt(self, run):
        self.interrupted.append(run)
        await self.let_go.wait()
        return True

    async def stop(self, run):
        self.stopped.append(run)
        return True

    async def change(self, session, verb, keep="", route=""):
        self.changed.append(f"{verb} {route}".rstrip())
        return SessionChange("nothing")

    async def status(self, session):
        return "Nothing runs."


def run_scenario(scenario):
    """Run a scenario on a plain loop, with patience."""

    async def main():
        async with asyncio.timeout(100):
            await scenario()

    asyncio.run(main())


__all__ = [
    "RecordingView",
    "ScriptedBackend",
    "controller_of",
    "ended",
    "eventually",
    "no_pause",
    "run_scenario",
    "spoke",
    "started",
]
