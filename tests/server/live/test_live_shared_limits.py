"""Several servers on one database: limits, budgets, keys, and what was learned of routes hold at all of them."""

import asyncio
from pathlib import Path

import pytest
from support.server.live_server import asked_until, gate, lab_provider, run, two_nodes

from turnbuckle.cli.stored_keys import all_keys, create_key, revoke_key
from turnbuckle.config import load
from turnbuckle.lab.script import Finish, Say, Status
from turnbuckle.server.keys import KeyFile

UNCOUNTED = "requests_per_minute = 0"
PRICED = "price = { input = 1000, output = 1000 }"
TWO_ROUTES = """
[[routes]]
name = "spare"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
"""


def played(scenario, folder: Path, model, server: str = "", **settings):
    """Play a scene with two servers on a new database."""

    settings["server"] = f"drain = 0\n{server or UNCOUNTED}"

    async def main():
        async with lab_provider(model) as behind, two_nodes(folder, behind, **settings) as (one, other):
            async with asyncio.timeout(100):
                return await scenario(one, other)

    return run(main())


def speaks(request):
    yield Say("one ")
    yield gate(1)
    yield Finish("stop")


def answers(request):
    return (Say("Done."), Finish())


def is_refused(reply) -> bool:
    return reply.status == 401


@pytest.mark.requirement("K7", "F9")
def test_the_runs_of_an_owner_are_counted_at_all_nodes_and_one_that_ended_is_not(tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("go")
        refused = await other.post("/v1/runs", {"input": "go"})
        in_session = await other.post("/v1/runs", {"input": "go", "session": "s"})
        one.behind.gates.open(1)
        await other.events(begun)
        again = await other.begin("go")  # at once: its end is known to all who can see it
        await other.events(again)
        errors = [reply.json["error"] for reply in (refused, in_session)]
        return (
            [reply.status for reply in (refused, in_session)],
            [error["code"] for error in errors],
            errors[0],
        )

    statuses, codes, error = played(scenario, tmp_path, speaks, "max_runs_per_owner = 1")
    assert (statuses, codes) == ([429, 429], ["too_many_runs"] * 2)
    assert "1 of your runs are under way" in error["message"]


@pytest.mark.requirement("K7", "F9")
@pytest.mark.parametrize("sessions", [False, True], ids=["alone", "in sessions"])
def test_what_waits_while_all_nodes_are_full_counts_against_its_owner(sessions: bool, tmp_path: Path):
    async def scenario(one, other):
        async def begin(node, number):
            more = {"session": f"s{number}"} if sessions else {}
            return await node.post("/v1/runs", {"input": "go", **more})

        first = [await begin(one, number) for number in range(2)]
        await one.behind.asked(2)
        waiting = await begin(one, 2)
        refused = [await begin(node, number) for node in (other, one) for number in (3, 4)]
        behind_it = [await begin(other, 2)] if sessions else []  # as behind any run of a session
        one.behind.gates.open(1)
        for reply in (*first, waiting, *behind_it):
            await other.events(reply.json["id"])
        again = await begin(other, 5)
        await one.events(again.json["id"])
        accepted = [reply.status for reply in (*first, waiting, *behind_it, again)]
        return accepted, [reply.status for reply in refused]

    settings = {"server": "max_runs_per_owner = 3", "more": "[node]\nmax_runs = 1"}
    accepted, refused = played(scenario, tmp_path, speaks, **settings)
    assert (set(accepted), refused) == ({202}, [429] * 4)


@pytest.mark.requirement("K7", "F9")
def test_a_burst_at_all_nodes_begins_as_many_runs_as_there_may_be(tmp_path: Path):
    async def scenario(one, other):
        nodes = (one, other) * 4
        replies = await asyncio.gather(*(node.post("/v1/runs", {"input": "go"}) for node in nodes))
        one.behind.gates.open(1)
        for reply in replies:
            if reply.status == 202:
                await other.events(reply.json["id"])
        return sorted(reply.status for reply in replies)

    assert played(scenario, tmp_path, speaks, "max_runs_per_owner = 3") == [202] * 3 + [429] * 5


@pytest.mark.requirement("K7", "F9")
def test_the_requests_of_an_owner_are_counted_at_all_nodes_and_the_headers_say_what_is_left(tmp_path: Path):
    async def scenario(one, other):
        counted = await one.get("/v1/models")
        return counted, [await node.get("/v1/models") for node in (other, one)]

    counted, refused = played(scenario, tmp_path, answers, "requests_per_minute = 1")
    names = ("limit", "remaining", "reset")
    limit, left, reset = (counted.headers[f"x-ratelimit-{name}-requests"] for name in names)
    assert (counted.status, limit, left) == (200, "1", "0")
    assert 0 < float(reset.removesuffix("s")) <= 60
    assert [(reply.status, reply.json["error"]["code"]) for reply in refused] == [
        (429, "rate_limit_exceeded")
    ] * 2
    assert all(0 < int(reply.headers["retry-after"]) <= 61 for reply in refused)
    assert [[reply.headers[f"x-ratelimit-{name}-requests"] for name in names[:2]] for reply in refused] == [
        ["1", "0"]
    ] * 2


@pytest.mark.requirement("K7")
def test_money_that_is_spent_at_one_node_is_spent_at_all_of_them(tmp_path: Path):
    async def scenario(one, other):
        begun = await one.begin("go")
        await one.events(begun)
        refused = await other.post("/v1/runs", {"input": "go"})
        said = await other.post("/v1/runs", {"input": "go", "session": "s"})
        read = await other.get(f"/v1/runs/{begun}")
        spent = (await other.get(f"/v1/runs/{begun}")).json["spent"]["cost"]
        quota = (await other.get("/v1/overview")).json["quota"]
        assert quota == {"runs": 0, "most_runs": 200, "cost": spent, "most_cost": 0.0001}
        return refused, said.status, read.status, len(one.lab.requests)

    refused, said, read, asked = played(
        scenario, tmp_path, answers, "max_money_per_day = 0.0001", route=PRICED
    )
    assert (refused.status, refused.json["error"]["code"], said, read, asked) == (
        429,
        "budget_spent",
        429,
        200,
        1,
    )
    assert refused.headers["x-should-retry"] == "false"
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert "server.max_money_per_day" in refused.json["error"]["message"]


@pytest.mark.requirement("K7")
def test_what_waits_for_its_turn_does_not_begin_once_the_money_is_spent(tmp_path: Path, caplog):
    async def scenario(one, other):
        first = await one.begin("go", session="s")
        await one.behind.asked(1)
        waiting = await other.begin("go", session="s")
        one.behind.gates.open(1)
        ends = [(await other.events(begun))[-1].json["outcome"] for begun in (first, waiting)]
        return [end["kind"] for end in ends], ends[1]["why"], len(one.lab.requests)

    kinds, why, asked = played(scenario, tmp_path, speaks, "max_money_per_day = 0.0001", route=PRICED)
    assert (kinds, asked) == (["completed", "failed"], 1)
    assert "server.max_money_per_day" in why
    refused = [record for record in caplog.records if "is refused" in record.getMessage()]
    assert [(record.levelname, record.exc_info) for record in refused] == [("WARNING", None)]


@pytest.mark.requirement("K7")
def test_a_key_is_good_and_revoked_at_all_nodes_and_its_streams_end(tmp_path: Path):
    async def scenario(one, other):
        loaded = load(one.folder / "turnbuckle.toml", environment={})
        before = (await other.get("/v1/models")).status  # there are no keys yet
        key, token = await asyncio.to_thread(create_key, loaded, "a program", "ann")
        one.key = other.key = token
        for node in (one, other):
            await asked_until(is_refused, node.get, "/v1/models", authorization="")
            assert (await node.get("/v1/models")).status == 200
        begun = await one.begin("go")
        async with other.listen(f"/v1/runs/{begun}/events") as reader:
            await reader.until(b"one ")
            await asyncio.to_thread(revoke_key, loaded, key.id)
            for node in (one, other):
                await asked_until(is_refused, node.get, "/v1/models")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.rest()
        listed = await asyncio.to_thread(all_keys, loaded)
        return before, [(one.id == key.id, one.owner, one.revoked is not None) for one in listed]

    assert played(scenario, tmp_path, speaks) == (200, [(True, "ann", True)])


@pytest.mark.requirement("K7")
def test_a_route_that_is_benched_at_one_node_is_benched_at_all(tmp_path: Path):
    def model(request):
        if request.body["model"] == "m":
            return (Status(401, "no"),)
        return answers(request)

    async def standings(node):
        return [route["standing"] for route in (await node.get("/v1/overview")).json["routes"]]

    async def scenario(one, other):
        await one.events(await one.begin("go"))
        found = await asked_until(lambda found: found[0] == "benched", standings, other)
        before = len(one.lab.requests)
        end = await other.ended(await other.begin("go"))
        asked = [request.body["model"] for request in list(one.lab.requests)[before:]]
        why = (await other.get("/v1/overview")).json["routes"][0]["why"]
        return found, end["status"], asked, why.partition(":")[0]

    assert played(scenario, tmp_path, model, more=TWO_ROUTES) == (
        ["benched", "fit"],
        "completed",
        ["m2"],
        "auth",
    )


@pytest.mark.requirement("K7")
def test_clocks_that_one_node_learned_hold_at_all(tmp_path: Path):
    async def clocks(node):
        return (await node.get("/v1/overview")).json["routes"][0]["clocks"]

    async def scenario(one, other):
        for number in range(8):  # four each: neither knows enough by itself
            await (one, other)[number % 2].events(await (one, other)[number % 2].begin("go"))
        return [await asked_until(lambda found: found["first_event"], clocks, node) for node in (one, other)]

    mine, theirs = played(scenario, tmp_path, answers)
    assert mine["first_event"] == theirs["first_event"]


def test_keys_in_a_folder_beside_a_database_count_there(tmp_path: Path):
    async def scenario(one, other):
        loaded = load(one.folder / "turnbuckle.toml", environment={})
        key, token = KeyFile(Path(loaded.settings.folder)).create("old", "ann", 0.0)
        statuses = [(await one.get("/v1/models", **given)).status for given in ({}, {"x_api_key": token})]
        statuses.append((await other.get("/v1/models")).status)
        listed = await asyncio.to_thread(all_keys, loaded)
        await asyncio.to_thread(revoke_key, loaded, key.id)
        statuses.append((await one.get("/v1/models", x_api_key=token)).status)
        return statuses, [found.id == key.id for found in listed]

    assert played(scenario, tmp_path, answers) == ([401, 200, 200, 401], [True])
