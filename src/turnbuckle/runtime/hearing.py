"""What a model says in one attempt, on its way to the journal.

A burst is filtered, looked at for reasons to halt, and given to the store. A model whose connection can say
where a burst arrives (`listen`) hands it over right there, and the run's own task sleeps on. That one is
woken for what has to be waited for: a last word, a notice, or a store that has not taken the burst before.
"""

from collections.abc import AsyncIterator, Callable

from turnbuckle.reply.free_text import FreeTextCalls
from turnbuckle.runtime.halt import Halt
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.plain_rest import RestSpeech
from turnbuckle.runtime.stream_filter import StreamFilter
from turnbuckle.vocab.events import Cut, Event

Spoken = tuple[tuple[Event, ...], str]
"""What may be shown of a burst, and what the user should know of it."""


class Hearing:
    """One attempt's. `given` is the guess for its input, in tokens."""

    def __init__(
        self,
        log: RunLog,
        attempt: int,
        speech: StreamFilter | RestSpeech,
        free_text: FreeTextCalls,
        halt: Halt,
        wall: Callable[[], float],
        given: int,
    ) -> None:
        self.last: list[Event] = []
        """The last burst that said anything."""
        self._log = log
        self._attempt = attempt
        self._speech = speech
        self._free_text = free_text
        self._halt = halt
        self._wall = wall
        self._given = given
        self._clock = log.elapsed or wall
        self._look_at = 0.0  # until then only what the model repeats can make it halt
        self._kept: tuple[list[Event], Spoken] | None = None  # heard where it arrived, and not stored there

    def join(self, bursts: AsyncIterator[list[Event]]) -> None:
        """Hear bursts where they arrive, if they can be heard there."""
        listen = getattr(bursts, "listen", None)
        if listen is not None:
            listen(self.take)

    def take(self, events: list[Event]) -> bool:
        """Hear a burst and begin to store it. False: it is to be `told` to the journal by whoever reads the
        attempt."""
        if not self._log.is_free:
            return False
        spoken, notice = self._hear(events)
        if self._speech.over or notice or (spoken and not self._store(spoken)):
            self._kept = events, (spoken, notice)
            return False
        return True

    def told(self, events: list[Event]) -> Spoken | None:
        """What of a burst is still to be stored, by somebody who can wait. None if nothing is."""
        if self._kept is not None and self._kept[0] is events:
            spoken, notice = self._kept[1]
            self._kept = None
        else:
            spoken, notice = self._hear(events)
            if spoken and not notice and self._store(spoken):
                return None
        return (spoken, notice) if spoken else None

    def _hear(self, events: list[Event]) -> Spoken:
        self.last = events or self.last
        speech, halt = self._speech, self._halt
        spoken = speech.take(self._free_text.take(events))
        if speech.repeats or self._clock() >= self._look_at:
            self._look()
        if halt.why is not None and spoken and isinstance(spoken[-1], Cut):
            spoken = (*spoken[:-1], Cut(halt.why))
        return spoken, speech.take_notice() if spoken else ""

    def _look(self) -> None:
        halt, log = self._halt, self._log
        turn, policy, now = log.fold.turn, log.fold.policy, log.moment(self._wall)
        halt.look(self._speech, turn, policy, now, self._given)
        self._look_at = self._clock() + halt.seconds_without(turn, policy, now)

    def _store(self, spoken: tuple[Event, ...]) -> bool:
        return self._log.append_soon(self._wall(), self._attempt, spoken)
