"""The rules of one turn, as data: which routes there are, what tools promise, and every limit."""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.turn.consent import ConsentRule, Rule, ToolKind
from turnbuckle.vocab.free_text import INPUT
from turnbuckle.vocab.ids import ProtocolName, RouteName
from turnbuckle.vocab.prices import Price
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.tooling import FINISH_CALL, Effect


class RouteFacts(Struct, frozen=True):
    """What the turn must know of a route. `cap` is its usual output limit, `cap_most` what it can be raised
    to."""

    name: RouteName
    protocol: ProtocolName
    model: str
    cap: int | None = None
    cap_most: int | None = None
    effort: str | None = None
    quirks: Quirks = Quirks()
    window: int | None = None
    """How many tokens it takes in all, as the settings say."""
    price: Price | None = None
    """What its tokens cost, as the settings say."""


class CompactionRules(Struct, frozen=True):
    """When a history is made smaller, and by whom. `threshold` is the part of the window that may be
    used, `route` who writes summaries: whoever answers, if it is empty. `most`: so often in one turn."""

    threshold: float = 0.8
    route: RouteName = RouteName("")
    most: int = 20


ANY_TEXT = "*"
"""A tool of which nobody said which argument is its long text: whichever text was being written may become a
draft."""


class ToolFacts(Struct, frozen=True):
    """What a tool promises. `draftable` names its long text argument; `guarded` ones whose default is not
    harmless.

    `subject` is the argument that consent rules look at. `widens` names an argument that, if it is true,
    must be allowed by the rules of that name as well. A tool that `asks` is a question to a person, whose
    answer is its result. A `client` tool is run by whoever asked for the run: its calls are handed over."""

    effect: Effect = "write"
    draftable: str = ""
    guarded: tuple[str, ...] = ()
    subject: str = ""
    is_command: bool = False
    widens: str = ""
    asks: bool = False
    client: bool = False
    free_text: bool = False
    """Its arguments are one text, which its client wants as that."""
    unruled: Rule = "allow"
    """What holds for it if no rule of consent fits."""

    @property
    def kind(self) -> ToolKind:
        """What it is to a call without a rule."""
        if self.is_command:
            return "command"
        if self.subject == "url":
            return "network"
        return "write" if self.subject == "path" and self.effect != "read" else "other"


FOREIGN = ToolFacts(unruled="ask")
"""A tool of somebody else's server: whatever it says of itself, it may change anything. A person is asked."""


class TurnLimits(Struct, frozen=True):
    """Budgets of a whole turn. They never refill. None: no limit."""

    model_calls: int = 90
    tool_calls: int = 300
    seconds: float = 3600.0
    tokens: int | None = None
    money: float | None = None
    same_call: int = 5
    """How often the same call with the same arguments may be made."""


class Policy(Struct, frozen=True):
    """Everything that the turn is told about the world. The first route is the usual one."""

    routes: tuple[RouteFacts, ...]
    tools: dict[str, ToolFacts] = {}
    limits: TurnLimits = TurnLimits()
    stream_retries: int = 2
    told_waits: int = 8
    """How often in a row the only route may say when to come back, and be asked again then."""
    worth_a_draft: int = 0
    """Characters of arguments below which a call of our own tools that was cut is simply asked for again,
    once."""
    patience: float = 75.0
    """For how many seconds a route that is down is waited for where there is no other."""
    continuations: int = 3
    crumbs: int = 12
    """How often in a row a try may bring only a few characters."""
    refusals: int = 6
    """How often in a row the model may make calls of which none can start."""
    max_recoveries: int = 2
    malformed_retries: int = 3
    empty_retries: int = 1
    pauses: int = 10
    longest_wait: float = 120.0
    """A provider that asks for a longer wait is left for another route, or the turn ends."""
    consent: tuple[ConsentRule, ...] = ()
    allowed: tuple[ConsentRule, ...] = ()
    """What people have allowed for good. It never allows what `consent` denies."""
    attended: bool = True
    """Whether there is anybody who could give consent or answer a question."""
    ask_first: bool = False
    """Whether calls that no rule speaks of are asked about, by their kind: see `consent.unruled`."""
    versioned: bool = False
    """Whether the workspace is in a git work tree."""
    answer_seconds: float | None = None
    """How long an answer is waited for; None: as long as it takes."""
    capped: bool = False
    """The output limit is the caller's own: where it is reached the answer ends, and nobody goes on behind
    it."""
    several: ProtocolName | None = None
    """In requests of this protocol several answers are asked for at once."""
    closed: bool = False
    """Only the tools that are named here are there for this run, whatever else this process could do."""
    others: ToolFacts = ToolFacts()
    """What is known of a tool that is not named here."""
    compaction: CompactionRules | None = None
    """How long histories are made smaller. None: not at all, since they are their owner's business."""
    foreign: tuple[str, ...] = ()
    """How the names of tools begin that servers of others offer. Which there are is known only while they
    run."""
    marks: dict[str, str] = {}
    """What each of those tools says of itself at present, as a hash."""

    def route(self, name: RouteName) -> RouteFacts:
        for route in self.routes:
            if route.name == name:
                return route
        return self.routes[0]

    def tool(self, name: str) -> ToolFacts:
        otherwise = FOREIGN if name.startswith(self.foreign) else self.others
        return self.tools.get(name, ToolFacts() if name in ("", FINISH_CALL) else otherwise)

    def offers(self, name: str) -> bool:
        """Whether a tool of this name may be there for this run."""
        return not self.closed or name in self.tools or name.startswith(self.foreign)


