"""What happens, line by line, for people and for programs, without content and without secrets.

Theory of operation. `RunLines` writes the story of each run from its facts: what began, broke, was decided,
ran and ended, in our own words. What was asked, said or printed is not in them, nor are the words of a
provider, unless `content` is asked for. `open_log` gives the whole process one log in one of two forms. A
line is made where it is logged, and written by a thread: whoever reads the log may be slow, and runs do not
wait for it.
"""

import functools
import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, cast

import msgspec

from turnbuckle.observe.run_observer import CallStats, RunStats
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    Decided,
    Fact,
    GiveUp,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.turn.labels import short_argument
from turnbuckle.vocab.redaction import Redactor
from turnbuckle.vocab.visible import visible_line

Form = Literal["text", "json"]
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Set while a request is handled. What is begun meanwhile keeps it, so the lines of a run name the
request."""

MOST_WAITING = 10_000
"""Lines that may wait to be written: megabytes, minutes of a busy server. What comes then is lost, and
counted."""
_LINE = 8_000  # characters of a message
_TRACE = 100  # lines of a stack trace; its end tells most
_PATIENCE = 2.0
_REST = 0.02  # seconds in which lines gather, once one was written: each wake-up of a thread costs the others
_AT_ONCE = 100  # lines that are written in one piece
_SHORT = 80  # characters of a field that is remembered
_REMEMBERED = 512
_OWN_ID = re.compile(r"(?:[a-z]\d{8}-\d{6}-[0-9a-f]{12}|req_[0-9a-f]{24})")
_UNWRITTEN = ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing")


class _OwnRecord(logging.LogRecord):
    """A line of ours with what is written of it, and nothing else."""

    def __init__(
        self, name: str, level: int, words: str, args: tuple[Any, ...], told: dict[str, Any]
    ) -> None:
        self.__dict__ = {**_EVERY_RECORD, **told, "name": name, "msg": words, "args": args}
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.created = time.time()


_EVERY_RECORD: dict[str, Any] = {
    **logging.makeLogRecord({}).__dict__,
    **dict.fromkeys(("thread", "threadName", "process", "processName")),
}


def say(logger: logging.Logger, level: int, words: str, *args: Any, **told: Any) -> None:
    """Log a line of ours, with the fields that it is `told`."""
    if logging.logThreads:  # somebody else's log, which may write more of it
        logger.log(level, words, *args, extra=told)
    elif logger.isEnabledFor(level):
        logger.handle(_OwnRecord(logger.name, level, words, args, told))


class _Form(logging.Formatter):
    """What both forms have in common: each text goes out without secrets."""

    _named: tuple[str, ...] = ("run", "session", "request_id", "event")
    """What a line belongs to."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        # Ids, routes and the like come again with every line of a run.
        self._short = functools.lru_cache(_REMEMBERED)(self._clean_short)

    def _clean_field(self, text: str) -> str:
        return self._short(text) if len(text) <= _SHORT else self._clean(text)

    def _clean_short(self, text: str) -> str:
        return text if _OWN_ID.fullmatch(text) else self._clean(text)  # an id is chance, and nothing else

    def _message(self, record: logging.LogRecord) -> str:
        """Lines of ours say the same again and again, with other numbers in it."""
        args = record.args
        if not (args and isinstance(args, tuple) and hasattr(record, "event")):
            return self._clean(record.getMessage())
        for each in args:
            if not isinstance(each, (str, int, float)):
                return self._clean(record.getMessage())
        return str(record.msg) % tuple(
            [self._clean_field(each) if isinstance(each, str) else each for each in args]
        )

    def _clean(self, text: str) -> str:
        """As any terminal and any UTF-8 can carry it, on one line of bounded length."""
        return visible_line(self._redactor.sample(text[: 4 * _LINE], cut=len(text) > 4 * _LINE)[:_LINE])

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        told, found = record.__dict__, {}
        for name in self._named:
            value = told.get(name) or (request_id.get() if name == "request_id" else "")
            if value:
                text = str(value)
                found[name] = self._short(text) if len(text) <= _SHORT else self._clean(text)
        return found

    def _trace(self, record: logging.LogRecord) -> list[str]:
        if not record.exc_info:
            return []
        return [self._clean(line) for line in self.formatException(record.exc_info).splitlines()[-_TRACE:]]


class PlainForm(_Form):
    """Time, level, message, and behind it what the line belongs to."""

    _named = ("run", "session", "request_id")

    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={value}" for name, value in self._fields(record).items()]
        line = " ".join([_stamp(record), f"{record.levelname:<7}", self._message(record), *fields])
        return "\n    ".join([line, *self._trace(record)])


