"""The composition root of the server: the app, and everything that stands between it and HTTP.

It is a file of its own because only `turnbuckle serve` needs these parts, and what is not imported costs nothing.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from turnbuckle import __version__
from turnbuckle.app import App, lanes_of, new_name, open_app, retention_of
from turnbuckle.config import Loaded, api_keys_of, rehearses, routes_of
from turnbuckle.console.assets import PAGE, load_assets
from turnbuckle.observe.logs import RunLines, open_log
from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.sight import Sight
from turnbuckle.observe.traces import Traces
from turnbuckle.runtime.archive import Importer
from turnbuckle.runtime.once import Once
from turnbuckle.runtime.retention import Swept
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.runtime.silence import Silence
from turnbuckle.runtime.supervise import keep_going, told
from turnbuckle.server.api import api_endpoints
from turnbuckle.server.archives import ArchivesApi, archive_endpoints
from turnbuckle.server.asgi import Served, Server
from turnbuckle.server.attendance import Attendance
from turnbuckle.server.auth import Auth
from turnbuckle.server.catalog import Catalog
from turnbuckle.server.chat import Chat
from turnbuckle.server.console_page import SettingsView, SettingView, console_endpoints, settings_endpoints
from turnbuckle.server.conversations import ConversationsApi
from turnbuckle.server.desk import Desk
from turnbuckle.server.endpoints import Endpoint, with_document
from turnbuckle.server.health import Readiness, health_endpoints
from turnbuckle.server.keys import KeyFile
from turnbuckle.server.limits import Rates, Slots
from turnbuckle.server.models_list import model_endpoints
from turnbuckle.server.origins import Origins
from turnbuckle.server.pulse import Pulse
from turnbuckle.server.responses import ResponsesApi
from turnbuckle.server.runs import RunsApi
from turnbuckle.server.serving import Service
from turnbuckle.server.sessions import SessionsApi
from turnbuckle.server.tailing import Tailing
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.redaction import Redactor, secrets_in, secrets_in_headers

SWEEP_EVERY = 3600.0
STOPPED = "the server was stopped"
_FILES = ("/", "/console/{file}")  # what a browser fetches to show the console is no news

log = logging.getLogger("turnbuckle.server")


@asynccontextmanager
async def open_server(loaded: Loaded, environment: Mapping[str, str] | None = None) -> AsyncIterator[Service]:
    """Put a server together over the journal in the data folder, take up the runs that have no end, and take it apart
    again. Raises ConfigError, and InUse if another process has the journal."""
    environment = dict(os.environ if environment is None else environment)
    settings = loaded.settings
    keys = api_keys_of(settings, environment)
    auth = Auth(keys, KeyFile(Path(settings.data)), settings.server.host)
    origins = Origins(settings.server.origins, settings.server.host, needs_key=auth.needs_key)
    routes = routes_of(settings, environment)
    shown = {secret for route in routes for secret in (route.api_key.reveal(), *secrets_in_headers(route.headers))}
    redactor = Redactor({*keys, *secrets_in(environment), *shown})
    metrics = Metrics()
    sight = Sight((metrics, Traces(), RunLines()))
    with open_log(settings.server.log, redactor):
        async with open_app(loaded, environment, attended=True, watch=sight) as opened:
            made = _Parts(opened, loaded, metrics, sight)
            resume = settings.session.after_crash == "resume"
            stale = settings.session.stale_after
            if count := await made.desk.take_up(resume=resume, stale_after=stale, now=time.time()):
                log.info("runs that had no end and were looked at: %d", count)
            sweeping = asyncio.create_task(
                keep_going("the sweep", made.sweep, SWEEP_EVERY, asyncio.sleep), name="sweep"
            )
            try:
                yield made.service(auth, origins)
            finally:
                sweeping.cancel()
                await asyncio.wait({sweeping})
                await made.silence.settled()
                await made.desk.leave_all(0.0, STOPPED)


class _Parts:
    """What one server is made of."""

    def __init__(self, opened: App, loaded: Loaded, metrics: Metrics, sight: Sight) -> None:
        settings = loaded.settings
        server, runs = settings.server, opened.runs
        self._opened = opened
        self._loaded = loaded
        self._settings = server
        self._metrics = metrics
        self._withdrawing: set[asyncio.Task[bool]] = set()
        trouble = opened.journal.trouble
        self.silence = Silence(runs.live, every=server.noop, wall=time.time)
        self._pulse = Pulse(
            keepalive=server.keepalive, noop=server.noop, wall=time.time, trouble=trouble, silent=self.silence.tell
        )
        self._slots = Slots(server.max_runs, server.max_runs_per_owner)
        attendance = Attendance(self._stop)
        self._tailing = Tailing(opened.journal, self._pulse, attendance, metrics, server.hold_status)
        self._once = Once(opened.journal, opened.owner, time.time, runs.new_id)
        self._retention = retention_of(settings, opened.journal)
        self.desk = Desk(
            journal=opened.journal,
            runs=runs,
            sessions=Sessions(opened.journal, runs, owner=opened.owner, wall=time.time),
            lanes=lambda began: lanes_of(opened, began),
            once=self._once,
            catalog=Catalog([(route.name, route.model) for route in opened.policy.routes]),
            slots=self._slots,
            tailing=self._tailing,
            attendance=attendance,
            new_name=new_name,
            opening=opened.opening,
            gone=sight.gone,
        )

        self._rows = self._endpoints()
        # Before any run is taken up, so that nothing of it counts as unknown.
        metrics.know(
            endpoints=[row.path for row in self._rows],
            routes=[route.name for route in opened.policy.routes],
            tools={name: facts.effect for name, facts in opened.policy.tools.items()},
        )

    def service(self, auth: Auth, origins: Origins) -> Service:
        server = self._settings
        app = Server(
            self._rows,
            auth=auth,
            origins=origins,
            rates=Rates(server.requests_per_minute, time.monotonic),
            tailing=self._tailing,
            max_body=server.max_body,
            seen=self._seen,
        )
        return Service(
            app=app,
            pulse=self._pulse,
            slots=self._slots,
            host=server.host,
            port=server.port,
            send_timeout=server.send_timeout,
            drain=server.drain,
            leave=lambda seconds: self.desk.leave_all(seconds, STOPPED),
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        desk, opened = self.desk, self._opened
        importer = Importer(opened.journal, owner=opened.owner, wall=time.time, new_name=new_name)
        readiness = Readiness(opened.journal, lambda: self._slots.closing)
        rows = (
            *api_endpoints(
                Chat(desk), ResponsesApi(desk), ConversationsApi(desk), RunsApi(desk, opened.price), SessionsApi(desk)
            ),
            *archive_endpoints(ArchivesApi(desk, importer)),
            *model_endpoints(desk.catalog, int(time.time())),
            *health_endpoints(readiness, self._metrics.render),
            *settings_endpoints(self._settings_view()),
            *console_endpoints(PAGE, load_assets()),
        )
        return with_document(rows, __version__)

    def _settings_view(self) -> SettingsView:
        routes = self._loaded.settings.routes
        return SettingsView(
            __version__,
            self._loaded.file,
            all(rehearses(route) for route in routes),
            self.desk.catalog.names,
            tuple(SettingView(value.key, value.value, value.source) for value in self._loaded.explain()),
        )

    def _stop(self, run: RunId, why: str) -> None:
        running = self.desk.runs.live(run)
        if running is not None:
            running.stop(why)
        elif self.desk.lanes.waiting(run, None) is not None:
            task = told(asyncio.create_task(self.desk.withdraw(run, why=why)), f"taking back the message of {run}")
            self._withdrawing.add(task)
            task.add_done_callback(self._withdrawing.discard)

    def _seen(self, served: Served) -> None:
        self._metrics.http(served.method, served.endpoint, served.status, served.seconds)
        log.log(
            logging.DEBUG if served.endpoint in _FILES and served.status < 400 else logging.INFO,
            "%s %s %d in %.3f s",
            served.method,
            served.endpoint or "(nothing there)",
            served.status,
            served.seconds,
            extra={"run": served.run, "request_id": served.request_id, "event": "request"},
        )

    async def sweep(self) -> None:
        """Drop keys of requests that nobody will send again, and what is kept no longer. What is not swept now is swept
        the next time."""
        await self._once.sweep(self._settings.idempotency_hours * 3600)
        swept = await self._retention.sweep()
        if swept != Swept():
            log.info("swept: %d runs merged, %d deleted", swept.merged, swept.deleted)
