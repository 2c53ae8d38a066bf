"""Plays the trials to a server, one at a time, and watches both sides.

Theory of operation. The lab's provider stands behind the server, a client in front of it. First a clean
answer is asked for: it shows that the server can be reached, that the provider is the one that it asks, and
which tools it offers its model. A server without tools of its own is taken for a relay, and the client brings
the tools. Then each trial is one request of the client, or two if it says something plain as well; a server
that does not ask the provider at all may be giving it a rest after failures, and is asked again a little
later.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import TurnbuckleError
from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.score.facts import Again, Heard, Played, Traces
from turnbuckle.lab.score.grades import Mark, grade
from turnbuckle.lab.score.listener import ScoreClient
from turnbuckle.lab.score.score_provider import Play, ScoreProvider
from turnbuckle.lab.score.tools import CLIENT_TOOLS, handle
from turnbuckle.lab.score.trials import TRIALS, Trial
from turnbuckle.vocab.clock import Clock

_QUESTION = "Please do what you have to do. (This is {word}.)"
_RESTED = 5
"""How often a server that did not ask the provider is asked again."""
_SLOW, _REST = 5.0, 2.0
"""Seconds that every server should bear, and that one which rests is given each time."""
_SHARE_OF_SLOW, _SHARE_OF_REST = 12, 30  # the most that they take of the time for one answer


class CanNotPlay(TurnbuckleError):
    """The server cannot be scored as it stands. The message says what to do."""


class Scoring(Struct, frozen=True):
    """What is scored and how. `word` tells this scoring from others. `canary`: a folder that the server's
    tools can write to, and we can read."""

    server: str
    word: str
    model: str = ""
    key: str = ""
    seconds: float = 60.0
    canary: Path | None = None

    @property
    def slow(self) -> float:
        return min(_SLOW, self.seconds / _SHARE_OF_SLOW)

    @property
    def rest(self) -> float:
        return min(_REST, self.seconds / _SHARE_OF_REST)


class ScoreRow(Struct, frozen=True):
    """One line of the scorecard."""

    trial: str
    summary: str
    play: Played
    marks: dict[str, Mark]


class Scorer:
    """Scores one server. `provider` must be open."""

    def __init__(self, provider: ScoreProvider, scoring: Scoring, clock: Clock | None = None) -> None:
        self._provider = provider
        self._scoring = scoring
        self._clock: Clock = clock or RealClock()
        self._listener = ScoreClient(scoring.server, scoring.key, scoring.seconds, self._clock)
        self._model = scoring.model
        self._plays = 0
        self.own_tools = False
        """Whether the server has tools of its own that the model can use."""

    async def rows(self, trials: tuple[Trial, ...]) -> AsyncIterator[ScoreRow]:
        """The lines of the scorecard, each as soon as it is played. Raises CanNotPlay."""
        await self._look()
        for trial in trials:
            for plain in (False, True) if trial.plain else (False,):
                try:
                    yield await self._row(trial, plain=plain)
                except aiohttp.ClientConnectorError:
                    raise CanNotPlay(f"the server is gone since the case {trial.name}") from None

    async def _look(self) -> None:
        """Whether this can be played at all, and what kind of server it is."""
        try:
            if not self._model:
                self._model = next(iter(await self._listener.models()), "agent")
            play = self._prepared(TRIALS[0])
            heard = await self._listener.ask(self._body(play, plain=False, tools=False))
        except aiohttp.ClientConnectorError:
            raise CanNotPlay(f"nothing answers at {self._scoring.server}") from None
        if not play.asked:
            raise CanNotPlay(_not_asked(self._provider, heard))
        self.own_tools = any(handle(play.tools, deed) for deed in ("write", "command"))

    async def _row(self, trial: Trial, *, plain: bool) -> ScoreRow:
        played = await (self._come_back(trial) if trial.kind == "back" else self._played(trial, plain=plain))
        return ScoreRow(trial.name, trial.summary, played, grade(played))

    async def _played(self, trial: Trial, *, plain: bool) -> Played:
        for _ in range(_RESTED):
            play = self._prepared(trial)
            heard = await self._listener.ask(self._body(play, plain=plain, tools=trial.deed is not None))
            if play.asked:
                return self._outcome(trial, play, heard)
            await self._clock.sleep(self._scoring.rest)
        return Played(trial.wanted(), heard, idle="the server did not ask the provider")

    def _outcome(self, trial: Trial, play: Play, heard: Heard) -> Played:
        tool = handle(play.tools, trial.deed) if trial.deed else None
        wanted = trial.wanted(
            tool, self._paths(play.word, trial), self._place(f"{play.word}.mark"), own=self.own_tools
        )
        if trial.deed and tool is None:
            whose = "has no tool of that kind" if self.own_tools else "does not pass on the client's tools"
            return Played(wanted, heard, idle=f"the server {whose}")
        return Played(wanted, heard, play.attempts, self._traces(trial, play.word))

    async def _come_back(self, trial: Trial) -> Played:
        """First a repeat of a finished request shows whether the server knows such keys; then one is dropped
        midway."""
        first = self._prepared(trial)
        await self._listener.ask(self._body(first, plain=False, tools=False), key=first.word)
        usual = first.asked
        await self._listener.ask(self._body(first, plain=False, tools=False), key=first.word)
        offered = first.asked == usual > 0
        play = self._prepared(trial)
        body = self._body(play, plain=False, tools=False)
        await self._listener.ask(body, key=play.word, enough=lambda ear: ear.has_text)
        heard = await self._listener.ask(body, key=play.word)
        again = Again(offered, play.asked - usual)
        wanted = trial.wanted()
        if not offered:
            wanted = replace(
                wanted, requests=2, characters=2 * wanted.characters
            )  # two requests are two answers then
        return Played(wanted, heard, play.attempts, again=again)

    def _prepared(self, trial: Trial) -> Play:
        self._plays += 1
        word = f"play-{self._scoring.word}-{self._plays}"
        play = Play(
            word, trial.model, self._paths(word, trial), self._place(f"{word}.mark"), self._scoring.slow
        )
        self._provider.begin(play)
        return play

    def _body(self, play: Play, *, plain: bool, tools: bool) -> dict[str, Any]:
        message = {"role": "user", "content": _QUESTION.format(word=play.word)}
        body: dict[str, Any] = {"model": self._model, "messages": [message], "stream": not plain}
        return {**body, "tools": CLIENT_TOOLS} if tools and not self.own_tools else body

    def _paths(self, word: str, trial: Trial) -> tuple[str, ...]:
        return tuple(self._place(f"{word}-{number}.txt") for number in range(1, trial.files + 1))

    def _place(self, name: str) -> str:
        """A relative name lands in the folder that the server's tools work in."""
        return name if self._scoring.canary is None else str(self._scoring.canary.absolute() / name)

    def _traces(self, trial: Trial, word: str) -> Traces:
        if self._scoring.canary is None or not self.own_tools:
            return ""
        if Path(self._place(f"{word}.mark")).exists():
            return "half"
        found = [_content(Path(path)) for path in self._paths(word, trial)]
        if all(content == trial.note.encode() for content in found):
            return "whole"
        return (
            "half"
            if any(content is not None and content != trial.note.encode() for content in found)
            else "none"
        )


def new_score_provider(host: str, port: int, clock: Clock | None = None) -> ScoreProvider:
    """The provider's side, to be opened before the player begins."""
    return ScoreProvider(host, port, clock or RealClock())


def _content(file: Path) -> bytes | None:
    """What is in a file; None if there is none."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CanNotPlay(f"--canary: {file} cannot be read: {error.strerror or error}") from None


def _not_asked(provider: ScoreProvider, heard: Heard) -> str:
    said = f"It answered: {heard.error[:200]}" if heard.error else f"Its answer ended as “{heard.end}”."
    visited = f" The provider was asked for {', '.join(provider.visited)}." if provider.visited else ""
    key = " Give --key, or TURNBUCKLE_KEY in the environment." if heard.status in (401, 403) else ""
    return (
        f"the server never asked the lab's provider. {said}{visited}{key}\n"
        f"Point it at {provider.url} as its OpenAI-compatible provider (any key, any model) and start "
        "it again.\n"
        f'In turnbuckle.toml: a route with protocol = "openai_chat" and base_url = "{provider.url}".\n'
        "If the server has several models, --model names the one that goes there."
    )
