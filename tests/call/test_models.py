"""All routes behind one face, as the driver sees them."""

import asyncio

import pytest
from support.calls.attempts import (
    AttemptHarness,
    failure_of,
    flat,
    reply_of,
    request_of,
    route_to,
    run_scenario,
)

from turnbuckle.call.health import PLAIN, HealthBook
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.models import Models
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.runtime.ports import Model
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.ids import RouteName

MAIN, SPARE = RouteName("main"), RouteName("spare")
FAST = StallSettings(connect=5, first_event=20, gap=10)


def models(harness: AttemptHarness, health: HealthBook, case: str = "happy") -> Models:
    url = harness.provider.url + "/v1"
    routes = (
        route_to(url, "openai_chat", name="main", model=f"lab:{case}", stall=FAST),
        route_to(url, "anthropic", name="spare", model="lab:happy", stall=FAST),
    )
    return Models(routes, harness.connections, harness.clock, health)


async def ask(model: Model, wanted: RouteName = MAIN) -> tuple[RouteName, list[list[Event]]]:
    """What the driver does for one attempt."""
    route = model.choose(wanted)
    request = request_of(stream=model.streams(route))
    batches = [batch async for batch in model.attempt(route, request, asyncio.Event())]
    model.note(route, batches[-1])
    return route, batches


@pytest.mark.requirement("B10", "B11")
def test_two_stalls_send_the_next_attempt_of_every_session_elsewhere_until_a_probe_works():
    """P33."""

    async def scenario(harness: AttemptHarness):
        health = HealthBook()
        one, other = models(harness, health, "silent"), models(harness, health, "silent")
        taken = [(await ask(one))[0], (await ask(other))[0]]
        taken += [(await ask(other))[0], (await ask(one))[0]]
        await harness.clock.sleep(31)
        well = models(harness, health, "happy")
        taken += [(await ask(well))[0], (await ask(one))[0]]
        return taken

    assert run_scenario("happy", scenario) == [MAIN, MAIN, SPARE, SPARE, MAIN, MAIN]


@pytest.mark.requirement("A8")
def test_a_route_that_does_not_stream_is_asked_plainly_for_a_while_and_then_streaming_again():
    async def scenario(harness: AttemptHarness):
        model = models(harness, HealthBook(), "no-streaming")
        first = failure_of((await ask(model))[1])
        second = reply_of((await ask(model))[1])
        await harness.clock.sleep(PLAIN)
        third = failure_of((await ask(model))[1])
        return (
            first.kind,
            second.text,
            third.kind,
            [seen.body["stream"] for seen in harness.provider.requests],
        )

    assert run_scenario("happy", scenario) == ("unstreamable", ANSWER, "unstreamable", [True, False, True])


@pytest.mark.requirement("A8")
def test_a_stream_that_broke_once_is_streamed_again():
    """L13."""

    async def scenario(harness: AttemptHarness):
        model = models(harness, HealthBook(), "reset-once-then-works")
        await ask(model)
        _, batches = await ask(model)
        return reply_of(batches).ended, [seen.body["stream"] for seen in harness.provider.requests]

    assert run_scenario("happy", scenario) == (True, [True, True])


def test_a_reader_that_drops_out_closes_the_socket():
    async def scenario(harness: AttemptHarness):
        model = models(harness, HealthBook(), "stalls-in-text")

        async def read() -> None:
            async for _ in model.attempt(MAIN, request_of()):
                raise ValueError("the reader failed")

        with pytest.raises(ValueError):
            await read()
        await harness.clock.sleep(1)
        return harness.provider.requests[0].progress.over, model.activity()

    assert run_scenario("happy", scenario) == ("client left", ())


def test_attempts_under_way_show_what_they_wait_for():
    async def scenario(harness: AttemptHarness):
        model = models(harness, HealthBook(), "silent")
        reading = asyncio.create_task(ask(model))
        await harness.clock.sleep(3)
        seen = [activity.waiting for activity in model.activity()]
        _, batches = await reading
        return seen, failure_of(batches).kind, model.activity()

    assert run_scenario("happy", scenario) == (["first_event"], "stalled", ())


def test_many_attempts_share_the_pool_and_do_not_disturb_each_other():
    async def scenario(harness: AttemptHarness):
        model = models(harness, HealthBook(), "slow-drip")
        return [
            reply_of(batches).text for _, batches in await asyncio.gather(*(ask(model) for _ in range(60)))
        ]

    assert run_scenario("happy", scenario) == [ANSWER] * 60


def test_a_route_is_learned_from_its_finished_attempts():
    async def scenario(harness: AttemptHarness):
        health = HealthBook()
        model = models(harness, health, "slow-drip")
        for _ in range(8):
            assert flat((await ask(model))[1])
        return health.pace(MAIN).scale("gap"), health.pace(SPARE).scale("gap")

    learned, unknown = run_scenario("happy", scenario)
    assert learned is not None
    assert unknown is None


@pytest.mark.requirement("A8")
def test_one_odd_request_leaves_all_others_streaming():
    """A request that this host does not stream is refused; the next ones, of any run, are streamed as before."""

    async def scenario(harness: AttemptHarness):
        health = HealthBook()
        await ask(models(harness, health, "happy"))
        routes = (route_to(harness.provider.url + "/v1", name="main", model="lab:happy", stall=FAST),)
        model = Models(routes, harness.connections, harness.clock, health)
        odd = request_of(model="lab:no-streaming")
        batches = [batch async for batch in model.attempt(MAIN, odd, asyncio.Event())]
        model.note(MAIN, batches[-1])
        _, after = await ask(model)
        return failure_of(batches).kind, reply_of(after).text, harness.provider.requests[-1].body["stream"]

    assert run_scenario("happy", scenario) == ("unstreamable", ANSWER, True)
