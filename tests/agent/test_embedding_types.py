"""Types in and out, per-run options and dependencies: an agent inside a program of somebody's own."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest
from pydantic import BaseModel, Field
from support.agents.open_agent import agent, lab_provider, run_scenario

from turnbuckle import Agent, Budget, InvalidValue, RunContext, tool
from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.tools.model_types import TypeMisfit, needs_pydantic, reader_of


class Address(BaseModel):
    street: str
    number: int = Field(ge=1)


class Order(BaseModel):
    item: str
    to: Address
    notes: list[str] = []


@dataclass
class Shop:
    sold: list[str]


@tool
def sell(
    order: Annotated[Order, "What is wanted."], context: RunContext[Shop], gift: Order | None = None
) -> str:
    """Sell something."""
    context.deps.sold.append(f"{order.item} to {order.to.street} {order.to.number}")
    return f"sold {order.item}{f' and {gift.item}' if gift else ''} in {context.tool.run[:1]}"


GOOD = '{"item": "tea", "to": {"street": "High Street", "number": 7}}'
BAD = '{"item": "tea", "to": {"street": "High Street", "number": 0}}'


@pytest.mark.requirement("H14")
def test_a_pydantic_model_is_a_tools_argument_and_its_schema_is_what_the_model_sees():
    shown = sell.spec.parameters
    assert shown["required"] == ["order"]
    assert shown["properties"]["order"]["description"] == "What is wanted."
    assert set(shown["$defs"]) == {"Address", "Order"}
    assert shown["$defs"]["Address"]["properties"]["number"]["minimum"] == 1
    assert "context" not in shown["properties"]


@pytest.mark.requirement("H14", "D1")
def test_arguments_arrive_as_models_and_what_does_not_fit_goes_back_to_the_model(tmp_path):
    async def scenario(opened):
        shop = Shop([])
        sold = await opened.run(f'call sell with {{"order": {GOOD}, "gift": {GOOD}}}', deps=shop)
        refused = await opened.run(f'call sell with {{"order": {BAD}}}', deps=shop)
        return shop, sold, refused

    shop, sold, refused = run_scenario(tmp_path, scenario, tools=[sell])
    assert shop.sold == ["tea to High Street 7"]
    assert "sold tea and tea in r" in sold.text
    assert "order: to.number: Input should be greater than or equal to 1" in refused.text
    assert sold.cost == 0.0


@pytest.mark.requirement("H14")
def test_dependencies_are_the_runs_own_or_those_of_the_agent_and_a_tool_says_when_they_are_missing(tmp_path):
    task = f'call sell with {{"order": {GOOD}}}'

    async def scenario(opened):
        own = Shop([])
        results = await asyncio.gather(
            opened.run(task, deps=own), opened.run(task), opened.run(task, deps="other")
        )
        return own, results

    usual = Shop([])
    own, (_, _, wrong) = run_scenario(tmp_path, scenario, tools=[sell], deps=usual)
    assert len(own.sold) == len(usual.sold) == 1
    assert "needs a Shop from the program that runs it" in wrong.text
    with agent(tmp_path, tools=[sell]) as bare:
        assert "needs a Shop" in bare.run_sync(task).text


def answers(*texts):
    """A model that says these, one after the other."""
    left = list(texts)

    def model(request):
        return (Say(left.pop(0) if len(left) > 1 else left[0]), Finish())

    return model


def asked(folder, model, scenario, **more):
    async def main():
        async with (
            lab_provider(model) as provider,
            agent(folder, model="m", base_url=f"{provider.url}/v1", **more) as opened,
        ):
            return provider, await scenario(opened)

    return asyncio.run(main())


@pytest.mark.requirement("H14", "C10")
def test_an_answer_has_the_form_that_was_asked_for(tmp_path):
    provider, result = asked(
        tmp_path, answers(GOOD), lambda opened: opened.run("order tea", output_type=Order)
    )
    assert result.output == Order(item="tea", to=Address(street="High Street", number=7))
    assert (result.ok, result.model_calls) == (True, 1)
    wanted = provider.requests[0].body["response_format"]["json_schema"]
    assert (wanted["name"], set(wanted["schema"]["properties"])) == ("Order", {"item", "to", "notes"})


@pytest.mark.requirement("H14", "C10")
def test_an_answer_that_does_not_fit_is_asked_for_again_within_a_bound(tmp_path):
    provider, healed = asked(tmp_path, answers(BAD, GOOD), lambda opened: opened.run("x", output_type=Order))
    assert healed.output is not None
    assert (healed.ok, healed.model_calls, healed.spent.calls) == (True, 2, 2)
    assert "Answer again" in provider.requests[1].body["messages"][-1]["content"]
    provider, never = asked(
        tmp_path, answers("no JSON"), lambda opened: opened.run("x", output_type=Order, output_retries=1)
    )
    assert (never.output, never.outcome, len(provider.requests)) == (None, "partial", 2)
    assert never.why.startswith("the answer is not the JSON document that was asked for")


@pytest.mark.requirement("H14", "C10")
@pytest.mark.parametrize(
    "said, kind, output",
    [
        (f"```json\n{GOOD}\n```", Order, Order(item="tea", to=Address(street="High Street", number=7))),
        ("Plain words.", str, "Plain words."),
    ],
)
def test_a_document_in_a_code_block_is_read_and_text_is_wanted_as_text(said, kind, output, tmp_path):
    _, result = asked(tmp_path, answers(said), lambda opened: opened.run("x", output_type=kind))
    assert (result.output, result.outcome, result.why, result.model_calls) == (output, "completed", "", 1)


def test_a_budget_below_nothing_is_refused():
    with pytest.raises(ValueError, match="a budget of -1 money cannot be meant"):
        Budget(money=-1)


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Box:
    corners: list[Point]


@pytest.mark.requirement("H14")
@pytest.mark.parametrize(
    "kind, value, read",
    [
        (Point, {"x": 1}, Point(1)),
        (Box, {"corners": [{"x": 1, "y": 2}]}, Box([Point(1, 2)])),
        (list[Address], [{"street": "a", "number": 1}], [Address(street="a", number=1)]),
        (int, 3, 3),
        (Order | None, None, None),
    ],
)
def test_any_type_that_json_can_hold_is_read(kind, value, read):
    made = reader_of(kind)
    assert made.read(value) == read
    assert "$defs" not in made.schema or "$ref" in str(made.schema)
    with pytest.raises(TypeMisfit):
        made.read({"strange": "value"} if kind is not int else "3")


def test_only_types_of_pydantic_need_it():
    assert needs_pydantic(dict[str, list[Order]])
    assert not needs_pydantic(dict[str, list[Point]])


@pytest.mark.process
@pytest.mark.requirement("H14")
def test_pydantic_is_not_imported_unless_a_program_uses_it(tmp_path):
    program = (
        "import sys; from turnbuckle import Agent, tool\n"
        "@tool\ndef look(text: str) -> str:\n    'Look.'\n    return text\n"
        "Agent('rehearsal', tools=[look], data=':memory:', config=None)\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


@pytest.mark.requirement("H14", "H7")
def test_a_run_may_have_its_own_route_budget_and_instructions(tmp_path):
    def model(request):
        if request.body["model"] == "small" and not brings_results(request):
            return (Call("list_files", {}, 40), Finish())
        return (Say(request.body["model"]), Finish())

    async def main():
        async with lab_provider(model) as provider:
            route = {
                "protocol": "openai_chat",
                "base_url": f"{provider.url}/v1",
                "price": {"input": 1e6, "output": 0},
            }
            routes = [{**route, "name": name, "model": name} for name in ("large", "small")]
            settings = {"routes": routes, "agent.instructions": "Work in {workspace}, as a pirate."}
            made = Agent(workspace=tmp_path, data=":memory:", config=None, environment={}, settings=settings)
            async with made as opened:
                usual = await opened.run("a")
                other = await opened.run("b", route="small")
                capped = await opened.run("c", route="small", budget=Budget(model_calls=1))
                poor = await opened.run("d", route="small", budget=Budget(money=5))
                own = await opened.run("e", instructions="Be a cook.", session="s")
                later = await opened.run("f", session="s")
                with pytest.raises(InvalidValue, match="there is no route none; there are large, small"):
                    await opened.run("g", route="none")
            told = [request.body["messages"][0]["content"] for request in provider.requests]
            return usual, other, capped, poor, own, later, told

    usual, other, capped, poor, own, later, told = asyncio.run(main())
    assert (usual.text, other.text) == ("large", "small")
    assert 0 < usual.cost < other.cost
    assert (capped.outcome, capped.model_calls) == ("partial", 1)
    assert (poor.outcome, poor.model_calls) == ("partial", 1)
    assert own.ok
    assert later.ok
    assert told[0].startswith(f"Work in {tmp_path}, as a pirate. Messages that begin with [Runtime]")
    assert [one for one in told if "cook" in one] == told[-2:]  # what was said first stays said first
    assert told[-2].startswith("Be a cook. Messages")
