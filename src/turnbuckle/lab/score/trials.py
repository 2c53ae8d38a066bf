"""The trials of the scorecard, and what a good server makes of each."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.lab.score import model
from turnbuckle.lab.score.facts import Expectation
from turnbuckle.lab.score.model import Model, broken, half
from turnbuckle.lab.score.tale import LEFT, NOTE, PIPES, SHORT_NOTE, TALE, WRITTEN
from turnbuckle.lab.score.tools import Deed, Handle
from turnbuckle.lab.script import CutOff, Error, Finish, Garbage, Stall, Status
from turnbuckle.lab.script_text import ScriptError, nearest

Kind = Literal["text", "write", "command", "back"]


class Trial(Struct, frozen=True):
    """One line of the scorecard. `requests`: how many a careful server needs until the model has said all.
    `usual`: played unless others are named. `plain`: also played with a request that is not streamed."""

    name: str
    summary: str
    model: Model
    kind: Kind = "text"
    answer: str = TALE
    note: str = ""
    files: int = 1
    requests: int = 2
    cut_call: bool = False
    heals: bool = True
    usual: bool = True
    plain: bool = False

    @property
    def deed(self) -> Deed | None:
        """What the model must have a tool for."""
        return self.kind if self.kind in ("write", "command") else None

    def wanted(
        self, tool: Handle | None = None, paths: tuple[str, ...] = (), mark: str = "", *, own: bool = False
    ) -> Expectation:
        """What a good server makes of it. `own`: the tools are the server's, so it does what the model
        wants."""
        wanted = Expectation(self.answer, (), self.cut_call, False, own, self.heals, self.requests)
        if self.kind != "write" or tool is None:
            size = (
                len(model.cut_command(tool, mark)) if tool is not None else 0
            )  # nobody can spare the model that
            return replace(wanted, characters=size + len(self.answer))
        size = sum(len(tool.text(self.note, path)) for path in paths)
        if not own:
            calls = tuple(tool.arguments(self.note, path) for path in paths)
            return replace(wanted, answer="", calls=calls, characters=size)
        size += len(WRITTEN)
        return replace(wanted, answer=WRITTEN, writes=True, requests=self.requests + 1, characters=size)


_ERROR = Error("server", "the engine failed", "server_error")
_NETWORK_ERROR = Finish("stop", "network_error")
_LIMITED = Status(429, "slow down", "rate_limit_exceeded", {"retry-after": "1"})

TRIALS: tuple[Trial, ...] = (
    Trial("clean", "a clean answer", model.goes_on, requests=1, plain=True),
    Trial("slow-first-byte", "silent for a while, then the answer", model.slow, requests=1),
    Trial("stall-in-text", "half an answer, then nothing forever", broken(half(Stall("forever"), at="end"))),
    Trial("only-comments", "half an answer, then comments forever", model.only_comments),
    Trial("reset-in-text", "a reset inside a word", broken(half(CutOff("reset"))), plain=True),
    Trial(
        "close-in-text", "closed in mid-text, without the body's end", broken(half(CutOff("fin"), at="space"))
    ),
    Trial("end-without-finish", "a body that ends in mid-text", broken(half(CutOff("tidy"))), plain=True),
    Trial(
        "repeats-at-the-seam",
        "a reset; going on, the model says some words again",
        broken(half(CutOff("reset")), overlap=model.OVERLAP),
    ),
    Trial("error-in-text", "an error event in mid-text", broken(half(_ERROR))),
    Trial("finish-network-error", "half an answer, finish `network_error`", broken(half(_NETWORK_ERROR))),
    Trial("bare-done", "half an answer, `[DONE]`, no reason", broken(half(*model.BARE_DONE))),
    Trial(
        "two-reasons", "half an answer, `length`, then `stop`", broken(half(*model.TWO_REASONS)), heals=False
    ),
    Trial("hole-in-text", "an event in mid-text that cannot be read", broken(model.hole())),
    Trial("rate-limited-once", "429 with Retry-After: 1, then works", broken((_LIMITED,))),
    Trial("server-error-once", "500, then works", broken((Status(500),)), plain=True),
    Trial("html-page-once", "a proxy's page under status 200, then works", broken((Garbage("html"),))),
    Trial(
        "split-unicode", "every byte in a write of its own", model.in_bytes(PIPES), answer=PIPES, requests=1
    ),
    Trial(
        "cut-in-arguments",
        "a reset inside a call's arguments",
        model.writes(model.cut_call),
        "write",
        note=SHORT_NOTE,
        cut_call=True,
    ),
    Trial(
        "lying-finish",
        "half a call, finish `tool_calls`",
        model.writes(model.lying_call),
        "write",
        note=SHORT_NOTE,
        cut_call=True,
    ),
    Trial("cut-in-command", "a reset inside a command", model.commands, "command", LEFT, cut_call=True),
    Trial(
        "long-write",
        "13,000 characters to write; closed after 4,000 each",
        model.writes_much,
        "write",
        note=NOTE,
        requests=4,
        cut_call=True,
    ),
    Trial(
        "calls-on-one-index",
        "two calls on index 0 with different ids",
        model.on_one_index,
        "write",
        note=SHORT_NOTE,
        files=2,
        requests=1,
    ),
    Trial(
        "call-told-twice",
        "a call, then the whole message again",
        model.told_twice,
        "write",
        note=SHORT_NOTE,
        requests=1,
    ),
    Trial("comes-back", "the client drops, and repeats under its key", model.pauses, "back", requests=1),
    # Less telling, or told by one of the others
    Trial(
        "whole-call",
        "a whole call",
        model.writes(model.whole_call),
        "write",
        note=SHORT_NOTE,
        requests=1,
        usual=False,
    ),
    Trial(
        "length", "half an answer, finish `length`", broken(half(Finish("length"))), heals=False, usual=False
    ),
    Trial("cut-in-a-frame", "closed inside an event", broken(half(CutOff("fin", "frame"))), usual=False),
    Trial(
        "cut-in-a-character",
        "closed inside a character",
        broken(half(CutOff("fin", "character"))),
        usual=False,
    ),
    Trial("closed-at-once", "closes instead of answering", broken((CutOff("fin"),)), usual=False),
    Trial("silent-at-first", "never answers the first request", broken((Stall("forever"),)), usual=False),
    Trial("error-at-once", "an error as the first event", broken((_ERROR,)), usual=False),
    Trial("empty-body", "200 and not a byte, then works", broken((Garbage("empty"),)), usual=False),
    Trial(
        "fails-twice", "500, 503, then works", broken((Status(500),), (Status(503),)), requests=3, usual=False
    ),
)
USUAL: tuple[Trial, ...] = tuple(trial for trial in TRIALS if trial.usual)


def find_trials(names: str) -> tuple[Trial, ...]:
    """The trials of these names, with commas between. Raises ScriptError with the nearest match."""
    known = {trial.name: trial for trial in TRIALS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ScriptError(f'unknown case "{name}"{nearest(name, known)} There are: {", ".join(known)}')
    return tuple(known[name] for name in dict.fromkeys(wanted))
