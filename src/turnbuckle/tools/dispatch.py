"""One call in, one outcome out. Nothing raises past this.

Theory of operation. The tool works in a task of its own. Three things can end the wait for it: the tool
itself, its time limit, and the run's stop signal. In the last two cases the task is cancelled, and then
waited for a little: a tool that can say what it did before it was stopped returns an outcome, and one that
was done anyway returns its result, which is the truth and is told as such. A tool that does not react is left
behind and named.

To stop a call and learn its outcome, set the context's `stop`. Cancelling the task that waits in `run` also
ends the tool, but then the outcome is lost with the task.
"""

import asyncio
import dataclasses
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from turnbuckle.objects.port import ObjectStoreError
from turnbuckle.tools.confine import shown_path
from turnbuckle.tools.kept_objects import KeptArea, kept_runs
from turnbuckle.tools.model_types import plain_value
from turnbuckle.tools.output import Capture, LiveLines, capped, encodable, kept_path
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.schema import Misfit
from turnbuckle.tools.spec import ProbeAnswer, RunnableCall, Tool, ToolContext, ToolError
from turnbuckle.tools.threads import Threaded, in_thread
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.redaction import Redaction, Redactor
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus, failed, finished, not_started

STOP_PATIENCE = 3.0
"""Seconds that a tool is waited for after it was told to stop. The shell needs less than one."""
THREAD_PATIENCE = 0.5
"""The same for a plain function, which can only be asked."""
MESSAGE_CAP = 500
LONGEST_ON_LOOP = 200_000
"""Characters of a result that may be looked through for secrets without a thread."""

_left_behind: set[asyncio.Task[ToolOutcome]] = set()


class Dispatcher:
    """Runs calls against a registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def faults(self, call: RunnableCall) -> str | None:
        """Why this call cannot run, or None. It runs nothing."""
        found = self.registry.get(call.name)
        if found is None:
            return self.registry.unknown(call.name)
        try:
            found.shape.read(call.arguments)
        except Misfit as error:
            return f"The arguments do not fit {call.name}. {error}"
        return None

    async def run(self, call: RunnableCall, context: ToolContext) -> ToolOutcome:
        """Carry out one call."""
        redactor = context.redactor
        found = self.registry.get(call.name)
        faults = self.faults(call)
        if found is None or faults is not None:
            return _polished(not_started(faults or ""), call, context, redactor)
        refusal = await _refusal(call, context, redactor)
        if refusal is not None:
            return _polished(refusal, call, context, redactor)
        judged = found.name if found.subject == "path" else ""
        mine = dataclasses.replace(context, key=_key(call, context), stopping=threading.Event(), tool=judged)
        printed = _Printed(mine, call, redactor)
        changes: list[FileChange] = []
        mine = dataclasses.replace(mine, publish=printed.add, changed=changes.append)
        started = context.clock.now()
        try:
            mine = dataclasses.replace(mine, readable=await _readable(call, mine))
            if mine.objects is not None:
                bringing = mine.objects.bring_named(call.arguments, mine.may_read_kept)
                await _unless_stopped(mine, bringing)
            outcome = await _supervised(found, found.shape.read(call.arguments), mine, redactor)
        except ObjectStoreError as error:
            outcome = not_started(f"A whole output that it needs cannot be read now. {error}")
        finally:
            printed.close()
        seconds = max(0.0, context.clock.now() - started)
        outcome = msgspec.structs.replace(outcome, seconds=seconds, changes=tuple(changes))
        outcome = printed.filled_in(outcome)
        if len(outcome.text) > LONGEST_ON_LOOP and context.threads:
            outcome = await in_thread(lambda: _polished(outcome, call, mine, redactor))
        else:
            outcome = _polished(outcome, call, mine, redactor)
        await _shared(outcome, mine)
        return outcome

    async def preview(self, call: RunnableCall, context: ToolContext) -> FileChange | None:
        """What a call would do to a file, if its tool can tell. It changes nothing."""
        found = self.registry.get(call.name)
        if found is None or found.preview is None or self.faults(call) is not None:
            return None
        judged = found.name if found.subject == "path" else ""
        mine, look = dataclasses.replace(context, tool=judged), found.preview
        try:
            if not context.threads:
                return look(call.arguments, mine)
            return await in_thread(lambda: look(call.arguments, mine))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return FileChange("", note=f"what it would change is not known: {_message(error, mine.redactor)}")

    async def probe(self, call: RunnableCall, context: ToolContext) -> ProbeAnswer:
        """Whether a call that was started in an earlier life of this process was carried out."""
        found = self.registry.get(call.name)
        if found is None or found.probe is None or self.faults(call) is not None:
            return "unknown"
        mine = dataclasses.replace(context, key=_key(call, context))
        answer = found.probe
        try:
            return await in_thread(lambda: answer(call.arguments, mine))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            context.publish(f"The probe of {call.name} failed: {_message(error, context.redactor)}\n")
            return "unknown"


class _Printed:
    """What a tool prints while it works: shown live, and kept as its result or as the beginning of one. It
    can be called from any thread. What comes after the end of the call is dropped."""

    def __init__(self, context: ToolContext, call: RunnableCall, redactor: Redactor) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._capture = Capture(context.output_cap, _kept(context, call, "printed"))
        publish = context.publish
        self._live = LiveLines(lambda text: publish(encodable(text)))
        self._redaction = Redaction(redactor)
        self._over = False

    def add(self, text: str) -> None:
        if self._over:
            return
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.add, text)
            return
        self._show(self._redaction.add(text))

    def _show(self, text: str) -> None:
        self._capture.add(text)
        self._live.add(text)

    def close(self) -> None:
        if not self._over:
            self._show(self._redaction.close())
        self._over = True
        self._live.close()
        self._capture.close()

    def filled_in(self, outcome: ToolOutcome) -> ToolOutcome:
        """A stopped tool's output is partial; one that printed and returned nothing printed its result."""
        if not self._capture.total:
            return outcome
        kept = self._capture.kept_at
        kept_at = outcome.kept_at if kept is None else str(kept)
        if outcome.fact == "stopped":
            return msgspec.structs.replace(outcome, partial_output=self._capture.text, kept_at=kept_at)
        if outcome.fact == "ended" and not outcome.text:
            return msgspec.structs.replace(outcome, text=self._capture.text, kept_at=kept_at)
        return outcome


