"""Tasks for the simulated world: what a user wants, and models of every temper that try to do it."""

import msgspec

from turnbuckle.lab.script import Call, Finish, Reason, Refuse, Say
from turnbuckle.testing.world.brains import PlannedCall, Round, look, planned
from turnbuckle.testing.world.model import Fails
from turnbuckle.testing.world.run_world import Task
from turnbuckle.turn.policy import TurnLimits
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.messages import CallPart, text_of

LINES = "\n".join(f"line {number} is not like line {number * 7}" for number in range(1, 8))
MORE = "\n".join(f"more {number} of the second kind {number * 11}" for number in range(1, 5))
LONG = " ".join(f"Sentence {number} tells of {number * 13} things." for number in range(1, 9))
DONE = "It is all done now."
READ = PlannedCall("read_file", {"path": "a.txt"})
WRITE = PlannedCall("write_file", {"path": "a.txt", "content": LINES})
APPEND = PlannedCall("append_file", {"path": "a.txt", "content": MORE})
SHELL = PlannedCall("shell", {"command": "make all"})
FLAG = PlannedCall("set_flag", {"name": "ready"})
END = Round(DONE)


def task(name, *brains, ends="completed", answer=DONE, files=None, **more):
    return Task(name, brains, ends, answer, files, **more)


def noted(request, words):
    return any(message.note and words in text_of(message.parts) for message in request.messages)


def once(bad, brain, words):
    """A model that does something bad until it is told so in these words."""

    def one(request, number):
        return brain(request, number) if noted(request, words) else bad

    return one


def at_first(count, bad, brain):
    """A provider with a bad moment: the first replies are bad, whatever is asked."""

    def one(request, number):
        return bad if number < count else brain(request, number)

    return one


def always(*steps):
    return lambda request, number: list(steps)


def thinks_too_long(request, number):
    if request.max_output_tokens == 100:
        return [Reason("hm " * 20), Finish("length")]
    return planned(END)(request, number)


def runs_into_the_cap(request, number):
    left = LONG[len(look(request.messages).said) :]
    return [Say(left[:90], 20), Finish("length" if len(left) > 90 else "stop")]


def call_runs_into_the_cap(request, number):
    """The first reply with a long call is cut by the cap; the pieces that follow are short enough."""
    seen = look(request.messages)
    if seen.rounds == 0 and seen.draft is None:
        return [
            Call("write_file", msgspec.json.encode(WRITE.arguments).decode()[:120], closed=False),
            Finish("length"),
        ]
    return planned(Round("", (WRITE,)), END)(request, number)


def pauses(request, number):
    said = look(request.messages).said
    if said.startswith("Searching for it,"):
        return [Say("Searching for it, found it."[len(said) :], 4), Finish()]
    return [Say("Searching for it,"[len(said) :], 6), Finish("paused")]


def anchors_wrongly_first(request, number):
    """It misquotes the end of its draft until it is shown the true one."""
    steps = planned(Round("", (WRITE,)), END, pieces=30)(request, number)
    told = any("Not joined" in str(part) for message in request.messages for part in message.parts)
    return steps if told else [_misquoted(step) for step in steps]


def never_anchors(request, number):
    return [
        _misquoted(step, number) for step in planned(Round("", (WRITE,)), END, pieces=30)(request, number)
    ]


def _misquoted(step, number=0):
    if isinstance(step, Call) and step.name == "finish_call":
        assert isinstance(step.arguments, dict)
        return Call(
            step.name, {**step.arguments, "after": f"something that was never there {number}"}, step.pieces
        )
    return step


def makes_smaller_calls(request, number, piece=40):
    """It knows nothing of drafts, but takes the hint that smaller calls get through."""
    written = "".join(
        msgspec.json.decode(part.arguments).get("content", "")
        for message in request.messages
        for part in message.parts
        if isinstance(part, CallPart)
    )
    if written == LINES:
        return [Say(DONE), Finish()]
    small = bool(written) or noted(request, "smaller")
    text = LINES[len(written) :][: piece if small else None]
    return [
        Call("append_file" if written else "write_file", {"path": "a.txt", "content": text}, 24),
        Finish(),
    ]


