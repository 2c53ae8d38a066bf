"""What runs cost is told by every surface of the server, or said to be unknown."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Call, Finish, LabRequest, Say
from turnbuckle.vocab.prices import Spent

ROUTES = """
[[routes]]
name = "dear"
protocol = "openai_chat"
base_url = "URL/v1"
api_key = "any"
model = "m2"
price = { input = 1000, output = 1000, cached = 10 }
"""


def model(request: LabRequest) -> Any:
    return (Say("Done."), Finish())


async def told(server: LiveServer) -> dict[str, Any]:
    run = await server.begin("hi", session="s", model="dear")
    view = await server.ended(run)
    unpriced = await server.ended(await server.begin("hello", session="s"))
    events = await server.events(run)
    story = await server.read(f"/v1/runs/{run}/events?told=true")
    costs = [one["cost"] for frame in story for one in frame.json.get("told", ()) if "cost" in one]
    command = await server.ended(await server.begin("/cost", session="s"))
    return {
        "view": view,
        "unpriced": unpriced,
        "ended": events[-1].json,
        "costs": costs,
        "lines": (await server.get("/v1/runs")).json["data"],
        "session": (await server.get("/v1/sessions/s/usage")).json,
        "days": (await server.get("/v1/usage?days=3")).json["days"],
        "metrics": (await server.get("/metrics")).body.decode(),
        "command": command["output"],
        "stranger": (await server.get("/v1/sessions/nobody/usage")).status,
        "too many": (await server.get("/v1/usage?days=9999")).status,
    }


@pytest.mark.requirement("H8")
def test_a_run_a_session_a_day_and_the_metrics_tell_the_same_cost(tmp_path: Path) -> None:
    found = run_scenario(told, tmp_path, model, more=ROUTES)
    view = found["view"]
    spent = msgspec.convert(view["spent"], Spent)
    used = view["usage"]
    assert (spent.input_tokens, spent.output_tokens) == (used["input"], used["output"])
    assert spent.cost == pytest.approx((spent.input_tokens + spent.output_tokens) / 1000)
    assert spent.calls == 1
    assert spent.unpriced_calls == 0
    assert msgspec.convert(found["ended"]["spent"], Spent) == spent
    assert sum(found["costs"]) == pytest.approx(spent.cost)
    assert len(found["costs"]) == 1

    other = msgspec.convert(found["unpriced"]["spent"], Spent)
    assert (other.cost, other.unpriced_calls) == (None, 1)
    whole = msgspec.convert(found["session"]["spent"], Spent)
    assert (whole.calls, whole.cost, whole.unpriced_calls) == (2, pytest.approx(spent.cost), 1)
    assert found["session"]["runs"] == 2
    assert [(day["runs"], day["spent"]) for day in found["days"]] == [(2, found["session"]["spent"])]
    lines = {line["id"]: line["spent"] for line in found["lines"]}
    assert lines[view["id"]] == view["spent"]

    assert "turnbuckle_unpriced_calls_total 1.0" in found["metrics"]
    money = next(line for line in found["metrics"].splitlines() if line.startswith("turnbuckle_money_total"))
    assert float(money.split()[1]) == pytest.approx(spent.cost)
    assert "This session: 2 runs" in found["command"]
    assert "1 call of unknown price" in found["command"]
    assert "Last run" in found["command"]
    assert (found["stranger"], found["too many"]) == (404, 400)


@pytest.mark.requirement("H8")
def test_what_is_left_of_the_budget_is_told_while_the_run_goes_on(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> Any:
        run = await server.begin("approve", session="s")
        await server.behind.asked(1)
        async with server.listen(f"/v1/runs/{run}/events") as events:
            await events.until(b"event: approval_asked")
        view = await server.run(run)
        await server.post(f"/v1/runs/{run}/approvals/{view['approvals'][0]['id']}", {"decision": "deny"})
        return view["left"], (await server.ended(run))["left"]

    def asks(request: LabRequest) -> Any:
        if request.number > 1:
            return (Say("Done."), Finish())
        return (Call("shell", {"command": "true"}), Finish("calls"))

    settings = "[turn]\nmax_money = 5.0\nmax_calls = 10\n"
    left, after = run_scenario(scenario, tmp_path, asks, more=settings, tools='approval = { shell = "ask" }')
    assert (left["model_calls"], left["money"], left["tokens"]) == (9, 5.0, None)
    assert after is None