async def _refusal(call: RunnableCall, context: ToolContext, redactor: Redactor) -> ToolOutcome | None:
    answer = asyncio.create_task(_decided(call, context, redactor))
    stops = _stop_tasks(context)
    try:
        await asyncio.wait({answer, *stops}, return_when=asyncio.FIRST_COMPLETED)
        if any(one.done() for one in stops) or (context.stop is not None and context.stop.is_set()):
            return not_started("The run was stopped before it.")
        return answer.result()
    finally:
        for task in (answer, *stops):
            task.cancel()


async def _decided(call: RunnableCall, context: ToolContext, redactor: Redactor) -> ToolOutcome | None:
    try:
        denied = await context.decide(call)
    except Exception as error:
        return not_started(f"Whether it is allowed could not be found out. {_message(error, redactor)}")
    return None if denied is None else ToolOutcome("denied", denied.why)


def _stop_tasks(context: ToolContext) -> set[asyncio.Task[bool]]:
    return set() if context.stop is None else {asyncio.create_task(_set(context.stop))}


async def _set(stop: asyncio.Event) -> bool:
    return bool(await stop.wait())


async def _supervised(
    one: Tool, values: dict[str, Any], context: ToolContext, redactor: Redactor
) -> ToolOutcome:
    try:
        limit = one.seconds(values)
    except Exception as error:
        return not_started(f"Its time limit could not be found out. {_message(error, redactor)}")
    work = asyncio.create_task(_worked(one, values, context, redactor), name=f"tool {one.name}")
    clock = asyncio.create_task(context.clock.sleep(limit))
    stops = _stop_tasks(context)
    try:
        await asyncio.wait({work, clock, *stops}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return failed(f"{one.name} cancelled itself.") if work.cancelled() else work.result()
        why: ToolStatus = "killed" if any(task.done() for task in stops) else "timed_out"
        return await _stopped(one, work, why, context)
    except asyncio.CancelledError:
        ending = asyncio.create_task(
            _stopped(one, work, "killed", context)
        )  # a second cancellation does not end it
        _left_behind.add(ending)
        ending.add_done_callback(_left_behind.discard)
        await asyncio.wait({ending})
        raise
    finally:
        for task in (clock, *stops):
            task.cancel()


async def _stopped(
    one: Tool, work: asyncio.Task[ToolOutcome], why: ToolStatus, context: ToolContext
) -> ToolOutcome:
    if not context.stopping.is_set():  # a tool that is asked twice would let go of what it is just ending
        context.stopping.set()
        work.cancel()
    patience = asyncio.create_task(context.clock.sleep(STOP_PATIENCE))
    await asyncio.wait({work, patience}, return_when=asyncio.FIRST_COMPLETED)
    patience.cancel()
    if not work.done():
        _left_behind.add(work)
        work.add_done_callback(_left_behind.discard)
        return ToolOutcome(why, survivors=(one.name,))
    if work.cancelled():
        return ToolOutcome(why)
    outcome = work.result()
    return msgspec.structs.replace(outcome, status=why) if outcome.status == "killed" else outcome


async def _worked(one: Tool, values: dict[str, Any], context: ToolContext, redactor: Redactor) -> ToolOutcome:
    """The tool's own outcome. Only cancellation comes out of here as an exception."""
    try:
        if not one.blocking:
            return _as_outcome(await one.invoke(values, context))
        if not context.threads:
            return _as_outcome(one.invoke(values, context))
        return _as_outcome(await _in_a_thread(one, values, context))
    except ToolError as error:
        return failed(str(error))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _is_ctrl_c(one, context):
            raise
        return failed(f"{one.name} failed. {_message(error, redactor)}")


def _is_ctrl_c(one: Tool, context: ToolContext) -> bool:
    """Whether somebody may have pressed it: that is only ever told to the main thread. Elsewhere the tool
    itself raised it, which must not end the loop that everybody waits for."""
    in_own_thread = one.blocking and context.threads
    return not in_own_thread and threading.current_thread() is threading.main_thread()


async def _in_a_thread(one: Tool, values: dict[str, Any], context: ToolContext) -> Any:
    work = Threaded(lambda: one.invoke(values, context), name=f"tool {one.name}")
    try:
        return await work.result()
    except asyncio.CancelledError:
        patience = asyncio.create_task(context.clock.sleep(THREAD_PATIENCE))
        ended = asyncio.create_task(work.wait())
        await asyncio.wait({patience, ended}, return_when=asyncio.FIRST_COMPLETED)
        patience.cancel()
        ended.cancel()
        if work.ended:
            return await work.result()
        return ToolOutcome("killed", survivors=(f"the thread of {one.name}",))


def _as_outcome(given: Any) -> ToolOutcome:
    if isinstance(given, ToolOutcome):
        return given
    if given is None or isinstance(given, str):
        return finished(given or "")
    try:
        return finished(msgspec.json.encode(given, enc_hook=plain_value).decode("utf-8"))
    except (
        TypeError,
        ValueError,
        RecursionError,
        msgspec.MsgspecError,
    ):  # it ran all the same, and must not be called for again
        return finished(f"It is done. What it returned ({type(given).__name__}) cannot be shown as JSON.")


def _polished(
    outcome: ToolOutcome, call: RunnableCall, context: ToolContext, redactor: Redactor
) -> ToolOutcome:
    """Without secrets, within the cap, and such that JSON can hold it."""
    clean = encodable(redactor.text(outcome.text))
    text, kept_at = capped(clean, context.output_cap, _kept(context, call, "text"))
    kept = Path(outcome.kept_at) if outcome.kept_at is not None else kept_at
    return msgspec.structs.replace(
        outcome,
        text=text,
        partial_output=encodable(redactor.text(outcome.partial_output)),
        killed=tuple(encodable(redactor.message(name)) for name in outcome.killed),
        survivors=tuple(encodable(redactor.message(name)) for name in outcome.survivors),
        kept_at=None if kept is None else encodable(shown_path(context, kept)),
    )


async def _readable(call: RunnableCall, context: ToolContext) -> frozenset[str]:
    """The runs of the same owner whose whole outputs a call names. Where that cannot be found out, none."""
    if context.owns is None:
        return frozenset()
    named = kept_runs(call.arguments) - {context.run}
    return frozenset([run for run in sorted(named) if await context.owns(run)])


async def _shared(outcome: ToolOutcome, context: ToolContext) -> None:
    """Before the result is stored, what it speaks of is where other nodes find it."""
    if context.objects is None or not context.run:
        return
    left: list[tuple[KeptArea, str]] = []
    if outcome.kept_at is not None:
        left.append(("kept", Path(outcome.kept_at).name))
    kept = [change for change in outcome.changes if change.kept]
    left.extend(("changes", mark) for change in kept for mark in (change.before, change.after) if mark)
    await _unless_stopped(context, context.objects.stored(context.run, dict.fromkeys(left)))


async def _unless_stopped(context: ToolContext, work: Coroutine[Any, Any, object]) -> None:
    """Wait for a store, and no longer than anybody wants the call at all."""
    doing, stops = asyncio.create_task(work), _stop_tasks(context)
    try:
        await asyncio.wait({doing, *stops}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
    finally:
        for task in (doing, *stops):
            task.cancel()


def _key(call: RunnableCall, context: ToolContext) -> str:
    return context.key or f"{context.run}:{call.id}"


def _kept(context: ToolContext, call: RunnableCall, what: str) -> Path:
    return kept_path(context.kept / context.run, f"{context.key}:{what}", call.name)


def _message(error: BaseException, redactor: Redactor) -> str:
    try:
        said = str(error)
    except Exception as worse:
        said = f"(and its text failed: {type(worse).__name__})"
    said = f"{type(error).__name__}: {said}"
    return redactor.sample(said[: 8 * MESSAGE_CAP], cut=len(said) > 8 * MESSAGE_CAP)[:MESSAGE_CAP]