def _limited(limits: TurnLimits, options: RunOptions) -> TurnLimits:
    """Of two limits the lower one."""
    own = options.limits
    tokens = [limit for limit in (limits.tokens, own.tokens) if limit is not None]
    money = [limit for limit in (limits.money, own.money) if limit is not None]
    calls, tool_calls, seconds = own.model_calls, options.max_tool_calls, own.seconds
    return replace(
        limits,
        model_calls=limits.model_calls if calls is None else min(limits.model_calls, calls),
        tool_calls=limits.tool_calls if tool_calls is None else min(limits.tool_calls, tool_calls),
        seconds=limits.seconds if seconds is None else min(limits.seconds, seconds),
        tokens=min(tokens, default=None),
        money=min(money, default=None),
    )


def for_options(policy: Policy, options: RunOptions) -> Policy:
    """The rules of a run with options. The wanted route comes first and the others stay behind it; the
    caller's tools hide ours of the same name. Without ours, a call of one of them is a call of nothing:
    what was not offered does not run, unless the caller has tools whose names nobody told us. A caller that
    brings a `finish_call` finishes its drafts itself. In a relay the history is the client's own, and nobody
    makes it smaller."""
    first = [route for route in policy.routes if route.name == options.route]
    routes = (*first, *[route for route in policy.routes if route not in first])
    cap = options.max_output_tokens
    if cap is not None:
        routes = tuple(replace(route, cap=cap, cap_most=cap) for route in routes)
    if options.effort is not None:
        routes = tuple(replace(route, effort=options.effort) for route in routes)
    own = policy.tools if options.own_tools else {}
    brought = {
        tool.name: ToolFacts(
            draftable=INPUT if tool.free_text else ANY_TEXT, client=True, free_text=tool.free_text
        )
        for tool in options.tools
    }
    tools = {**own, **brought}
    if FINISH_CALL in brought:
        tools = {name: replace(facts, draftable="") for name, facts in tools.items()}
    several = next(iter(options.extra), None) if options.choices > 1 else None
    # Nobody asks once more because one of several answers calls something strange: they are the caller's.
    open_tools = options.open_tools or several is not None
    others = ToolFacts(draftable=ANY_TEXT, client=True) if open_tools else policy.others
    closed = policy.closed or not options.own_tools or bool(options.tools)
    limits = _limited(policy.limits, options)
    return replace(
        policy,
        routes=routes,
        tools=tools,
        limits=limits,
        ask_first=policy.ask_first or options.ask_first,
        capped=cap is not None,
        closed=closed and not open_tools,
        several=several,
        others=others,
        foreign=policy.foreign if options.own_tools else (),
        compaction=_compaction(policy, options),
    )


def _compaction(policy: Policy, options: RunOptions) -> CompactionRules | None:
    """In a relay nobody makes the history smaller; else whoever asks for it gets it, whatever the
    settings say."""
    if not options.own_tools:
        return None
    return policy.compaction or (CompactionRules() if options.compact is not None else None)
