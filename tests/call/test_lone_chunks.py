"""A chunk that comes alone is handed over where it arrives; all others go through the library. However the
bytes are cut into reads, what is read is the same."""

import asyncio
import itertools
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import pytest
from support.calls.attempts import request_of, route_to

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.transport import Connections, UpstreamExchange
from turnbuckle.vocab.events import Event, TextDelta
from turnbuckle.vocab.failure import Failure

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
EVENTS = (
    b"data: a\n\n",
    b"data: b\r\n\r\n",
    b"data: no end of an event",
    b"\n\n",
    b"\n",
    b"data: 5\r\n5\n\r\n",
)
END = b"0\r\n\r\n"


def chunk(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


BODY = b"".join(map(chunk, EVENTS))
EDGES = [sum(len(chunk(event)) for event in EVENTS[:count]) for count in range(1, len(EVENTS))]


@asynccontextmanager
async def silent_provider(head: bytes = b"") -> AsyncIterator[str]:
    """Answers every request with a head and says nothing more: what arrives behind it is given to the
    connection by hand, so that each read is exactly what it is said to be."""
    at_work: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_work.add(asyncio.current_task())
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD + b"connection: close\r\n" + head + b"\r\n")
            while await reader.read(1000):
                pass
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with asyncio.timeout(100), await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        await asyncio.gather(*[task for task in at_work if task is not None])


async def arrive(exchange: UpstreamExchange, reads: Iterable[bytes]) -> None:
    handler = exchange._handler
    assert handler is not None
    for read in reads:
        if handler.transport is None or handler.transport.is_closing():
            return
        handler.data_received(read)
        for _ in range(5):  # the reader comes back to its wait
            await asyncio.sleep(0)


class Line:
    """What comes of reads: all of it in order, and what of that was handed over where it arrived."""

    def __init__(self) -> None:
        self.handed: list[bytes] = []
        self.whole: list[bytes] = []

    def take(self, payload: bytes) -> None:
        self.handed.append(payload)
        self.whole.append(payload)

    async def read(self, exchange: UpstreamExchange) -> None:
        while (piece := await exchange.read()) and not isinstance(piece, Failure):
            self.whole.append(piece)
        self.whole.append(b"failed" if piece else b"")


def played(reads: list[list[bytes]], head: bytes = b"") -> list[Line]:
    """What comes of each list of reads behind such a head, on a connection of its own."""

    async def one(connections: Connections, address: str, some: list[bytes]) -> Line:
        exchange, line = connections.exchange(address, {}, b"{}"), Line()
        await exchange.send()
        exchange.hand_to(line.take)
        reading = asyncio.create_task(line.read(exchange))
        await asyncio.sleep(0)
        await arrive(exchange, some)
        await reading
        exchange.finish()
        exchange.let_go()
        return line

    async def main() -> list[Line]:
        async with silent_provider(head) as address, Connections() as connections:
            return [await one(connections, address, some) for some in reads]

    return asyncio.run(main())


def cut(data: bytes, *places: int) -> list[bytes]:
    edges = [0, *sorted(places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges) if begin < end]


def test_each_chunk_alone_is_handed_over_from_the_second_on_and_the_end_is_the_librarys():
    reads = [*map(chunk, EVENTS), END]
    (line,) = played([reads])
    # Where the first stands in its read nobody knows before; what does not end like a line is the library's.
    assert line.handed == [EVENTS[1], *EVENTS[4:]]
    assert b"".join(line.whole) == b"".join(EVENTS)


def test_wherever_the_bytes_are_cut_the_same_is_read():
    data = BODY + END
    single = [cut(data, place) for place in range(1, len(data))]
    double = [cut(data, *EDGES, place) for place in range(1, len(data))]
    apart = [cut(data, *range(1, len(data)))]
    for reads, line in zip([*single, *double, *apart], played([*single, *double, *apart]), strict=True):
        assert b"".join(line.whole) == b"".join(EVENTS), reads


@pytest.mark.parametrize(
    ("odd", "read"),
    [
        (b"5;name=value\r\ndata\n\r\n", b"data\n"),  # what stands beside a size
        (b"0005\r\ndata\n\r\n", b"data\n"),
        (b"+5\r\ndata\n\r\n", b"failed"),
        (b"0x5\r\ndata\n\r\n", b"failed"),
        (b"4\r\ndata\n\r\n", b"failed"),
    ],
)
def test_what_is_no_usual_chunk_means_what_the_library_makes_of_it(odd: bytes, read: bytes):
    (line,) = played([[chunk(EVENTS[0]), odd, END, END]])
    assert line.whole[:1] == [EVENTS[0]]
    assert line.whole[-1] == (b"failed" if read == b"failed" else b"")
    assert read in b"".join(line.whole)


def test_a_body_that_is_packed_is_never_handed_over():
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS] + [packer.flush()]
    (line,) = played([[*map(chunk, pieces), END]], b"content-encoding: gzip\r\n")
    assert line.handed == []
    assert b"".join(line.whole) == b"".join(EVENTS)


FRAME = (
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}\n\n'
)


def listened(answers: Iterable[bool | Exception]) -> tuple[str, str, BaseException | None]:
    """The words that a listener took who answers so, those that whoever iterates got, and what was raised to
    it."""
    left = iter(answers)
    taken: list[Event] = []
    got: list[Event] = []

    def listener(events: list[Event]) -> bool:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        taken.extend(events if answer else ())
        return answer

    async def read(attempt: Attempt) -> BaseException | None:
        try:
            async for events in attempt:
                got.extend(events)
        except Exception as error:
            return error
        return None

    async def main() -> BaseException | None:
        words = [chunk(FRAME % (word, b"null")) for word in (b"a", b"b", b"c", b"d")]
        last = [chunk(FRAME % (b"", b'"stop"')), chunk(b"data: [DONE]\n\n"), END]
        async with silent_provider() as address, Connections() as connections:
            attempt = Attempt(route_to(address), request_of(), connections=connections, clock=SystemClock())
            attempt.listen(listener)
            reading = asyncio.create_task(read(attempt))
            while attempt._decoder is None:
                await asyncio.sleep(0)
            assert attempt._exchange is not None
            await arrive(attempt._exchange, [*words, *last])
            return await reading

    error = asyncio.run(main())
    return words_of(taken), words_of(got), error


def words_of(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_listener_takes_a_batch_or_leaves_it_to_whoever_iterates():
    # The first read is the library's, and a last word is never offered; what is not text is.
    assert listened([True, False, True, True]) == ("bd", "ac", None)


def test_what_a_listener_raises_is_raised_to_whoever_iterates():
    taken, got, error = listened([True, ValueError("of the listener")])
    assert (taken, got, str(error)) == ("b", "a", "of the listener")


def test_a_body_that_is_no_http_before_its_head_was_read_is_a_failure_at_once_too():
    async def main() -> bytes | Failure:
        async with silent_provider() as address, Connections() as connections:
            exchange = connections.exchange(address, {}, b"{}")

            def connected() -> None:
                handler = exchange._handler
                assert handler is not None
                arrived = handler.data_received

                def head_and_more(head: bytes) -> None:
                    handler.data_received = arrived  # type: ignore[method-assign]
                    arrived(head)
                    asyncio.get_running_loop().call_soon(arrived, b"zz\r\n")

                handler.data_received = head_and_more  # type: ignore[method-assign, assignment]

            exchange.connected = connected
            await exchange.send()
            return await asyncio.wait_for(exchange.read(), 100)

    read = asyncio.run(main())
    assert isinstance(read, Failure)
