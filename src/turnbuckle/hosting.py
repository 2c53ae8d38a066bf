"""The composition root of the server: the app, and everything that stands between it and HTTP.

It is a file of its own because only `turnbuckle serve` needs these parts, and what is not imported costs
nothing.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from turnbuckle import __version__
from turnbuckle.app import App, open_app, services_of
from turnbuckle.config import Loaded, api_keys_of, changed_keys, merged, rehearses
from turnbuckle.console.assets import PAGE, load_assets
from turnbuckle.errors import ConfigError
from turnbuckle.journal.nodes import NodeRow
from turnbuckle.journal.opening import Sharing
from turnbuckle.journal.port import JournalError, StorageError
from turnbuckle.observe.logs import RunLines, open_log, say
from turnbuckle.observe.loop_watch import LoopWatch
from turnbuckle.observe.metrics import Metrics, RouteNow, ServerNow
from turnbuckle.observe.run_observer import RunObserver
from turnbuckle.observe.traces import Traces
from turnbuckle.runtime.gossip import NodeGossip, books_of
from turnbuckle.runtime.retention import Swept
from turnbuckle.runtime.silence import Silence
from turnbuckle.runtime.supervise import keep_going
from turnbuckle.server.api.archives import ArchivesApi, archive_endpoints
from turnbuckle.server.api.changes import ChangesApi, change_endpoints
from turnbuckle.server.api.console_page import (
    SandboxView,
    SettingsView,
    SettingView,
    console_endpoints,
    settings_endpoints,
)
from turnbuckle.server.api.conversations import ConversationsApi
from turnbuckle.server.api.health import Readiness, health_endpoints
from turnbuckle.server.api.models_list import model_endpoints
from turnbuckle.server.api.nodes import NodesApi, node_endpoints
from turnbuckle.server.api.overview import (
    DiskRoom,
    OverviewApi,
    QuotaNow,
    RouteState,
    RouteStates,
    RunsNow,
    disk_room,
    overview_endpoints,
)
from turnbuckle.server.api.rules import RulesApi, rule_endpoints
from turnbuckle.server.api.runs import RunsApi
from turnbuckle.server.api.sessions import SessionsApi
from turnbuckle.server.api.table import DELETED, api_endpoints
from turnbuckle.server.api.usage import UsageApi, usage_endpoints
from turnbuckle.server.faces.chat.handler import Chat
from turnbuckle.server.faces.messages.handler import MessagesApi
from turnbuckle.server.faces.responses.handler import ResponsesApi
from turnbuckle.server.faces.responses.socket import ResponsesSocket
from turnbuckle.server.http.asgi import Served, Server
from turnbuckle.server.http.auth import Auth
from turnbuckle.server.http.endpoints import Endpoint, with_document
from turnbuckle.server.http.neighbours import SameUser, can_tell
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.http.serving import Service, WorkerPlace
from turnbuckle.server.http.sockets import SocketHandler, SocketServer
from turnbuckle.server.keys import KeyFile, KeyRing
from turnbuckle.server.streaming.disconnect import DisconnectPolicy
from turnbuckle.server.streaming.heartbeat import Heartbeat
from turnbuckle.server.streaming.run_readers import RunReaders
from turnbuckle.server.streaming.run_streamer import RunStreamer
from turnbuckle.service.limits import Rates, SharedRates, Slots
from turnbuckle.service.node_list import NodeList
from turnbuckle.service.owners import Owner
from turnbuckle.service.queue import queue_of
from turnbuckle.service.waste import WasteService
from turnbuckle.settings import Settings, is_reloaded, secrets_of
from turnbuckle.upkeep import retention_of
from turnbuckle.vocab.redaction import redactor_of

SWEEP_EVERY = 3600.0
SETTLE_EVERY = 10.0
STOPPED = "the server was stopped"
_FILES = ("/", "/console/{file}")  # what a browser fetches to show the console is no news
_PATIENCE = 2.0  # seconds for what is asked of other servers by somebody who wants numbers

log = logging.getLogger("turnbuckle.server")


@asynccontextmanager
async def open_server(
    loaded: Loaded,
    environment: Mapping[str, str] | None = None,
    tells_users: Callable[[], bool] = can_tell,
    again: Callable[[], Loaded] | None = None,
    worker: WorkerPlace | None = None,
) -> AsyncIterator[Service]:
    """Put a server together over the journal in the data folder, take up the runs that have no end, and take
    it apart again. `tells_users`: whether this machine tells whose a connection is. `again` reads the
    settings once more. A `worker` is one of several processes that share what their parent has. Raises
    ConfigError, and InUse if another process has the journal."""
    environment = dict(os.environ if environment is None else environment)
    settings = loaded.settings
    keys = api_keys_of(settings, environment)
    redactor = redactor_of(secrets_of(settings, environment).values)
    metrics = Metrics()
    sight = RunObserver((metrics, Traces(), RunLines()))
    with open_log(settings.server.log, redactor):
        sharing: Sharing = "node" if worker is None else "worker"
        async with open_app(loaded, environment, attended=True, watch=sight, sharing=sharing) as opened:
            ring = await _keys_of(opened)
            token = "" if keys or ring.keys() or tells_users() else _token(worker)
            written = (*keys, token) if token else keys
            auth = Auth(written, ring, settings.server.host, SameUser(os.getuid()))
            origins = Origins(settings.server.origins, settings.server.host, needs_key=auth.needs_key)
            made = _Parts(opened, loaded, metrics, sight, worker)
            resume = settings.session.after_crash == "resume"
            stale = settings.session.stale_after
            if count := await made.services.lifecycle.take_up(resume=resume, stale_after=stale):
                log.info("runs that had no end and were looked at: %d", count)
            await made.join(ring)
            sweeping = asyncio.create_task(
                keep_going("the sweep", made.sweep, SWEEP_EVERY, asyncio.sleep), name="sweep"
            )
            looking = asyncio.create_task(LoopWatch(metrics).run(), name="loop watch")
            settling = asyncio.create_task(
                keep_going("settling", made.settle, SETTLE_EVERY, asyncio.sleep), name="settling"
            )
            telling = None if worker is None else await worker.numbers.serve(worker.number, made.numbers)
            try:
                yield made.service(auth, origins, token, again)
            finally:
                if telling is not None:
                    telling.close()
                others = {sweeping, looking, settling}
                for task in others:
                    task.cancel()
                await asyncio.wait(others)
                await made.silence.settled()
                await made.services.lifecycle.leave_all(0.0, STOPPED)
                await made.services.lifecycle.depart()


async def _keys_of(opened: App) -> KeyFile | KeyRing:
    """The keys of this server, read once."""
    file = KeyFile(Path(opened.settings.folder))
    if opened.nodes is None:
        return file
    ring = KeyRing(file, opened.nodes.keys, time.monotonic)
    await ring.refresh()
    return ring


def node_name(settings: Settings, worker: WorkerPlace | None = None) -> str:
    """What this process is called in a list of nodes."""
    name = settings.node.name or socket.gethostname()
    return name if worker is None else f"{name}-{worker.number + 1}"


def _token(worker: WorkerPlace | None) -> str:
    return secrets.token_urlsafe(32) if worker is None else worker.token


class _Parts:
    """What one server is made of."""

    def __init__(
        self,
        opened: App,
        loaded: Loaded,
        metrics: Metrics,
        sight: RunObserver,
        worker: WorkerPlace | None = None,
    ) -> None:
        self._worker = worker
        settings = loaded.settings
        server, runs = settings.server, opened.runs
        self._opened = opened
        self._loaded = loaded
        self._settings = server
        self._idempotency_hours = server.idempotency_hours
        self._metrics = metrics
        trouble = opened.journal.trouble
        self.silence = Silence(runs.live, every=server.noop, wall=time.time)
        self._heartbeat = Heartbeat(
            keepalive=server.keepalive,
            noop=server.noop,
            wall=time.time,
            trouble=trouble,
            silent=self.silence.tell,
        )
        self._slots = Slots(server.max_runs, server.max_runs_per_owner, server.max_money_per_day)
        self.services = services_of(opened, self._slots)
        self.waste = WasteService(opened.journal, runs, self.services.stores.spending)
        names = tuple(route.name for route in runs.policy.routes)
        self._routes = RouteStates(names, opened.models.health, opened.models.now)
        runs_service = self.services.runs
        others = runs_service.is_read_elsewhere, runs_service.is_kept_elsewhere
        self._disconnect = DisconnectPolicy(runs_service.stop_soon, *() if opened.nodes is None else others)
        runs_service.is_read, runs_service.is_kept = self._disconnect.is_read, self._disconnect.is_kept
        self._heartbeat.stranded = None if opened.nodes is None else runs_service.stranded
        self._streamer = RunStreamer(
            opened.journal, self._heartbeat, self._disconnect, metrics, server.hold_status
        )
        self.services.runs.watch.add(RunReaders(self._disconnect, self._streamer, sight.gone))
        self._retention = retention_of(settings, opened.journal, opened.kept)
        self._rows = self._endpoints()
        # Before any run is taken up, so that nothing of it counts as unknown.
        metrics.know(
            endpoints=[row.path for row in self._rows],
            routes=names,
            tools={name: facts.effect for name, facts in opened.runs.policy.tools.items()},
        )

    async def join(self, keys: KeyFile | KeyRing) -> None:
        """Be one of the nodes, if there may be several: with every look around they tell each other what they
        have learned and what runs cost."""
        settings, nodes, models = self._loaded.settings, self._opened.nodes, self._opened.models
        if nodes is not None and isinstance(keys, KeyRing):
            books = [*books_of(models.health, models.now), self._opened.runs.windows, keys]
            gossip = NodeGossip(nodes.gossip, books)
            await gossip.exchange()
            nodes.with_each_look(gossip.exchange)
            nodes.with_each_look(keys.look)
            nodes.with_each_look(self._tell_costs)
        await self.services.lifecycle.join(
            node_name(settings, self._worker), __version__, settings.node.max_runs
        )

    async def _tell_costs(self) -> None:
        self._slots.tell_costs()

    async def settle(self) -> None:
        """Find out what runs cost whose node died with their end."""
        try:
            await self.services.lifecycle.settle_abandoned(self.services.quotas)
        except StorageError as error:
            log.debug("what runs of dead nodes cost is found out later: %s", error)

    def reload(self, again: Callable[[], Loaded], rates: Rates) -> None:
        """Take what can be taken of other settings, all of it or nothing, and say what was done."""
        try:
            loaded = again()
            settings = loaded.settings
            changed = changed_keys(self._loaded.settings, settings)
            self._opened.reload(settings)
        except (ConfigError, OSError) as error:
            log.error("the settings stay as they were: %s", error)
            return
        server = settings.server
        self._slots.allow(server.max_runs, server.max_runs_per_owner, server.max_money_per_day)
        rates.allow(server.requests_per_minute)
        self._idempotency_hours = server.idempotency_hours
        self._retention = retention_of(settings, self._opened.journal, self._opened.kept)
        taken = [key for key in changed if is_reloaded(key)]
        left = [key for key in changed if not is_reloaded(key)]
        log.info("settings read again: %s", f"changed {', '.join(taken)}" if taken else "nothing changed")
        if left:
            log.warning("these need a restart, and stay as they were: %s", ", ".join(left))
        self._loaded = replace(self._loaded, settings=merged(self._loaded.settings, settings, taken))

    def service(
        self, auth: Auth, origins: Origins, token: str, again: Callable[[], Loaded] | None
    ) -> Service:
        server = self._settings
        rates = self._rates()
        app = Server(
            self._rows,
            auth=auth,
            origins=origins,
            rates=rates,
            streamer=self._streamer,
            max_body=server.max_body,
            seen=self._seen,
            sockets=SocketServer(self._sockets(rates), auth=auth, origins=origins, rates=rates),
        )
        return Service(
            app=app,
            heartbeat=self._heartbeat,
            slots=self._slots,
            host=server.host,
            port=server.port,
            send_timeout=server.send_timeout,
            max_connections=server.max_connections,
            drain=server.drain,
            leave=lambda seconds: self.services.lifecycle.leave_all(seconds, STOPPED),
            token=token,
            reload=None if again is None else lambda: self.reload(again, rates),
        )

    def _rates(self) -> Rates:
        per_minute, nodes = self._settings.requests_per_minute, self._opened.nodes
        if nodes is None:
            return Rates(per_minute, time.monotonic)
        return SharedRates(per_minute, time.monotonic, nodes.quotas)

    def _sockets(self, rates: Rates) -> dict[str, SocketHandler]:
        if not self._settings.websocket:
            return {}
        api = ResponsesApi(self.services.runs, self._streamer, strict=self._settings.strict_relay)
        return {"/v1/responses": ResponsesSocket(api, self._streamer, rates).serve}

    def _endpoints(self) -> tuple[Endpoint, ...]:
        runs, sessions = self.services.runs, self.services.sessions
        strict = self._settings.strict_relay
        readiness = Readiness(self._opened.journal, lambda: self._slots.closing)
        node = "" if self._worker is None else node_name(self._loaded.settings, self._worker)
        rows = (
            *api_endpoints(
                Chat(runs, self._streamer, strict=strict),
                ResponsesApi(runs, self._streamer, strict=strict),
                MessagesApi(runs, self._streamer, self._opened.tokens.count, strict=strict),
                ConversationsApi(sessions),
                RunsApi(runs, self._disconnect, strict=strict),
                SessionsApi(sessions),
            ),
            *change_endpoints(ChangesApi(self.services.changes)),
            *rule_endpoints(RulesApi(self.services.rules), DELETED),
            *archive_endpoints(ArchivesApi(sessions)),
            *usage_endpoints(UsageApi(runs.spending, sessions)),
            *node_endpoints(NodesApi(self._node_list())),
            *overview_endpoints(self._overview()),
            *model_endpoints(runs.catalog, int(time.time())),
            *health_endpoints(readiness, self._all_numbers, node),
            *settings_endpoints(self._settings_view),
            *console_endpoints(PAGE, load_assets()),
        )
        return with_document(rows, __version__)

    def _node_list(self) -> NodeList:
        settings = self._loaded.settings
        about = (0, node_name(settings, self._worker), __version__, time.time())
        row = NodeRow(*about, 0, 0, 0.0, labels=settings.node.labels)
        return NodeList(self._opened.nodes, self.services.lifecycle.state, row)

    def _overview(self) -> OverviewApi:
        async def runs(owner: Owner) -> tuple[RunsNow, QuotaNow]:
            slots, used = self._slots, await self._slots.use(owner)
            quota = QuotaNow(used.runs, slots.most[1], used.cost, slots.money)
            return RunsNow(slots.of(owner), len(slots), *slots.most), quota

        stores = self.services.stores
        return OverviewApi(self._routes, self.waste, runs, lambda owner: queue_of(stores, owner), self._disk)

    async def _disk(self) -> DiskRoom:
        return await disk_room(self._loaded.settings.folder, self._opened.nodes)

    async def _unheld(self) -> int | None:
        """Work that no node holds; None if that cannot be asked now."""
        if self._opened.nodes is None:
            return 0
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._opened.nodes.count_unheld()
        except (JournalError, TimeoutError):
            return None

    async def _all_numbers(self) -> bytes:
        """What Prometheus reads, of all workers if there are several."""
        own, worker = await self.numbers(), self._worker
        return own if worker is None else await worker.numbers.all(worker.number, own)

    async def numbers(self) -> bytes:
        """What this process counts."""
        disk = await self._disk()
        queued, since = self.services.stores.manager.queued
        routes = {name: _route_now(self._routes.of(name)) for name in self._routes.names}
        waited = 0.0 if since is None else max(time.time() - since, 0.0)
        unheld = await self._unheld()
        self._metrics.now(ServerNow(routes, queued, waited, disk.free, disk.total, disk.journal, unheld))
        return self._metrics.render()

    def _settings_view(self) -> SettingsView:
        routes, holds = self._loaded.settings.routes, self._opened.sandbox
        return SettingsView(
            __version__,
            self._loaded.file,
            all(rehearses(route) for route in routes),
            self.services.runs.catalog.agents,
            self.services.runs.catalog.relays,
            tuple(SettingView(value.key, value.value, value.source) for value in self._loaded.explain()),
            SandboxView(holds.mechanism, holds.missing, holds.words),
        )

    def _seen(self, served: Served) -> None:
        self._metrics.http(served.method, served.endpoint, served.status, served.seconds)
        say(
            log,
            logging.DEBUG if served.endpoint in _FILES and served.status < 400 else logging.INFO,
            "%s %s %d in %.3f s",
            served.method,
            served.endpoint or "(nothing there)",
            served.status,
            served.seconds,
            run=served.run,
            request_id=served.request_id,
            event="request",
        )

    async def sweep(self) -> None:
        """Drop keys of requests that nobody will send again, and what is kept no longer. What is not swept
        now is swept the next time."""
        await self.waste.catch_up()  # before anything that it counts is deleted
        await self.services.stores.idempotency.sweep(self._idempotency_hours * 3600)
        swept = await self._retention.sweep()
        if swept != Swept():
            log.info("swept: %d runs merged, %d deleted", swept.merged, swept.deleted)


def _route_now(state: RouteState) -> RouteNow:
    clocks = state.clocks
    learned = {"first_event": clocks.first_event, "gap": clocks.gap, "gap_in_call": clocks.gap_in_call}
    return RouteNow(state.standing, learned)