class JsonForm(_Form):
    """One object per line: ts, level, message, then run, session, request_id and event where there are any,
    then what the event has to tell."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _stamp(record),
            "level": record.levelname.lower(),
            "message": self._message(record),
            "logger": record.name,
            **self._fields(record),
        }
        details: dict[str, Any] = getattr(record, "details", {})
        for name, value in details.items():
            line.setdefault(name, self._clean_field(value) if isinstance(value, str) else value)
        if trace := self._trace(record):
            line["error"] = "\n".join(trace)
        return msgspec.json.encode(line).decode()


def _stamp(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.created % 1 * 1000):03d}Z"


@functools.lru_cache(4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class LineWriter(logging.Handler):
    """Writes lines in a thread of its own. If nobody takes them in time they are counted, not kept."""

    def __init__(self, stream: TextIO, form: logging.Formatter, most: int = MOST_WAITING) -> None:
        super().__init__()
        self.setFormatter(form)
        self.lost = 0
        self._stream = stream
        self._most = most
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # half the price of a Queue
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() < self._most:  # one at a time is here, by the lock of every handler
            self._lines.put(self.format(record))
        else:
            self.lost += 1

    def close(self) -> None:
        """Write what waits, if it can be written."""
        super().close()
        self._closing.set()
        self._lines.put(None)
        self._thread.join(_PATIENCE)

    def _write(self) -> None:
        told = 0
        is_open = True
        while is_open:
            lines = self._gathered()
            if is_open := lines[-1] is not None:
                lines.append("")
            else:
                lines[-1] = ""
            if self.lost > told:
                lines[-1], told = f"{self._told(self.lost - told)}\n", self.lost
            try:
                self._stream.write("\n".join(cast(list[str], lines)))
                self._stream.flush()
            except (OSError, ValueError):  # the other end is closed
                self.lost += len(lines) - 1
            if self._lines.empty():
                self._closing.wait(_REST)

    def _gathered(self) -> list[str | None]:
        """What waits to be written, up to the word that nothing follows. It goes out in one piece: each write
        makes this thread and the loop wait for each other."""
        lines = [self._lines.get()]
        while lines[-1] is not None and len(lines) < _AT_ONCE and not self._lines.empty():
            lines.append(self._lines.get())
        return lines

    def _told(self, lost: int) -> str:
        words = f"{lost} log lines were dropped: the log was read too slowly"
        return self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, words, None, None))


@contextmanager
def open_log(
    form: Form, redactor: Redactor, stream: TextIO | None = None, level: int = logging.INFO
) -> Iterator[LineWriter]:
    """One log for the whole process, other packages included; those only with their warnings."""
    made = JsonForm(redactor) if form == "json" else PlainForm(redactor)
    writer = LineWriter(stream if stream is not None else sys.stderr, made)
    root, ours = logging.getLogger(), logging.getLogger("turnbuckle")
    before = ours.level
    root.addHandler(writer)
    ours.setLevel(level)
    try:
        with _only_what_is_written():
            yield writer
    finally:
        ours.setLevel(before)
        root.removeHandler(writer)
        writer.close()


@contextmanager
def open_plain_log(form: Form, redactor: Redactor) -> Iterator[logging.Handler]:
    """The same without a thread, for a process that forks and says little."""
    handler, ours = logging.StreamHandler(sys.stderr), logging.getLogger("turnbuckle")
    handler.setFormatter(JsonForm(redactor) if form == "json" else PlainForm(redactor))
    before = ours.level
    logging.getLogger().addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield handler
    finally:
        ours.setLevel(before)
        logging.getLogger().removeHandler(handler)


@contextmanager
def _only_what_is_written() -> Iterator[None]:
    """By itself every line is asked for its thread, its process and its place in the code, which costs as
    much as all the rest of it. None of that stands in ours; these are the switches that the handbook of
    `logging` names for it."""
    before = {name: getattr(logging, name) for name in _UNWRITTEN}
    try:
        for name in _UNWRITTEN:
            setattr(logging, name, None)
        yield
    finally:
        for name, value in before.items():
            setattr(logging, name, value)


class RunLines:
    """An onlooker that logs. With `content`, lines also tell what a tool was called with and what a provider
    said."""

    def __init__(self, logger: logging.Logger | None = None, *, content: bool = False) -> None:
        self._logger = logger if logger is not None else logging.getLogger("turnbuckle.run")
        self._content = content

    def take(self, run: RunStats, fact: Fact) -> None:
        match fact:
            case RunStarted():
                self._say(run, "run_started", "run started")
            case RunClaimed():
                self._say(run, "run_resumed", "run resumed", epoch=fact.epoch)
            case Decided():
                self._decided(run, fact)
            case ToolStarted():
                named = f" {short_argument(fact.arguments)}".rstrip() if self._content else ""
                self._say(
                    run, "tool_started", f"{fact.name} started{named}", tool=fact.name, call=fact.call_id
                )
            case ToolFinished():
                self._tool_finished(run, fact)
            case ApprovalAsked():
                told: dict[str, Any] = {"approval": fact.approval, "kind": fact.kind, "tool": fact.name}
                self._say(run, "approval_asked", f"{fact.name} waits for approval ({fact.kind})", **told)
            case ApprovalAnswered():
                told = {"approval": fact.approval, "verdict": fact.verdict, "by": fact.by}
                self._say(run, "approval_answered", f"{fact.approval} {fact.verdict}", **told)
            case StopAsked():
                self._say(run, "stop_asked", f"stop requested by {fact.by}", by=fact.by)
            case RunLeft():
                self._say(run, "run_left", f"run released: {fact.why}")
            case RunEnded():
                self._ended(run, fact)
            case _:
                pass

    def over(self, run: RunStats, call: CallStats) -> None:
        asked, failure = call.asked, call.failure
        told: dict[str, Any] = {
            "route": asked.route,
            "model": asked.model,
            "attempt": asked.attempt,
            "why": asked.why,
        }
        told["seconds"] = round(call.seconds, 3)
        if failure is None:
            words = f"model call {asked.attempt} on {asked.route} ended after {call.seconds:.1f} s"
            self._say(run, "model_call_ended", words, finish=call.finish, **told)
            return
        clock = f" ({failure.clock})" if failure.clock is not None else ""
        words = (
            f"model call {asked.attempt} on {asked.route} broke after {call.seconds:.1f} s: "
            f"{failure.kind}{clock}"
        )
        told |= {"kind": failure.kind, "clock": failure.clock, "status": failure.status}
        told["provider_request"] = failure.request_id
        if self._content:
            told["said"] = failure.message
        level = logging.INFO if failure.kind == "cancelled" else logging.WARNING
        self._say(run, "model_call_broke", words, level, **told)

    def gone(self, run: RunStats) -> None:
        self._say(
            run, "run_lost", "this process no longer drives the run, which has not ended", logging.WARNING
        )

    def _decided(self, run: RunStats, fact: Decided) -> None:
        tag = str(fact.decision.__struct_config__.tag)
        kept = f", {fact.gained:,} characters kept, {fact.lost:,} lost" if fact.gained or fact.lost else ""
        told = {"attempt": fact.attempt, "verdict": fact.verdict, "decision": tag, "tool": fact.tool}
        level = logging.WARNING if isinstance(fact.decision, GiveUp) else logging.INFO
        words = f"{fact.verdict.replace('_', ' ')}: {tag.replace('_', ' ')}{kept}"
        self._say(run, "decided", words, level, gained=fact.gained, lost=fact.lost, **told)

    def _tool_finished(self, run: RunStats, fact: ToolFinished) -> None:
        told = fact.outcome
        level = logging.WARNING if told.fact == "unknown" or told.survivors else logging.INFO
        words = f"{fact.name} {told.status.replace('_', ' ')} after {told.seconds:.1f} s"
        details = {
            "tool": fact.name,
            "call": fact.call_id,
            "status": told.status,
            "seconds": round(told.seconds, 3),
        }
        self._say(run, "tool_finished", words, level, exit_code=told.exit_code, **details)

    def _ended(self, run: RunStats, fact: RunEnded) -> None:
        outcome, seconds = fact.outcome, max(fact.at - run.began_at, 0.0)
        why = outcome.failure.kind if outcome.failure is not None else ""
        words = f"run {outcome.kind} after {seconds:.1f} s{f': {why}' if why else ''}"
        details: dict[str, Any] = {"outcome": outcome.kind, "seconds": round(seconds, 3), "failure": why}
        if self._content:
            details["why"] = outcome.why
        level = logging.WARNING if outcome.kind in ("partial", "failed") else logging.INFO
        self._say(run, "run_ended", words, level, drafts=len(outcome.drafts), **details)

    def _say(self, run: RunStats, event: str, words: str, level: int = logging.INFO, **details: Any) -> None:
        if self._logger.isEnabledFor(level):
            told = {name: value for name, value in details.items() if value not in (None, "")}
            say(self._logger, level, "%s", words, run=run.run, session=run.session, event=event, details=told)
