"""The composition root: the only file that knows which concrete parts a program is made of."""

import asyncio
import dataclasses
import difflib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle import __version__
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.health import HealthBook
from turnbuckle.call.models import Models
from turnbuckle.call.token_count import TokenCounter
from turnbuckle.call.transport import Connections
from turnbuckle.config import Loaded, rehearses, route_name, routes_of, server_variables_of
from turnbuckle.errors import ConfigError
from turnbuckle.journal.large_items import LargeItemsJournal, reader_with_objects, with_objects
from turnbuckle.journal.nodes import Nodes
from turnbuckle.journal.opening import (
    JournalReader,
    Sharing,
    open_as_node,
    open_journal_reader,
)
from turnbuckle.journal.port import Journal, JournalError, StreamQuery
from turnbuckle.lab.rehearsal.model import NAME, Rehearsal
from turnbuckle.objects.opening import open_objects
from turnbuckle.objects.port import ObjectStore
from turnbuckle.runtime.consent_book import RuleBook
from turnbuckle.runtime.context import opening
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.faults import VARIABLE, FaultyJournal, FaultyTools, read_fault
from turnbuckle.runtime.lease import LEASE
from turnbuckle.runtime.log import Watch
from turnbuckle.runtime.models import RoutedModels
from turnbuckle.runtime.new_names import new_name
from turnbuckle.runtime.ports import Model, Sleep, Tools
from turnbuckle.runtime.prices import PriceBook, price_of, window_of
from turnbuckle.runtime.recall import recall
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.runtime.shared_consent import open_rule_book
from turnbuckle.runtime.toolbox import Toolbox, facts_of
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.service.changes import Files
from turnbuckle.service.limits import Slots
from turnbuckle.service.services import Services, make_services
from turnbuckle.session.reset import ResetRule
from turnbuckle.settings import RouteSettings, Settings, secrets_of
from turnbuckle.tools.background import BackgroundProcess, Processes
from turnbuckle.tools.builtin import FAMILIES
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.git_tree import in_git_work_tree
from turnbuckle.tools.kept_objects import KeptObjects
from turnbuckle.tools.mcp.listing import PREFIX, prefix_of
from turnbuckle.tools.mcp.servers import McpPlace, McpServers, check_servers
from turnbuckle.tools.modules import files_of, registry_of
from turnbuckle.tools.restore import RunFiles
from turnbuckle.tools.sandbox.choose import SandboxRules, choose
from turnbuckle.tools.sandbox.files import visible
from turnbuckle.tools.sandbox.port import Holds, NoSandbox, Sandbox
from turnbuckle.tools.session_folder import session_folder
from turnbuckle.tools.spec import Tool, ToolContext
from turnbuckle.trust import require_data, require_trust
from turnbuckle.turn.consent import ConsentRule, written
from turnbuckle.turn.drafting import WORTH_A_DRAFT
from turnbuckle.turn.policy import CompactionRules, Policy, RouteFacts, ToolFacts, TurnLimits
from turnbuckle.vocab.ids import LOCAL, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.prices import FREE
from turnbuckle.vocab.redaction import without_secrets

REHEARSAL_PACE = 0.003


class App(Struct, frozen=True):
    """What a program works with."""

    settings: Settings
    journal: Journal
    runs: Runs
    sandbox: Holds
    tokens: TokenCounter
    reload: Callable[[Settings], None]
    """Take the rules of turns from other settings, for runs that begin from now on. Raises ConfigError."""
    models: Models
    files: Files | None = None
    nodes: Nodes | None = None
    kept: KeptObjects | None = None


