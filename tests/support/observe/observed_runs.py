"""Facts before the eyes of onlookers, and the numbers of a metrics page."""

import asyncio
from collections.abc import Iterable, Sequence

from prometheus_client.parser import text_string_to_metric_families

from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.run_observer import Observer, RunObserver
from turnbuckle.testing.world.faults import NOTHING, Fault
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import Fact


def observed(facts: Iterable[Fact], *onlookers: Observer, run: str = "r") -> RunObserver:
    """Show a run's facts, one after the other, as the runtime does."""
    sight = RunObserver(onlookers)
    for fact in facts:
        sight(run, fact)
    return sight


def world_facts(task: Task, fault: Fault = NOTHING) -> Sequence[Fact]:
    """All facts of a task in its world, over all processes that it took."""
    return asyncio.run(RunWorld(task, fault).play()).facts


def numbers(metrics: Metrics) -> dict[str, float]:
    """What is not zero on the page, apart from the process's own numbers and from buckets."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            name = sample.name.removeprefix("turnbuckle_")
            if sample.value and name != sample.name and not name.endswith("_bucket"):
                labels = " ".join(f"{label}={value}" for label, value in sorted(sample.labels.items()))
                found[f"{name} {labels}".rstrip()] = sample.value
    return found