def same_ids_each_round(request, number):
    steps = planned(Round("", (WRITE,)), Round("", (READ, READ)), Round("", (SHELL,)), END, pieces=40)(
        request, number
    )
    return [
        Call(step.name, step.arguments, step.pieces, "call_0") if isinstance(step, Call) else step
        for step in steps
    ]


RATE_LIMITED = Fails(Failure("rate_limited", "too many requests", True, retry_after=7.0, status=429))
WAIT_LONG = Fails(Failure("rate_limited", "too many requests", True, retry_after=900.0, status=429))
NO_KEY = Fails(failure("auth", "the key is not valid"))
DOWN = Fails(failure("server", "upstream is down"))
NO_STREAM = Fails(failure("unstreamable", "streaming is not supported"))
CIRCLES = "I will now write the file for you as you asked. "

TASKS: tuple[Task, ...] = (
    task("a plain answer", planned(END)),
    task("a long answer", planned(Round(LONG), pieces=30), answer=LONG),
    task("a long answer with an echo", planned(Round(LONG), pieces=30, echo=25), answer=LONG),
    task("a thought and an answer", lambda r, n: [Reason("I think of it."), *planned(END)(r, n)]),
    task("one tool", planned(Round("I look.", (READ,)), END)),
    task("three reads side by side", planned(Round("", (READ, PlannedCall("read_file", {"path": "b"}), READ)), END)),
    task("write, then read", planned(Round("I write.", (WRITE,)), Round("", (READ,)), END), files={"a.txt": LINES}),
    task(
        "three rounds",
        planned(Round("", (WRITE,)), Round("And more.", (APPEND,)), Round("", (SHELL,)), END, pieces=40),
        files={"a.txt": f"{LINES}{MORE}"},
    ),
    task(
        "two writes in one reply",
        planned(Round("", (WRITE, PlannedCall("write_file", {"path": "b.txt", "content": MORE}))), END, pieces=40),
        files={"a.txt": LINES, "b.txt": MORE},
    ),
    task(
        "two writes that are made again",
        planned(Round("", (WRITE, PlannedCall("write_file", {"path": "b.txt", "content": MORE}))), END, pieces=40, remakes=True),
        files={"a.txt": LINES, "b.txt": MORE},
    ),
    task(
        "three writes whose order counts",
        planned(Round("", (WRITE, APPEND, PlannedCall("append_file", {"path": "a.txt", "content": "The end."}))), END, pieces=60),
        files={"a.txt": f"{LINES}{MORE}The end."},
    ),
    task("a write, a command and a look", planned(Round("First.", (WRITE, SHELL, READ)), END, pieces=70), files={"a.txt": LINES}),
    task(
        "a write in front of a long one",
        planned(Round("", (PlannedCall("write_file", {"path": "b.txt", "content": "short"}), WRITE)), END, pieces=60),
        files={"a.txt": LINES, "b.txt": "short"},
        kill_after=200,
    ),
    task("a flag and a command", planned(Round("", (FLAG, SHELL, FLAG)), END)),
    task("a draft, finished at once", planned(Round("", (WRITE,)), END), files={"a.txt": LINES}, kill_after=170),
    task(
        "a draft, finished in pieces",
        planned(Round("Here it comes.", (WRITE,)), END, rest=60, pieces=40),
        files={"a.txt": LINES},
        kill_after=160,
    ),
    task("a wrong anchor, then the right one", anchors_wrongly_first, files={"a.txt": LINES}, kill_after=190),
    task("anchors that never fit", never_anchors, ends="partial", answer=None, kill_after=190, steady=False),
    task("smaller calls instead of drafts", makes_smaller_calls, files={"a.txt": LINES}, kill_after=120),
    task(
        "neither drafts nor smaller calls",
        lambda r, n: [Call("write_file", WRITE.arguments, 40), Finish()],
        ends="partial",
        answer=None,
        kill_after=120,
        kill_plain=True,
        steady=False,
    ),
    task("bad JSON, then good", once([Call("shell", '{"command": nope}'), Finish()], planned(Round("", (SHELL,)), END), "could not be read")),
    task(
        "text and bad JSON, then good",
        once([Say("I do it."), Call("shell", '{"command": nope}'), Finish()], planned(Round("I do it.", (SHELL,)), END), "could not be read"),
    ),
    task("bad JSON forever", always(Call("shell", '{"command": nope}'), Finish()), ends="failed", answer="", steady=False),
    task("nothing, then an answer", once([Finish()], planned(END), "Nothing arrived")),
    task("white space, then an answer", once([Say("\n\n "), Finish()], planned(END), "Nothing arrived")),
    task("white space in front", planned(Round("\n\n  It begins late."), pieces=3), answer=None),
    task("nothing forever", always(Finish()), ends="failed", answer="", steady=False),
    task("thinking uses up the cap", thinks_too_long, cap=100, cap_most=1000),
    task("thinking uses up every cap", always(Reason("hm " * 9), Finish("length")), ends="failed", answer="", cap=100, cap_most=1000, steady=False),
    task("an answer over the cap", runs_into_the_cap, answer=LONG),
    task("a call over the cap", call_runs_into_the_cap, files={"a.txt": LINES}),
    task("a tool that does not exist", planned(Round("", (PlannedCall("rm_all", {"x": "y"}),)), END), files={}),
    task("arguments that do not fit", planned(Round("", (PlannedCall("write_file", {"path": 3}),)), Round("", (WRITE,)), END), files={"a.txt": LINES}),
    task("a tool that fails", planned(Round("", (PlannedCall("shell", {"command": "fail"}),)), END)),
    task("a route that is down, and another", always(DOWN), planned(Round("", (WRITE,)), END, pieces=40), files={"a.txt": LINES}),
    task("the only route is down", always(DOWN), ends="failed", answer="", steady=False),
    task("a route that dies in the middle", lambda r, n: [Say("It is all"), DOWN], planned(END)),
    task("too many requests", at_first(2, [RATE_LIMITED], planned(END))),
    task("a wait that is too long", always(WAIT_LONG), planned(END)),
    task("no key, another route", always(NO_KEY), planned(END)),
    task("no key, no other route", always(NO_KEY), ends="failed", answer="", steady=False),
    task("a filter", always(Say("It is"), Finish("filtered")), ends="partial", answer=None, steady=False),
    task("a filter, another route", always(Say("It is"), Finish("filtered")), planned(END)),
    task("a refusal", always(Refuse("I will not.")), ends="failed", answer="", steady=False),
    task("a pause", pauses, answer="Searching for it, found it."),
    task("it does not stream", lambda r, n: [NO_STREAM] if r.stream else planned(Round("", (SHELL,)), END)(r, n)),
    task("the same call forever", planned(Round("", (READ,))), ends="partial", answer=None, steady=False),
    task("too many tools", planned(Round("", (READ, SHELL, FLAG, WRITE)), END, pieces=90), ends="partial", answer=None, limits=TurnLimits(tool_calls=2), steady=False),
    task("too many model calls", planned(Round("", (FLAG,)), Round("", (SHELL,)), END), ends="partial", answer=None, limits=TurnLimits(model_calls=2), steady=False),
    task("in circles", always(Say(CIRCLES * 40, len(CIRCLES) * 4)), ends="partial", answer=None, steady=False),
    task("the same ids in each round", same_ids_each_round, files={"a.txt": LINES}),
)  # fmt: skip
