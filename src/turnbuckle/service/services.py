"""The services of one process, put together over its journal."""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.nodes import Nodes
from turnbuckle.journal.port import Journal
from turnbuckle.journal.quotas import MemoryQuotas, Quotas
from turnbuckle.journal.settings import NodeSettings
from turnbuckle.runtime.idempotency import IdempotencyStore
from turnbuckle.runtime.runs import Runs
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.service.anywhere import NodeDesk
from turnbuckle.service.changes import ChangeService, Files
from turnbuckle.service.lifecycle import Lifecycle
from turnbuckle.service.limits import NO_LIMIT, Slots
from turnbuckle.service.pins import Pins
from turnbuckle.service.rules import RuleService
from turnbuckle.service.runs import RunService
from turnbuckle.service.sessions import SessionService
from turnbuckle.service.spending import SpendingService
from turnbuckle.service.stores import Stores
from turnbuckle.service.watch import RunWatch
from turnbuckle.vocab.ids import RunId, SessionId


class Services(Struct, frozen=True):
    """What a surface is given."""

    runs: RunService
    sessions: SessionService
    lifecycle: Lifecycle
    stores: Stores
    changes: ChangeService
    rules: RuleService
    quotas: Quotas


def _labels(node: NodeSettings | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ((), ()) if node is None else (node.labels, node.needs)


def make_services(
    journal: Journal,
    runs: Runs,
    rules: SessionRules,
    *,
    slots: Slots | None = None,
    files: Files | None = None,
    nodes: Nodes | None = None,
    node: NodeSettings | None = None,
) -> Services:
    """Over runs that are made already. Without `slots` there may be any number at once; without `files` there
    is no workspace. `nodes` are the other processes on the journal, if there may be any; `node` is what this
    one is among them."""
    watch = RunWatch(Slots(NO_LIMIT, NO_LIMIT) if slots is None else slots)
    rules = replace(rules, may_begin=watch.slots.afford)
    manager = SessionManager(journal, runs, rules, began=watch.began)
    idempotency = IdempotencyStore(journal, runs.environment)
    spending = SpendingService(journal, runs)
    quotas: Quotas = MemoryQuotas(runs.environment.wall, spending.of_today) if nodes is None else nodes.quotas
    watch.slots.share(
        quotas,
        runs.environment.wall,
        lambda: [(running.run, running.turn.tally.spent.cost) for running in runs.all_live],
    )

    def is_here(stream: str) -> bool:
        return runs.live(RunId(stream)) is not None or manager.of(SessionId(stream)) is not None

    desk = None if nodes is None else NodeDesk(nodes, is_here, runs.environment.owner)
    pins = None if nodes is None else Pins(journal, nodes, *_labels(node))
    if pins is not None:
        manager.fits = pins.fits
    stores = Stores(journal, runs, Sessions(journal, runs), manager, idempotency, spending, desk, pins)
    service, sessions = RunService(stores, watch), SessionService(stores)
    changes = ChangeService(stores, service, files)
    if desk is not None:
        desk.serve(service, sessions, changes)
    rules_service = RuleService(runs.rules.allowed)
    lifecycle = Lifecycle(stores, service)
    return Services(service, sessions, lifecycle, stores, changes, rules_service, quotas)
