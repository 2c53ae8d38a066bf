"""The services of one process, put together over its journal."""

from msgspec import Struct

from turnbuckle.journal.port import Journal
from turnbuckle.runtime.idempotency import IdempotencyStore
from turnbuckle.runtime.runs import Runs
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.service.changes import ChangeService, Files
from turnbuckle.service.lifecycle import Lifecycle
from turnbuckle.service.limits import NO_LIMIT, Slots
from turnbuckle.service.runs import RunService
from turnbuckle.service.sessions import SessionService
from turnbuckle.service.spending import SpendingService
from turnbuckle.service.stores import Stores
from turnbuckle.service.watch import RunWatch


class Services(Struct, frozen=True):
    """What a surface is given."""

    runs: RunService
    sessions: SessionService
    lifecycle: Lifecycle
    stores: Stores
    changes: ChangeService


def make_services(
    journal: Journal,
    runs: Runs,
    rules: SessionRules,
    *,
    slots: Slots | None = None,
    files: Files | None = None,
) -> Services:
    """Over runs that are made already. Without `slots` there may be any number at once; without `files` there
    is no workspace."""
    watch = RunWatch(Slots(NO_LIMIT, NO_LIMIT) if slots is None else slots)
    manager = SessionManager(journal, runs, rules, began=watch.began)
    idempotency = IdempotencyStore(journal, runs.environment)
    spending = SpendingService(journal, runs)
    stores = Stores(journal, runs, Sessions(journal, runs), manager, idempotency, spending)
    service = RunService(stores, watch)
    changes = ChangeService(stores, service, files)
    return Services(service, SessionService(stores), Lifecycle(stores, service), stores, changes)