@asynccontextmanager
async def open_app(
    loaded: Loaded,
    environment: Mapping[str, str] | None = None,
    *,
    attended: bool = False,
    watch: Watch | None = None,
    tools: Sequence[Tool] = (),
    journal_given: Journal | None = None,
    deps: Callable[[RunId], Any] | None = None,
    sharing: Sharing = "alone",
) -> AsyncIterator[App]:
    """Put everything together over the journal in the data folder, and take it apart again. Raises
    ConfigError, and InUse if another process has the journal. `attended`: somebody is there who can answer
    what a run asks. `tools` come behind those of the settings; `journal_given` takes the place of the one in
    the data folder. `deps` gives what a program hands to the tools of a run. `sharing`: whether it may be
    one of several processes on a database."""
    environment = dict(os.environ if environment is None else environment)
    require_trust(loaded)
    settings = loaded.settings
    fault = read_fault(environment[VARIABLE]) if environment.get(VARIABLE) else None
    routes = routes_of(settings, environment)
    sandbox = sandbox_of(loaded, environment)
    told = sandbox.holds.told(settings.tools.network)
    dispatcher = Dispatcher(registry_of(settings.tools.enable, settings.tools.modules, tools, told=told))
    clock = SystemClock()
    servers = servers_of(loaded, environment, sandbox)
    policy = replace(
        policy_of(settings, environment, _facts_in(sandbox, dispatcher)),
        attended=attended,
        versioned=in_git_work_tree(Path(settings.workspace)),
        foreign=servers.prefixes,
    )
    objects = open_objects(settings.objects, environment)
    store, nodes, allowed = await _store_of(loaded, journal_given, sharing, objects)
    if objects is not None and isinstance(store, LargeItemsJournal):
        objects = store.objects  # which knows whose they are
    journal: Journal = store if fault is None else FaultyJournal(store, fault)
    contexts = _ToolContexts(loaded, environment, policy, journal, clock, sandbox, deps, objects)

    def toolbox(run: RunId) -> Tools:
        context = partial(contexts.of, run, contexts.policy.consent)
        made = Toolbox(dispatcher, context, servers=servers, place=contexts.placed)
        return made if fault is None else FaultyTools(made, fault)

    try:
        async with Connections() as connections:
            live = Models(routes, connections, clock, HealthBook())
            runs = Runs(
                journal,
                RunRules(
                    policy,
                    opening(workspace_words(settings), settings.agent.instructions),
                    PriceBook(price_of),
                    allowed,
                ),
                RoutedModels(live, _rehearsals(settings, clock)),
                toolbox,
                process_environment(clock.sleep, LEASE if nodes is None else settings.node.lease),
                watch=watch,
                background=Processes(Path(settings.folder), clock, folders_in=_session_folders(settings)),
                windows=WindowBook(journal, window_of),
            )
            runs.conversations.forgets.append(connections.bodies.forget)
            tokens, reload = TokenCounter(routes, connections), partial(_reload, runs, contexts, environment)
            holds, files = sandbox.holds, contexts.files
            yield App(settings, journal, runs, holds, tokens, reload, live, files, nodes, contexts.kept)
    finally:
        await servers.close()
        await journal.close()


def _rehearsals(settings: Settings, clock: SystemClock) -> dict[RouteName, Model]:
    """The routes that are a model of our own."""
    rehearsal: Model = Rehearsal(clock.sleep, REHEARSAL_PACE)
    return {RouteName(route_name(route)): rehearsal for route in _routes(settings) if rehearses(route)}


def _session_folders(settings: Settings) -> Path | None:
    return Path(settings.workspace) if settings.workspace_per_session else None


def workspace_words(settings: Settings) -> str:
    """The workspace, as models are told of it."""
    return "of this session" if settings.workspace_per_session else settings.workspace


def _reload(runs: Runs, contexts: "_ToolContexts", environment: Mapping[str, str], again: Settings) -> None:
    old = runs.rules.policy
    read = policy_of(again, environment, old.tools)
    same = {
        "routes": old.routes,
        "attended": old.attended,
        "foreign": old.foreign,
        "versioned": old.versioned,
    }
    contexts.policy = replace(read, **same)
    runs.rules = replace(runs.rules, policy=contexts.policy)


async def _store_of(
    loaded: Loaded, given: Journal | None, sharing: Sharing, objects: ObjectStore | None
) -> tuple[Journal, Nodes | None, RuleBook]:
    require_data(loaded)
    settings, nodes, rules = loaded.settings, None, None
    folder = Path(settings.folder)
    if given is None:
        given, nodes, rules = await open_as_node(settings.data, folder, sharing)
    journal = await with_objects(given, objects, settings.objects.over, shared=nodes is not None)
    return journal, nodes, await open_rule_book(folder, rules)


