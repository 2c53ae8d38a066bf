"""One chat: what is typed goes to a session, and what happens there is shown.

Three things go on at once. Runs are followed one after the other, as they begin in the session, whoever began
them. What was typed is carried out in its order; a message whose connection was lost is sent again under the
same key. And a question that a run asks waits for its answer. All of them share one way of coming back after
a lost connection (`reconnect`).

A message stands in the live part of the screen from the moment it is typed until its run says that it begins,
so it is shown once, in its place. A line that was begun before a question appeared is not an answer to it.
"""

import asyncio
from collections.abc import Awaitable
from typing import Literal

from turnbuckle.cli.approvals import arguments_text, question_text, read_answer
from turnbuckle.cli.backend import Lost, Merged, Numbered, SessionBackend
from turnbuckle.cli.chat.commands import ChatMessage, Command, Wrong, parse
from turnbuckle.cli.chat.interrupt import Interrupter
from turnbuckle.cli.chat.look_ups import (
    LISTS,
    carried_out,
    change_text,
    diff_pieces,
    route_named,
    routes_text,
)
from turnbuckle.cli.chat.own_commands import OwnCommands, UsersMachine, shown
from turnbuckle.cli.chat.reconnect import Reconnect
from turnbuckle.cli.chat.renderer import MOST_SAID, ChatPiece, ChatRunRenderer, CommandOutput, UserWords
from turnbuckle.cli.chat.view import ChatView, View
from turnbuckle.cli.exits import FAILED, OK, UNFINISHED, USAGE_ERROR, exit_code
from turnbuckle.cli.follow import STATUS_AFTER
from turnbuckle.cli.pieces import Break, Line, Words, drawn
from turnbuckle.cli.waiting import words as waiting_words
from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import JournalError
from turnbuckle.narrate.questions import asked as asked_of
from turnbuckle.narrate.questions import question_lines
from turnbuckle.runtime.environment import Environment
from turnbuckle.service.runs import Decision
from turnbuckle.session.facts import Busy
from turnbuckle.tools.spec import ToolError
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, RunEnded

Entered = Literal["refused", "taken", "command", "answer", "quit"]
_MOST_TYPED = 100  # lines that may wait to be carried out; a session takes as many messages
_RECAP = 800  # characters of an earlier answer that are shown when a chat opens
_NOBODY = "Nobody is there to ask."


