"""What the streams of a server do when a run is no longer driven: readers are told, and counted no more."""

from collections.abc import Callable

from turnbuckle.errors import ClaimLost
from turnbuckle.runtime.running import Running
from turnbuckle.server.streaming.disconnect import DisconnectPolicy
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.vocab.ids import RunId


class RunReaders:
    """Looks on at all runs, for those who read them. `gone` is told of every run that is over."""

    def __init__(
        self, disconnect: DisconnectPolicy, streamer: RunStreamer, gone: Callable[[str], None]
    ) -> None:
        self._disconnect = disconnect
        self._streamer = streamer
        self._gone = gone

    def began(self, running: Running) -> None:
        """Its readers come by themselves."""

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        self._disconnect.expect(run, on_disconnect)

    def gone(self, run: RunId, error: BaseException | None) -> None:
        self._disconnect.forget(run)
        self._gone(run)
        if isinstance(error, Exception) and not isinstance(error, ClaimLost):
            self._streamer.give_up(run, error)  # else somebody goes on with it