class _ToolContexts:
    """What the tools of a run are given. What is the same for all runs is found out once."""

    def __init__(
        self,
        loaded: Loaded,
        environment: Mapping[str, str],
        policy: Policy,
        journal: Journal,
        clock: SystemClock,
        sandbox: Sandbox,
        deps: Callable[[RunId], Any] | None,
        objects: ObjectStore | None,
    ) -> None:
        self._deps = deps
        self.kept = None if objects is None else KeptObjects(objects, Path(loaded.settings.folder))
        self._loaded = loaded
        self._settings = loaded.settings
        self._environment = environment
        self.policy = policy
        self._journal = journal
        self._clock = clock
        self._secret = secrets_of(loaded.settings, environment)
        self._protected = frozenset(own_files(loaded))
        self._sandbox = sandbox

    async def files(self, run: RunId) -> RunFiles:
        """What a run did to files. Raises ToolError."""
        return RunFiles(await self.placed(self.of(run, self.policy.consent)))

    async def placed(self, context: ToolContext) -> ToolContext:
        """In the folder of its session, if each has its own. Commands see no other. Raises ToolError."""
        if not self._settings.workspace_per_session:
            return context
        root, session = Path(self._settings.workspace), await context.session() or context.run
        folder = await asyncio.to_thread(session_folder, root, session)
        settings = replace(self._settings, workspace=str(folder))
        sandbox = await asyncio.to_thread(
            sandbox_of, replace(self._loaded, settings=settings), self._environment
        )
        return dataclasses.replace(context, workspace=folder, sandbox=sandbox)

    def of(self, run: RunId, consent: tuple[ConsentRule, ...]) -> ToolContext:
        async def session() -> str:
            rows = await self._journal.streams(StreamQuery(kind=RUN, name=run), limit=1)
            return rows[0].parent if rows else ""

        async def owner(name: str) -> str | None:
            rows = await self._journal.streams(StreamQuery(kind=RUN, name=name), limit=1)
            return rows[0].user or LOCAL if rows else None

        async def owns(other: str) -> bool:
            with suppress(JournalError):  # then it cannot be read at the moment
                return (mine := await owner(run)) is not None and mine == await owner(other)
            return False

        async def past(query: str) -> str:
            return await recall(self._journal, run, SessionId(await session()), query)

        deps = self._deps
        return ToolContext(
            deps=lambda: None if deps is None else deps(run),
            recall=past,
            workspace=Path(self._settings.workspace),
            data=Path(self._settings.folder),
            clock=self._clock,
            run=run,
            session=session,
            environment=self._environment,
            consent=consent,
            protected=self._protected,
            sandbox=self._sandbox,
            objects=self.kept,
            owns=owns,
            network=self._settings.tools.network,
            secrets=self._secret.values,
            secret_variables=self._secret.variables,
            allow_private_addresses=self._settings.tools.private_addresses,
        )


def own_files(loaded: Loaded) -> list[str]:
    """Where the settings and own tools lie, once these are loaded."""
    settings = loaded.settings
    named = (*filter(None, [loaded.file]), *files_of(settings.tools.modules), *_server_files(settings))
    return [os.path.realpath(file) for file in named]


def _server_files(settings: Settings) -> Iterator[str]:
    """The programs of MCP servers: who could change them would be run at the next start."""
    for server in settings.tools.mcp.values():
        for word in (server.command, *server.args):
            path = os.path.join(server.cwd or settings.workspace, word)
            if os.path.isfile(path):
                yield path


def servers_of(loaded: Loaded, environment: Mapping[str, str], sandbox: Sandbox | None = None) -> McpServers:
    """The MCP servers of the settings. None of them is started by this. Raises ConfigError."""
    settings = loaded.settings
    check_servers(settings.tools.mcp)
    secret = secrets_of(settings, environment)
    place = McpPlace(
        Path(settings.workspace),
        without_secrets(environment, secret.variables, secret.values),
        server_variables_of(settings, environment),
        sandbox_of(loaded, environment) if sandbox is None else sandbox,
        __version__,
        secret.values,
    )
    return McpServers(settings.tools.mcp, place, SystemClock())


def sandbox_of(loaded: Loaded, environment: Mapping[str, str] | None = None) -> Sandbox:
    """Where commands run. Raises ConfigError if the settings want a sandbox that is not to be had here."""
    environment = os.environ if environment is None else environment
    settings = loaded.settings
    wanted = settings.tools
    shell = "shell" in wanted.enable
    servers = tuple(name for name, server in wanted.mcp.items() if server.command)
    if not shell and not servers:
        return NoSandbox("the shell is turned off")
    if wanted.sandbox == "off":
        return NoSandbox('tools.sandbox = "off"')
    seen = visible(
        Path(settings.workspace),
        Path(settings.folder),
        environment,
        readable=wanted.readable,
        writable=wanted.writable,
        protected=own_files(loaded),
        prefixes=(sys.prefix, sys.base_prefix),
        is_root=os.getuid() == 0,
    )
    memory, file = wanted.max_memory_mb << 20, wanted.max_file_mb << 20
    limits = (wanted.max_processes, memory, file, wanted.max_cpu_seconds, wanted.background_seconds)
    return choose(SandboxRules(wanted.sandbox, seen, *limits, shell, servers))


def _facts_in(sandbox: Sandbox, dispatcher: Dispatcher) -> dict[str, ToolFacts]:
    """What tools promise. Where nothing is kept from them, there is nothing more to ask for."""
    found = facts_of(dispatcher)
    if sandbox.holds.is_there:
        return found
    return {name: replace(facts, widens="") for name, facts in found.items()}


@asynccontextmanager
async def open_reader(loaded: Loaded) -> AsyncIterator[JournalReader | None]:
    """The journal to look at, also beside a living process. None if there is none yet."""
    settings = loaded.settings
    reader = await open_journal_reader(settings.data)
    if reader is not None:
        reader = await reader_with_objects(reader, open_objects(settings.objects, os.environ))
    try:
        yield reader
    finally:
        if reader is not None:
            await reader.close()