class ChatController:
    """A chat on a session of a place. `patience` is for how many seconds a lost connection is tried again;
    None: forever. Unattended, every question is answered with no. `route` is the one that was asked for
    before anything was said."""

    def __init__(
        self,
        place: SessionBackend,
        session: str,
        front: ChatView,
        *,
        environment: Environment,
        reasoning: bool = False,
        attended: bool = True,
        patience: float | None = None,
        route: str = "",
    ) -> None:
        self.session = session
        self.code = OK
        """The exit code of the last turn."""
        self.busy: Busy | None = None
        self._first_route = route
        self._place = place
        self._front = front
        self._reasoning = reasoning
        self._attended = attended
        self.machine: UsersMachine | None = None
        """That of a person who types; a pipe has none."""
        self._sleep = environment.sleep
        self._wall = environment.wall
        self._new_name = environment.new_name
        self._typed: asyncio.Queue[Command | ChatMessage] = asyncio.Queue(_MOST_TYPED)
        self._pending: dict[str, str] = {}  # messages by their keys, until a run takes them up
        self._awaited: set[str] = set()  # runs that answer us and have not ended
        self._over: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._connection = Reconnect(place, front, environment.sleep, patience)
        self._tasks: set[asyncio.Future[None]] = set()
        self._following: asyncio.Future[None] | None = None
        self._working: asyncio.Future[None] | None = None
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has an error of our own, if there is one: a chat that goes on without one of its halves would
        hang."""
        self._interrupter = Interrupter(place, front, environment.sleep, self._spawn)
        self._forget()

    def _forget(self) -> None:
        """Everything that belongs to one session."""
        self.route = self._first_route
        """On which the agent runs, if one was chosen here."""
        self._seen: set[str] = set()
        self._run = ""
        self._interrupter.watch("")
        self._last_run = ""
        self._renderer = ChatRunRenderer(self._reasoning)
        self._skew = 0.0
        self._asked: dict[str, ApprovalAsked] = {}
        self._put = ""  # the question that is shown, or about to be
        self._shown = ""

    # From its beginning to its end

    async def open(self, *, quietly: bool = False) -> None:
        """Show where the session stands, and begin to follow it; quietly: without what was said before.
        Raises Lost, Refused."""
        recap = await self._place.recap(self.session)
        self._seen = set(recap.known)
        head = f"session {self.session}{f', {recap.title}' if recap.title else ''}, {self._place.about}"
        pieces: list[ChatPiece] = [CommandOutput(f"{head}. /help lists the commands.")]
        for past in () if quietly else recap.past:
            pieces += [UserWords(past.said), Words(_short(past.answer)), Break()]
            if past.outcome != "completed":
                pieces.append(Line(f"{past.outcome}{f': {past.why}' if past.why else ''}"))
        if recap.running:
            pieces.append(CommandOutput("a run is under way here:"))
        await self._front.show(pieces)
        self._following = self._spawn(self._follow_all())
        self._working = self._working or self._spawn(self._work())

    async def close(self) -> None:
        for task in (tasks := set(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def settled(self) -> None:
        """Wait until all that was typed is carried out and answered."""
        await self._typed.join()
        await self._idle.wait()
        if told := self._tasks - {self._following, self._working}:
            await asyncio.wait(told)

    async def switch(self, session: str) -> None:
        """Go on in another session. What runs in this one goes on."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        self.session = session
        self._forget()
        self._pending.clear()
        self._awaited.clear()
        self._idle.set()
        await self.open()

    # What the front asks and tells

    @property
    def question(self) -> ApprovalAsked | None:
        """What waits for an answer, the oldest first, once it was shown: nobody says yes to what they have
        not seen."""
        return next(iter(self._asked.values()), None) if self._shown == self._next else None

    @property
    def asking(self) -> str:
        """A name for that question. Each run numbers its own from the start, so the run is a part of it."""
        return self._shown if self.question is not None else ""

    @property
    def _next(self) -> str:
        return f"{self._run}:{next(iter(self._asked))}" if self._asked else ""

    @property
    def _own(self) -> OwnCommands | None:
        return None if self.machine is None else self.machine.commands

    def view(self) -> View:
        running = bool(self._run)
        words = ""
        if running:
            now = self._wall() - self._skew
            if now - self._renderer.waiting.since >= STATUS_AFTER:
                words = waiting_words(self._renderer.waiting, now)
        live = tuple(self._renderer.live()) if running else ()
        meter = self._renderer.meter.words
        queued, own = tuple(self._pending.values()), self._own.running if self._own is not None else ""
        return View(running, live, words, queued, self.question, self._connection.lost, meter, own)

    def entered(self, text: str, about: str = "") -> Entered:
        """Take a line. `about` is what was `asking` when the line was begun. `refused`: it cannot be
        meant, and the line is better left where it is."""
        said = text.strip()
        if not said:
            return "taken"
        line, question = parse(said, own_commands=self._own is not None), self.question
        if question is not None and about == self.asking and isinstance(line, ChatMessage):
            return self._answered(question, said)
        if (
            question is None
            and self._asked
            and isinstance(line, ChatMessage)
            and said.lower() in ("y", "yes")
        ):
            return self._refuse("a question comes: read it first")
        match line:
            case Wrong(why):
                return self._refuse(why)
            case Command("quit"):
                return "quit"
            case Command("args"):
                shown = "nothing is asked" if question is None else arguments_text(question.arguments)
                self._spawn(self._front.show([CommandOutput(shown)]))
                return "command"
            case _ if self._typed.full():
                return self._refuse(f"{_MOST_TYPED} lines wait already")
            case _:
                self._idle.clear()
                self._typed.put_nowait(line)
        return "command" if isinstance(line, Command) else "taken"

    def interrupt(self) -> Literal["stopping", "leave", "idle"]:
        """Somebody wants it to stop. A command of the user's own comes first."""
        if self._own is not None and self._own.stop():
            return "stopping"
        return self._interrupter.press()

    @property
    def is_stopping(self) -> bool:
        """The run was asked to end already."""
        return self._interrupter.is_stopping

    def _refuse(self, why: str) -> Entered:
        self.code = USAGE_ERROR
        self._spawn(self._front.show([CommandOutput(why, "notice")]))
        return "refused"

    def _spawn(self, work: Awaitable[None]) -> "asyncio.Future[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Future[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.broken.done():
            self.broken.set_exception(error)

    # Carrying out

    async def _work(self) -> None:
        while True:
            line = await self._typed.get()
            try:
                await self._carry_out(line)
            except (TurnbuckleError, JournalError, ToolError) as error:
                self.code = FAILED
                await self._front.show([CommandOutput(str(error), "bad")])
            finally:
                self._typed.task_done()
                self._look_whether_idle()
                self._front.refresh()

    async def _carry_out(self, line: Command | ChatMessage) -> None:
        match line:
            case ChatMessage(text):
                await self._send(text, self.busy)
            case Command("interrupt", ""):
                if self._run:
                    await self._place.interrupt(self._run)
                else:
                    await self._tell("nothing runs")
            case Command("queue" | "steer" | "interrupt" as busy, text):
                await self._send(text, busy)
            case Command("busy", mode):
                self.busy = mode or self.busy  # type: ignore[assignment]
                await self._tell(f"a message while something runs: {self.busy or 'as the settings say'}")
            case Command("reasoning", word):
                self._reasoning = word == "on" if word else not self._reasoning
                self._renderer.reasoning = self._reasoning
                await self._tell(f"reasoning is {'shown' if self._reasoning else 'not shown'}")
            case Command("session", name):
                await self.switch(name)
            case Command("model", ""):
                await self._tell(await routes_text(self._place, self.session, self.route))
            case Command("model", name):
                self.route = await route_named(self._place, name)
                await self._tell(f"the agent runs on {self.route} from the next message on")
            case Command("!", command) if self._own is not None:
                await self._tell(shown(await self._own.run(command)))
            case Command("share", words) if self._own is not None:
                await self._send(self._own.message(words), self.busy, named=False)
            case Command("diff", path):
                await self._front.show(await diff_pieces(self._place, self._run or self._last_run, path))
            case Command("compact", rest):
                await self._send(f"/compact {rest}".rstrip(), None, repeated=False)  # a run of its own
            case Command("context" | "cost" | "tools" as word):
                await self._tell(await self._place.told(self.session, f"/{word}"))
            case Command("rules", rest):
                await self._tell(await self._place.told(self.session, f"/rules {rest}".rstrip()))
            case Command("undo", "compaction"):
                await self._tell(change_text(await self._place.change(self.session, "undo_compaction")))
            case Command("stop" | "new" | "reset" | "undo" | "retry" as verb, name):
                route = await route_named(self._place, name) if name else ""
                done = await self._place.change(self.session, verb, route=route)
                if verb in ("stop", "new", "reset"):
                    self._pending.clear()
                    self._awaited &= {self._run}
                if done.did == "retried" and done.run is not None:
                    self._await(done.run)
                elif verb == "stop":  # about the run: behind the paragraph that it leaves open
                    await self._front.show([Line(change_text(done), "notice")])
                else:
                    await self._tell(change_text(done))
            case Command():
                told = await carried_out(line, self._place, self.session, self._run or self._last_run)
                await self._front.show([CommandOutput(told, rows=line.word in LISTS)])

    async def _tell(self, text: str) -> None:
        await self._front.show([CommandOutput(text)])

    async def _send(self, text: str, busy: Busy | None, *, repeated: bool = True, named: bool = True) -> None:
        """`repeated`: the run shows these words when it has them, and until then they wait. `named`: an `@`
        in them names a file; in the output of a command it may be anything."""
        if named and self.machine is not None and self.machine.files is not None and "@" in text:
            text = await asyncio.to_thread(self.machine.files.named, text)
        key, route = self._new_name("k"), self.route
        self._pending[key] = text
        self._front.refresh()
        try:
            taken = await self._connection.steadily(
                lambda: self._place.say(self.session, text, busy, key, route)
            )
        except BaseException:
            self._pending.pop(key, None)
            raise
        if not repeated:
            self._pending.pop(key, None)
        self._await(taken.run)
        self._front.refresh()

    def _await(self, run: str) -> None:
        if run not in self._over:
            self._awaited.add(run)

    def _look_whether_idle(self) -> None:
        if self._typed.empty() and not self._awaited:
            self._idle.set()

    # Answering

    def _answered(self, question: ApprovalAsked, text: str) -> Entered:
        decision, words = read_answer(question, text)
        if decision is None:
            always = "a always allows it, " if question.always else ""
            return self._refuse(f"y allows it, {always}n denies it; you may add a reason after the n")
        self._asked.pop(question.approval, None)
        self._spawn(self._answer(self._run, question.approval, decision, words))
        self._front.refresh()
        return "answer"

    async def _answer(self, run: str, approval: str, decision: Decision, text: str) -> None:
        try:
            if not await self._connection.steadily(lambda: self._place.answer(run, approval, decision, text)):
                await self._front.show([CommandOutput("this question is no longer open", "notice")])
        except (TurnbuckleError, JournalError) as error:
            await self._front.show([CommandOutput(f"the answer was not taken: {error}", "bad")])
        await self._ask_next()

    async def _ask_next(self) -> None:
        name = self._next
        if not name or name == self._put:
            return
        self._put, question = name, next(iter(self._asked.values()))
        title = self._renderer.title if question.kind == "approval" else ""
        about: list[ChatPiece] = [*drawn(question_lines(asked_of(self._run, question, title=title)))]
        await self._front.show([Break(), *about, CommandOutput(f"? {question_text(question)}", "notice")])
        await self._front.shown()  # only then is its answer read
        self._shown = name
        self._front.refresh()
        if not self._attended:
            self._asked.pop(question.approval, None)
            decision: Decision = "answer" if question.kind == "question" else "deny"
            await self._answer(self._run, question.approval, decision, _NOBODY)

    # Following

    async def _follow_all(self) -> None:
        try:
            while True:
                run = await self._connection.steadily(lambda: self._place.next_run(self.session, self._seen))
                self._seen.add(run)
                await self._follow(run)
        except (TurnbuckleError, JournalError) as error:
            self.code = UNFINISHED
            self._awaited.clear()
            self._idle.set()
            await self._front.show(
                [CommandOutput(f"this session cannot be followed any more: {error}", "bad")]
            )

    async def _follow(self, run: str) -> None:
        self._run = run
        self._interrupter.watch(run)
        self._renderer, self._skew = ChatRunRenderer(self._reasoning), self._wall()
        tries = 0
        while True:
            count = self._connection.count
            try:
                async for facts in self._place.follow(run, self._renderer.after):
                    tries = 0
                    await self._take(facts)
                break
            except Merged:
                self._renderer = self._renderer.again(self._reasoning)
            except Lost as error:
                await self._connection.come_back(error, count, tries)
                tries += 1
            except TurnbuckleError as error:
                self.code = UNFINISHED
                await self._front.show([CommandOutput(str(error), "bad")])
                break
        self._run, self._last_run = "", run
        self._interrupter.watch("")
        self._asked.clear()
        self._over.add(run)
        self._awaited.discard(run)
        self._look_whether_idle()
        self._front.refresh()

    async def _take(self, facts: list[Numbered]) -> None:
        pieces: list[ChatPiece] = []
        for seq, fact in facts:
            pieces += self._renderer.take(seq, fact)
            self._skew = min(self._skew, self._wall() - fact.at)
            match fact:
                case ApprovalAsked():
                    self._asked[fact.approval] = fact
                case ApprovalAnswered():
                    self._asked.pop(fact.approval, None)
                case RunEnded():
                    self.code = exit_code(fact.outcome)
        for piece in pieces:
            if isinstance(piece, UserWords):
                self._taken_up(piece.text)
        if pieces:
            await self._front.show(pieces)
        await self._ask_next()
        self._front.refresh()

    def _taken_up(self, text: str) -> None:
        """A run has these words now."""
        found = next((key for key, waiting in self._pending.items() if waiting[:MOST_SAID] == text), None)
        if found is not None:
            del self._pending[found]


def _short(answer: str) -> str:
    return answer if len(answer) <= _RECAP else f"{answer[:_RECAP].rstrip()} …"
