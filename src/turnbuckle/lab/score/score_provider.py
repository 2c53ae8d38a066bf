"""The provider's side of a scorecard: one play at a time, and a record of what was asked and what was really
sent.

The question of each play holds a word of its own. A request with the word of an earlier play is a straggler
of that one: it gets a clean answer and counts for nobody.
"""

import re
from collections.abc import Iterator

from turnbuckle.lab.actions import Action, SendHead, Write
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.score.facts import ProviderAttempt, SeenCall
from turnbuckle.lab.score.model import Model, PlayState
from turnbuckle.lab.score.tools import OfferedTool, flat_text, offered, results
from turnbuckle.lab.script import Case, Finish, LabRequest, Say, Script
from turnbuckle.reply.accumulate import Accumulator
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.events import Ended
from turnbuckle.vocab.reply import ReplyCall
from turnbuckle.wire.answer import open_answer

_WORD = re.compile(r"play-[0-9a-f]{12}-\d+")
_STRAY: Script = (Say("That question is over."), Finish())


class _OpenRequest:
    """One request while it is answered."""

    def __init__(self, request: LabRequest, number: int) -> None:
        self.request = request
        self.number = number
        self._decoder = open_answer(request.protocol)
        self._reply = Accumulator()

    def note(self, action: Action) -> None:
        match action:
            case SendHead():
                self._decoder = open_answer(
                    self.request.protocol, status=action.status, headers=action.headers
                )
            case Write():
                self._reply.add_all(self._decoder.feed(action.data))
            case _:
                pass

    def attempt(self) -> ProviderAttempt:
        """As far as it got."""
        reply = self._reply.snapshot()
        calls = [block for block in reply.blocks if isinstance(block, ReplyCall)]
        handed = tuple(SeenCall(call.id, call.name, call.arguments) for call in calls)
        return ProviderAttempt(reply.text, handed, results(self.request), isinstance(reply.last, Ended))


class Play:
    """What the provider does for one request of the client, and what it saw of it."""

    def __init__(self, word: str, model: Model, paths: tuple[str, ...], mark: str, slow: float) -> None:
        self.word = word
        self._model = model
        self._paths = paths
        self._mark = mark
        self._slow = slow
        self._records: list[_OpenRequest] = []

    @property
    def attempts(self) -> tuple[ProviderAttempt, ...]:
        return tuple(record.attempt() for record in self._records)

    @property
    def asked(self) -> int:
        return len(self._records)

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools of its first request."""
        return offered(self._records[0].request) if self._records else ()

    def record(self, request: LabRequest) -> _OpenRequest:
        self._records.append(_OpenRequest(request, len(self._records) + 1))
        return self._records[-1]

    def script(self, record: _OpenRequest) -> Script:
        return self._model(PlayState(record.request, record.number, self._paths, self._mark, self._slow))


class ScoreProvider:
    """An async context manager: the lab's provider, which does for each play what its model wants."""

    def __init__(self, host: str, port: int, clock: Clock) -> None:
        self._play: Play | None = None
        self._under_way: dict[int, _OpenRequest] = {}
        case = Case("score", "what the scorecard plays", ((self._steps,),))
        self.provider = Provider(case, cases=(), host=host, port=port, clock=clock, watch=self._watch)

    async def __aenter__(self) -> "ScoreProvider":
        await self.provider.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.provider.__aexit__(*error)

    @property
    def url(self) -> str:
        return f"{self.provider.url}/v1"

    @property
    def visited(self) -> tuple[str, ...]:
        """The paths that anybody asked for, to explain a set-up that does not work."""
        return tuple(dict.fromkeys(f"{request.method} {request.path}" for request in self.provider.requests))

    def begin(self, play: Play) -> None:
        self._play = play

    def _watch(self, request: LabRequest, actions: Iterator[Action]) -> Iterator[Action]:
        words = set(_WORD.findall(flat_text(request.body)))
        if self._play is None or (words and self._play.word not in words):
            return actions
        record = self._under_way[request.number] = self._play.record(request)
        return self._noted(record, request.number, actions)

    def _noted(self, record: _OpenRequest, number: int, actions: Iterator[Action]) -> Iterator[Action]:
        try:
            for action in actions:
                yield action
                record.note(action)
        finally:
            self._under_way.pop(number, None)

    def _steps(self, request: LabRequest) -> Script:
        record = self._under_way.get(request.number)
        return _STRAY if record is None or self._play is None else self._play.script(record)