def session_rules(settings: Settings, opening: tuple[Message, ...]) -> SessionRules:
    """The rules of every session. Raises ConfigError for a time zone that nobody knows."""
    session = settings.session
    try:
        zone = ZoneInfo(session.time_zone) if session.time_zone else datetime.now().astimezone().tzinfo
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(f"session.time_zone: there is no time zone {session.time_zone!r}") from None
    rule = ResetRule(session.reset, session.idle_minutes, session.daily_hour)
    return SessionRules(session.busy, rule, zone, opening, session.quiet)


def services_of(opened: App, slots: Slots | None = None) -> Services:
    """What every surface asks for runs and sessions. Without `slots` there may be any number at once."""
    rules = session_rules(opened.settings, opened.runs.rules.opening)
    return make_services(
        opened.journal,
        opened.runs,
        rules,
        slots=slots,
        files=opened.files,
        nodes=opened.nodes,
        node=opened.settings.node,
    )


def processes_of(loaded: Loaded) -> tuple[BackgroundProcess, ...]:
    """All background processes that the data folder knows of."""
    return background_of(loaded).listed()


def background_of(loaded: Loaded) -> Processes:
    """The background processes of the data folder."""
    return Processes(Path(loaded.settings.folder), SystemClock())


def policy_of(
    settings: Settings, environment: Mapping[str, str], tools: Mapping[str, ToolFacts] | None = None
) -> Policy:
    """The rules of every turn. Raises ConfigError."""
    live = {route.name: route.facts for route in routes_of(settings, environment)}
    names = [RouteName(route_name(route)) for route in _routes(settings)]
    turn, recovery = settings.turn, settings.recovery
    return Policy(
        routes=tuple(live.get(name, RouteFacts(name, "openai_chat", NAME, price=FREE)) for name in names),
        tools=dict(tools or {}),
        limits=TurnLimits(
            model_calls=turn.max_calls,
            tool_calls=turn.max_tool_calls,
            seconds=turn.max_seconds,
            tokens=turn.max_tokens,
            money=turn.max_money,
            same_call=turn.same_call,
        ),
        stream_retries=recovery.stream_retries,
        continuations=recovery.continuations,
        max_recoveries=recovery.max_recoveries,
        patience=recovery.patience,
        worth_a_draft=WORTH_A_DRAFT,
        consent=consent_of(settings, tools or ()),
        answer_seconds=settings.tools.answer_seconds or None,
        compaction=_compaction(settings, names),
    )


def _compaction(settings: Settings, names: list[RouteName]) -> CompactionRules | None:
    context = settings.context
    if context.route and context.route not in names:
        raise ConfigError(
            f"context.route: there is no route {context.route!r}; the routes are {', '.join(names)}"
        )
    if not context.compact:
        return None
    return CompactionRules(context.threshold / 100, RouteName(context.route), context.max_compactions)


def consent_of(settings: Settings, own: Iterable[str] = ()) -> tuple[ConsentRule, ...]:
    """The rules of consent. `own` names tools beside the built-in ones. Raises ConfigError for a rule that
    names no tool: it would protect nothing."""
    rules = written(settings.tools.approval)
    built_in = [tool for family in FAMILIES.values() for tool in family]
    named = (*(tool.name for tool in built_in), *(tool.widens for tool in built_in if tool.widens), *own)
    known = list(dict.fromkeys(named))
    servers = [prefix_of(name) for name in settings.tools.mcp]
    for rule in rules:
        is_server = any(rule.tool.startswith(prefix) for prefix in servers)
        named_all = servers and rule.tool == f"{PREFIX}*"
        fits = any(fnmatchcase(name, rule.tool) for name in known)
        if not (is_server or named_all or fits or rule.tool == "*"):
            near = difflib.get_close_matches(rule.tool, known, 1)
            every = (*known, *(f"{prefix}*" for prefix in servers))
            hint = f"did you mean {near[0]}?" if near else f"the tools are {', '.join(every)}"
            raise ConfigError(f"tools.approval: there is no tool {rule.tool!r}; {hint}")
    return rules


def owner_name(process: str) -> str:
    """How a process begins to call itself in its claims."""
    return f"process {process} "


def process_environment(sleep: Sleep, lease: float = LEASE) -> Environment:
    """What this process is called, and its clocks."""
    owner = owner_name(str(os.getpid())) + secrets.token_hex(4)
    return Environment(owner, time.time, sleep, new_name, time.monotonic, lease)


def writer_of(reader: JournalReader) -> str:
    """The beginning of the name of whoever writes to the journal; empty if that is nobody."""
    return owner_name(reader.writer) if reader.writer else ""


def _routes(settings: Settings) -> tuple[RouteSettings, ...]:
    return settings.routes or (RouteSettings(protocol="rehearsal"),)
