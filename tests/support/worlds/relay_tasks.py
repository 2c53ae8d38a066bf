"""Tasks for the simulated world whose caller has options of its own: tools that it runs itself, a route, a limit."""

from support.worlds.tasks import DONE, DOWN, END, LINES, LONG, READ, SHELL, WRITE, always, once, task

from turnbuckle.lab.script import Call, Finish, Reason, Say
from turnbuckle.testing.world.brains import PlannedCall, Round, look, planned
from turnbuckle.testing.world.people import always as person
from turnbuckle.testing.world.run_world import Task
from turnbuckle.turn.drafting import WORTH_A_DRAFT
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import NamedTool, RunOptions, ToolSpec

PAGE = "\n".join(f"<li>{number} and {number * 17}</li>" for number in range(1, 45))
EDIT = PlannedCall("edit_page", {"page": "home", "text": PAGE})
SHEET = "\n".join(f"row {number} holds {number * 23} of them" for number in range(1, 30))
FILL = PlannedCall("edit_page", {"page": "sheet", "text": SHEET})
TURNED = PlannedCall("edit_page", {"page": "turned", "text": SHEET[::-1]})
FIND = PlannedCall("find", {"what": "the page"})
MINE = PlannedCall("shell", {"command": "their own shell"})
TOOLS = tuple(ToolSpec(name, "The caller's own.") for name in ("find", "edit_page"))
RELAY = RunOptions(own_tools=False, tools=TOOLS)
AGENT = RunOptions(tools=TOOLS)
BEYOND = [Call("shell", {"command": "make all"}), Finish()]


def handed(*calls):
    return tuple((call.name, call.arguments) for call in calls)


def relay(name, *brains, calls=(), options=RELAY, answer="", **more):
    return task(name, *brains, answer=answer, options=options, handed=handed(*calls), **more)


def reaches_beyond(request, number):
    """It calls a tool that it knows from elsewhere, until it is told that there is none."""
    return BEYOND if look(request.messages).rounds == 0 else planned(Round("", (FIND,)))(request, number)


def runs_into_the_limit(request, number):
    left = LONG[len(look(request.messages).said) :]
    return [Say(left[:80], 20), Finish("length")]


def obeys_its_choice(request, number):
    """A model that calls only what it must: nothing without a choice that forces it."""
    if request.tool_choice == "auto":
        return [Say(DONE), Finish()]
    return planned(Round("", (EDIT,)), pieces=60)(request, number)


def finishes_twice(request, number):
    """It finishes its draft by two equal calls in one reply."""
    steps = planned(Round("", (EDIT,)), pieces=90)(request, number)
    return [
        part
        for step in steps
        for part in ([step, step] if getattr(step, "name", "") == "finish_call" else [step])
    ]


RELAY_TASKS: tuple[Task, ...] = (
    relay("one call for the caller", planned(Round("I look.", (FIND,)), pieces=8), calls=(FIND,)),
    relay("a thought and a call for the caller", lambda r, n: [Reason("Hm."), *planned(Round("", (FIND,)))(r, n)], calls=(FIND,)),
    relay("two calls for the caller", planned(Round("", (FIND, PlannedCall("find", {"what": "more"}))), pieces=8), calls=(FIND, PlannedCall("find", {"what": "more"}))),
    relay("a short call in front of a long one", planned(Round("", (FIND, EDIT)), pieces=90), calls=(FIND, EDIT), kill_after=WORTH_A_DRAFT + 200),
    relay("a long call in front of a short one", planned(Round("", (FILL, FIND)), pieces=90), calls=(FILL, FIND)),
    relay("two long calls for the caller", planned(Round("", (FILL, TURNED)), pieces=150), calls=(FILL, TURNED)),
    relay("ours and the caller's in one cut reply", planned(Round("", (WRITE, EDIT)), pieces=90), calls=(EDIT,), options=AGENT, files={"a.txt": LINES}, kill_after=WORTH_A_DRAFT + 400),
    relay("a call without arguments", planned(Round("", (PlannedCall("find", {}),))), calls=(PlannedCall("find", {}),)),
    relay("no call at all", planned(END), answer=DONE),
    relay("ours first, then the caller's", planned(Round("", (WRITE, FIND, READ)), pieces=60), calls=(FIND,), options=AGENT, files={"a.txt": LINES}),
    relay("a round of ours, then the caller's", planned(Round("", (WRITE,)), Round("Now you.", (FIND,)), pieces=60), calls=(FIND,), options=AGENT, files={"a.txt": LINES}),
    relay("the caller's tool hides ours", planned(Round("", (MINE,))), calls=(MINE,), options=RunOptions(tools=(ToolSpec("shell"),)), files={}),
    relay("a relay that reaches for ours", reaches_beyond, calls=(FIND,), files={}),
    relay("an agent that calls what is not there", planned(Round("", (PlannedCall("rm_all", {}),)), Round("", (FIND,))), calls=(FIND,), options=AGENT),
    relay("a long call for the caller", planned(Round("", (EDIT,)), pieces=60), calls=(EDIT,), kill_after=WORTH_A_DRAFT + 200),
    relay("a long call for the caller, in pieces", planned(Round("", (EDIT,)), pieces=60, rest=300), calls=(EDIT,), kill_after=WORTH_A_DRAFT + 200),
    relay("a draft for the caller, finished twice", finishes_twice, calls=(EDIT,), kill_after=800),
    relay("a forced call that becomes a draft", obeys_its_choice, calls=(EDIT,), options=RunOptions(own_tools=False, tools=TOOLS, tool_choice=NamedTool("edit_page")), kill_after=700),
    relay("bad JSON for the caller, then good", once([Call("find", '{"what": nope}'), Finish()], planned(Round("", (FIND,))), "could not be read"), calls=(FIND,)),
    relay("consent for ours, then the caller's", planned(Round("", (SHELL, FIND))), calls=(FIND,), options=AGENT, approval={"shell": "ask", "find": "deny"}, person=person("allowed")),
    relay("the second route is wanted", always(DOWN), planned(Round("", (FIND,))), calls=(FIND,), options=RunOptions(RouteName("route1"), tools=TOOLS)),
    relay("the wanted route is down", planned(Round("", (FIND,))), always(DOWN), calls=(FIND,), options=RunOptions(RouteName("route1"), tools=TOOLS)),
    relay("the caller's own limit", runs_into_the_limit, ends="partial", answer=LONG[:80], options=RunOptions(max_output_tokens=30), steady=False),
    relay("the caller's limit cuts a call", lambda r, n: [Call("find", '{"what": "th', closed=False), Finish("length")], ends="partial", options=RunOptions(max_output_tokens=30, tools=TOOLS), steady=False),
    relay("the caller's limit is thought away", always(Reason("hm " * 9), Finish("length")), ends="partial", options=RunOptions(max_output_tokens=30), steady=False),
)  # fmt: skip
