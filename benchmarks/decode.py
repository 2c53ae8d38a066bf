"""What decoding and folding costs per streamed chunk, beside the floor and the official clients.

    python benchmarks/decode.py [--chunks 2000] [--rounds 7]

All contenders read the same bytes in the same run, in turn, so that a noisy machine troubles them alike.
Times are CPU time of this process; the best of the rounds counts. Ratios are what to compare between
machines.

- parse, typed: a bare msgspec parse of each frame's JSON into the fields that are needed; no framing, no
  fold.
- parse, any: the same into plain dicts. json: the standard library's parser.
- ours: bytes to events to reply, in reads of 16 KiB (burst) and one frame per read (paced).
- SDK stream, SDK helper: the official package's raw iterator and its `.stream()` helper.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anthropic
import httpx2
import msgspec
import openai
import streams

from turnbuckle.reply.accumulate import Accumulator
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.anthropic.frames import FRAME as ANTHROPIC_FRAME
from turnbuckle.wire.gemini.frames import GEMINI_CHUNK
from turnbuckle.wire.openai_chat.frames import CHUNK
from turnbuckle.wire.openai_responses.frames import STREAM_EVENT

READ = 16 * 1024
TURN = 5
TYPED: dict[ProtocolName, "msgspec.json.Decoder[Any]"] = {
    "openai_chat": CHUNK,
    "openai_responses": STREAM_EVENT,
    "anthropic": ANTHROPIC_FRAME,
    "gemini": GEMINI_CHUNK,
}
MEASURED_SDKS = ("openai_chat", "openai_responses", "anthropic")
QUESTION: Any = [{"role": "user", "content": "hello"}]


class _Body(httpx2.SyncByteStream):
    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._reads)


def _http(reads: list[bytes]) -> httpx2.Client:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(reads))

    return httpx2.Client(transport=httpx2.MockTransport(respond))


def ours(protocol: ProtocolName, reads: list[bytes]) -> Reply:
    decoder, reply = open_answer(protocol), Accumulator()
    for read in reads:
        reply.add_all(decoder.feed(read))
    reply.add_all(decoder.close())
    return reply.snapshot()


def sdk_stream(protocol: ProtocolName, reads: list[bytes]) -> int:
    stream: Any
    if protocol == "anthropic":
        client = anthropic.Anthropic(api_key="k", http_client=_http(reads))
        stream = client.messages.create(model="m", max_tokens=64, messages=QUESTION, stream=True)
    elif protocol == "openai_chat":
        stream = _openai(reads).chat.completions.create(model="m", messages=QUESTION, stream=True)
    else:
        stream = _openai(reads).responses.create(model="m", input="hello", stream=True)
    return sum(1 for _ in stream)


def sdk_helper(protocol: ProtocolName, reads: list[bytes]) -> int:
    manager: Any
    if protocol == "anthropic":
        client = anthropic.Anthropic(api_key="k", http_client=_http(reads))
        manager = client.messages.stream(model="m", max_tokens=64, messages=QUESTION)
    elif protocol == "openai_chat":
        manager = _openai(reads).chat.completions.stream(model="m", messages=QUESTION)
    else:
        manager = _openai(reads).responses.stream(model="m", input="hello")
    with manager as stream:
        return sum(1 for _ in stream)


def _openai(reads: list[bytes]) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url="http://lab/v1", http_client=_http(reads))


def parse_each(decode: Callable[[bytes], Any], payloads: list[bytes]) -> None:
    for payload in payloads:
        decode(payload)


def best_of(rounds: int, contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """CPU seconds of each, the best of all rounds, taking turns. A turn is a few runs: the first one pays for
    the caches that the contender before it has filled with its own."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            for _ in range(TURN):
                started = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - started)
    return best


def payloads_of(frames: list[bytes]) -> list[bytes]:
    found = [frame.partition(b"data: ")[2].strip() for frame in frames]
    return [payload for payload in found if payload != b"[DONE]"]


def bursts(frames: list[bytes]) -> list[bytes]:
    body = b"".join(frames)
    return [body[at : at + READ] for at in range(0, len(body), READ)]


def contenders_for(protocol: ProtocolName, frames: list[bytes]) -> dict[str, Callable[[], Any]]:
    payloads, burst = payloads_of(frames), bursts(frames)
    sdks: dict[str, Callable[[], Any]] = {
        "SDK stream": lambda: sdk_stream(protocol, burst),
        "SDK helper": lambda: sdk_helper(protocol, burst),
    }
    sdks = sdks if protocol in MEASURED_SDKS else {}
    return {
        "parse, typed": lambda: parse_each(TYPED[protocol].decode, payloads),
        "parse, any": lambda: parse_each(msgspec.json.decode, payloads),
        "json": lambda: parse_each(json.loads, payloads),
        "ours, burst": lambda: ours(protocol, burst),
        "ours, paced": lambda: ours(protocol, frames),
        **sdks,
    }


def report_costs(chunks: int, rounds: int) -> None:
    print(f"CPU per chunk, {chunks} chunks of text, best of {rounds} rounds\n")
    print(f"{'protocol':<18}{'contender':<14}{'µs/chunk':>10}{'x typed parse':>15}{'x ours':>10}")
    for protocol in PROTOCOL_NAMES:
        frames = list(streams.TEXT[protocol](streams.words(chunks)))
        taken = best_of(rounds, contenders_for(protocol, frames))
        for name, seconds in taken.items():
            each = seconds / len(frames) * 1e6
            floor, own = seconds / taken["parse, typed"], seconds / taken["ours, burst"]
            print(f"{protocol:<18}{name:<14}{each:>10.2f}{floor:>15.2f}{own:>10.1f}")
        print()


def report_growth(rounds: int) -> None:
    print("CPU per chunk as one call's arguments grow (ours, burst)\n")
    print(f"{'protocol':<18}{'10,000 chars':>14}{'100,000 chars':>15}{'growth':>9}")
    for protocol in streams.ARGUMENTS:
        each = []
        for size in (10_000, 100_000):
            frames = list(streams.ARGUMENTS[protocol](streams.argument_pieces(size)))
            burst = bursts(frames)
            taken = best_of(rounds, {"ours": partial(ours, protocol, burst)})
            each.append(taken["ours"] / len(frames) * 1e6)
        print(f"{protocol:<18}{each[0]:>11.2f} µs{each[1]:>12.2f} µs{each[1] / each[0]:>9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    report_costs(asked.chunks, asked.rounds)
    report_growth(asked.rounds)


if __name__ == "__main__":
    main()
