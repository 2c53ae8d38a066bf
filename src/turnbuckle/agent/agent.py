"""`Agent`: a model with tools, sessions and a journal, inside another program."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from msgspec.structs import replace

from turnbuckle.agent.approvals import Ask, Given
from turnbuckle.agent.config import USUAL, loaded_for
from turnbuckle.agent.events import Cursor, Event, read_cursor
from turnbuckle.agent.loop_thread import LoopThread, call_in
from turnbuckle.agent.result import Result
from turnbuckle.agent.run_choices import (
    OUTPUT_RETRIES,
    Budget,
    OutputForm,
    ResultOf,
    RunChoices,
    ask_again,
    result_of_tries,
)
from turnbuckle.agent.sessions import AgentSessions
from turnbuckle.agent.work import AgentRuns, Assignment, RunDeps
from turnbuckle.app import open_app, workspace_words
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.narrate.receipt import Receipt
from turnbuckle.narrate.told import QuestionAsked
from turnbuckle.observe.run_observer import RunObserver
from turnbuckle.observe.traces import Traces
from turnbuckle.runtime.context import opening, task_message
from turnbuckle.service.owners import LOCAL
from turnbuckle.service.rules import RuleView
from turnbuckle.tools.model_types import TypeMisfit
from turnbuckle.tools.modules import registry_of
from turnbuckle.tools.spec import Tool
from turnbuckle.turn.consent import Rule
from turnbuckle.turn.structured import NOT_THE_DOCUMENT
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, Part, TextPart
from turnbuckle.vocab.request import RunOptions

T = TypeVar("T")
MEMORY = ":memory:"
Family = Literal["files", "shell", "web", "ask"]
TaskWords = str | Sequence[Part]


class Agent:
    """A model with tools, sessions and a journal.

        async with Agent(model="anthropic/NAME", tools=[my_tool]) as agent:
            result = await agent.run("write hello.txt")
            print(result.outcome, result.text)

    Or without any event loop: `with Agent(…) as agent: agent.run_sync("write hello.txt")`.

    `model` is `preset/model`, a route of turnbuckle.toml, or `rehearsal`, a built-in fake model that needs no
    key; several in a list are fallbacks. With `base_url` it is the name of a model at any OpenAI-compatible
    server. Left out, it is what turnbuckle.toml says. `tools` are your own, made with `@tool`; `enable` names
    the families of built-in ones. `workspace` is where file and shell tools act. `data` holds the journal,
    `:memory:` keeps nothing. `instructions` are told to the model in front of every conversation. `approval`
    are rules such as `{"shell": "ask"}`, `ask` is the function that answers, and `attended` says that
    somebody answers by `Agent.answer` instead. `deps` is handed to tools that ask for it (`RunContext`),
    unless a run has its own. `config` is the file of settings, None for none, and
    `settings` holds more of them by their dotted keys.

    Making an agent reads the settings, and raises ConfigError. Nothing else happens before it is opened.
    """

    def __init__(
        self,
        model: str | Sequence[str] = "",
        *,
        tools: Sequence[Tool] = (),
        workspace: str | Path | None = None,
        data: str | Path | None = None,
        instructions: str = "",
        enable: Sequence[Family] | None = None,
        approval: Mapping[str, Rule] | None = None,
        ask: Ask | None = None,
        attended: bool = False,
        deps: Any = None,
        base_url: str = "",
        api_key: str | None = None,
        config: str | Path | None = USUAL,
        settings: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._in_memory = data == MEMORY
        changes: dict[str, Any] = dict(settings or {})
        for key, value in (("workspace", workspace), ("data", None if self._in_memory else data)):
            if value is not None:
                changes[key] = str(value)
        if enable is not None:
            changes["tools.enable"] = list(enable)
        if approval is not None:
            changes["tools.approval"] = dict(approval)
        self._loaded = loaded_for(
            config,
            model=model,
            base_url=base_url,
            api_key=api_key,
            changes=changes,
            environment=self._environment,
        )
        self._tools = tuple(tools)
        registry_of(self._loaded.settings.tools.enable, own=self._tools)  # so that a clash is told here
        self._instructions = instructions
        self._deps = deps
        self._ask = ask
        self._attended = attended or ask is not None
        self._stack: AsyncExitStack | None = None
        self._work: AgentRuns | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self.sessions = AgentSessions(self._here)

    # Opening and closing

    async def __aenter__(self) -> Self:
        if self._work is not None or self._stack is not None:
            raise RuntimeError("this agent is open already")
        self._stack = AsyncExitStack()
        try:
            self._work = await self._open(self._stack)
        except BaseException:
            await self._close()
            raise
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._work is not None:
                await self._work.close()
        finally:
            await self._close()

    async def _open(self, stack: AsyncExitStack) -> AgentRuns:
        loaded, journal = self._loaded, None
        if self._in_memory:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="turnbuckle-"))
            loaded = replace(loaded, settings=replace(loaded.settings, data=folder))
            journal = MemoryJournal()
        sight, deps = RunObserver((Traces(),)), RunDeps(self._deps)
        opened = await stack.enter_async_context(
            open_app(
                loaded,
                self._environment,
                attended=self._attended,
                watch=sight,
                tools=self._tools,
                journal_given=journal,
                deps=deps.of,
            )
        )
        told = (Message("system", (TextPart(self._instructions),)),) if self._instructions else ()
        return AgentRuns(opened, (*opened.runs.rules.opening, *told), self._ask, sight.gone, deps)

    async def _close(self) -> None:
        stack, self._stack, self._work, self._loop = self._stack, None, None, None
        if stack is not None:
            await stack.aclose()

    def __enter__(self) -> Self:
        if self._thread is not None or self._work is not None:
            raise RuntimeError("this agent is open already")
        self._thread = LoopThread()
        try:
            call_in(self._thread.loop, self.__aenter__())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        try:
            call_in(self._thread.loop, self.__aexit__())
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def _here(self) -> AgentRuns:
        """The open agent, for whoever is in its event loop."""
        if self._work is None:
            raise RuntimeError("this agent is not open: use it inside `async with Agent(…) as agent:`")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this agent lives in another event loop: open it with `async with` here, or use agent.sync(…)"
            )
        return self._work

    # Runs

    @overload
    async def run(
        self,
        task: TaskWords,
        *,
        output_type: type[T],
        output_retries: int = OUTPUT_RETRIES,
        **choices: Unpack[RunChoices],
    ) -> ResultOf[T]: ...

    @overload
    async def run(
        self, task: TaskWords, *, output_type: None = None, **choices: Unpack[RunChoices]
    ) -> Result: ...

    async def run(
        self,
        task: TaskWords,
        *,
        output_type: type[Any] | None = None,
        output_retries: int = OUTPUT_RETRIES,
        **choices: Unpack[RunChoices],
    ) -> Result:
        """Carry out a task to its end.

        `session` is the conversation that it belongs to, a new one if left out. `key` makes the task count
        once: the same key with the same task gives the same run, also after a crash, which then goes on where
        it was. `busy` says what happens while another run is under way in the session: queue, steer,
        interrupt or refuse. `route` is the one to begin with, `budget` what this run may use at most,
        `instructions` take the place of all others in this run, and `deps` is handed to its tools.

        With `output_type` (a pydantic model, a dataclass, a struct …) the answer has that form, and is in
        `output`. One that does not fit is asked for again, at most `output_retries` times, by a run of its
        own in the same session.

        However the run goes, that is in the result. Raises SessionBusy where it is refused, KeyReused,
        RunUnfinished if the run was lost, and what the journal raises. If the caller is cancelled the run is
        stopped first, and what it did and said is kept."""
        if output_type is None:
            return await self._run(self._assignment(task, choices))
        return await self._run_to(self._assignment(task, choices), OutputForm(output_type), output_retries)

    async def _run(self, task: Assignment) -> Result:
        work = self._here()
        begun = await work.begin(task)
        try:
            return await work.result(begun.run)
        except asyncio.CancelledError:
            await work.ended_for(begun)
            raise
        finally:
            work.detach(begun)

    async def _run_to(self, task: Assignment, form: OutputForm[T], retries: int) -> ResultOf[T]:
        """Until the answer has its form, or no try is left."""
        task = replace(task, options=replace(task.options, response_format=form.response_format))
        tries: list[Result] = []
        while True:
            tries.append(last := await self._run(task))
            if last.outcome not in ("completed", "partial"):
                return result_of_tries(tries, None)
            try:
                return result_of_tries(tries, form.read(last))
            except TypeMisfit as misfit:
                if len(tries) > retries or not (last.ok or last.why.startswith(NOT_THE_DOCUMENT)):
                    return result_of_tries(tries, None, str(misfit))
                key = f"{task.key}~{len(tries)}" if task.key else ""
                task = replace(task, message=task_message(ask_again(misfit)), session=last.session, key=key)

    def _assignment(self, task: TaskWords, choices: RunChoices) -> Assignment:
        budget, instructions = choices.get("budget") or Budget(), choices.get("instructions", "")
        options = RunOptions(
            route=RouteName(choices.get("route", "")),
            max_tool_calls=budget.tool_calls,
            limits=budget.limits,
        )
        first = opening(workspace_words(self._loaded.settings), instructions) if instructions else None
        return Assignment(
            _message(task),
            choices.get("session", ""),
            choices.get("busy"),
            choices.get("key", ""),
            options,
            first,
            choices.get("deps"),
        )

    async def stream(self, task: TaskWords, **choices: Unpack[RunChoices]) -> AsyncGenerator[Event]:
        """Carry out a task and tell what happens, as it happens; the last event is `Ended`. The same as `run`
        in everything else. Whoever leaves the loop early has the run stopped: use `start` and `follow` for
        one that is to go on."""
        work = self._here()
        begun = await work.begin(self._assignment(task, choices))
        try:
            async with aclosing(work.follow(begun.run, Cursor(begun.after))) as events:
                async for event in events:
                    yield event
        except (asyncio.CancelledError, GeneratorExit):
            if self._work is work:
                await work.ended_for(begun)
            raise
        finally:
            work.detach(begun)

    async def start(self, task: TaskWords, **choices: Unpack[RunChoices]) -> str:
        """Begin a run that goes on by itself, and give its id. It is stored when this returns."""
        work = self._here()
        begun = await work.begin(self._assignment(task, choices))
        work.detach(begun)
        return begun.run

    async def follow(self, run: str, *, after: str | int = "") -> AsyncGenerator[Event]:
        """Tell what happens in a run: everything behind the cursor of an event, then what comes, to its end.
        Any number of tasks may follow one run, and leaving changes nothing for it. Raises RunUnknown,
        CursorGone, and RunUnfinished where the run has no end and nobody drives it."""
        work = self._here()
        known = await work.runs.find(run)
        async with aclosing(work.follow(known.run, read_cursor(after))) as events:
            async for event in events:
                yield event

    async def wait(self, run: str) -> Result:
        """Wait for the end of a run, or look at one that has ended. Raises RunUnknown and RunUnfinished."""
        work = self._here()
        return await work.result((await work.runs.find(run)).run)

    async def interrupt(self, run: str, by: str = "user") -> Receipt:
        """End a run, within a second, and say what was stopped. The conversation is kept: the next run of its
        session is told that it was interrupted, and what had been done. Raises RunUnknown."""
        return await self._here().interrupt(run, by)

    async def stop(self, run: str, by: str = "user") -> Receipt:
        """The same by force: the next message of its session starts fresh. Raises RunUnknown."""
        return await self._here().stop(run, by)

    async def resume(self, run: str = "") -> tuple[str, ...]:
        """Go on with a run that has no end, or with all of them: after a crash, or when an agent was closed
        before. The ids of those that were taken up; `follow` and `wait` tell the rest. What was done is not
        done again. Raises RunUnknown and SessionBusy for a run that is named."""
        return await self._here().resume(run)

    # People

    async def approvals(self) -> tuple[QuestionAsked, ...]:
        """What waits for a person, in any run that is driven here."""
        return await self._here().questions()

    async def answer(self, asked: QuestionAsked, answer: Given, by: str = "user") -> bool:
        """Answer what a run asks: True or False to a call that needs consent, a text to a question.
        `Allow(always=True)` keeps the rules that the question names, `Deny("…")` has words for the model. The
        first answer counts, and is stored; False if nobody waits for this one any more."""
        return await self._here().answer(asked, answer, by)

    async def rules(self) -> tuple[RuleView, ...]:
        """What was always allowed, here or elsewhere on the same data folder or database."""
        return tuple(await self._here().rules.list(LOCAL))

    async def remove_rule(self, rule: str) -> None:
        """Take one of them away by its id: the next such call is asked about. Raises NotFound."""
        await self._here().rules.remove(rule, LOCAL)

    # Without an event loop

    def sync(self, work: "Coroutine[Any, Any, T]") -> T:
        """Wait for anything of this agent from plain code: `agent.sync(agent.sessions.list())`. The agent is
        open by `with`, or in another thread. Ctrl-C stops the run cleanly."""
        loop = self._loop
        running = _running_loop()
        if loop is None or running is loop:
            work.close()
            if loop is None:
                raise RuntimeError("this agent is not open: use it inside `with Agent(…) as agent:`")
            raise RuntimeError(
                "this is the agent's own event loop, which cannot wait for itself: use `await` here"
            )
        return call_in(loop, work)

    @overload
    def run_sync(
        self,
        task: TaskWords,
        *,
        output_type: type[T],
        output_retries: int = OUTPUT_RETRIES,
        **choices: Unpack[RunChoices],
    ) -> ResultOf[T]: ...

    @overload
    def run_sync(
        self, task: TaskWords, *, output_type: None = None, **choices: Unpack[RunChoices]
    ) -> Result: ...

    def run_sync(self, task: TaskWords, **choices: Any) -> Result:
        """`run` for plain code. An agent that is not open is opened for this one task. It also works in a
        notebook, where an event loop runs already, and holds that up meanwhile."""
        if self._loop is None and self._thread is None:
            with self:
                opened: Result = self.run_sync(task, **choices)
                return opened
        result: Result = self.sync(self.run(task, **choices))
        return result

    def stream_sync(self, task: TaskWords, **choices: Unpack[RunChoices]) -> Iterator[Event]:
        """`stream` for plain code, inside `with`. Leaving the loop early stops the run."""
        events = self.stream(task, **choices)
        try:
            while (event := self.sync(_next(events))) is not None:
                yield event
        finally:
            if self._loop is not None:
                self.sync(events.aclose())


def _message(task: TaskWords) -> Message:
    if isinstance(task, str):
        if not task.strip():
            raise ValueError("the task is empty")
        return task_message(task)
    if not task:
        raise ValueError("the task is empty")
    return Message("user", tuple(task))


async def _next(events: AsyncGenerator[Event]) -> Event | None:
    return await anext(events, None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
