"""`/v1/rules`: what "always" has allowed, and how to take it away."""

from typing import Any

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.server.http.pages import AFTER, SHORT_LIMIT, Page, part_of
from turnbuckle.service.rules import RuleService, RuleView


class RulesApi:
    """The handlers."""

    def __init__(self, rules: RuleService) -> None:
        self._rules = rules

    async def list(self, exchange: Exchange) -> Answer:
        rules = await self._rules.list(exchange.caller.owner)
        return json_answer(part_of(rules, lambda one: one.id, exchange.query))

    async def remove(self, exchange: Exchange) -> Answer:
        gone = await self._rules.remove(exchange.params["rule"], exchange.caller.owner)
        return json_answer({"id": gone.id, "object": "rule", "deleted": True})


def rule_endpoints(api: RulesApi, deleted: dict[str, Any]) -> tuple[Endpoint, ...]:
    """The rows of the table. `deleted` is the shape of what is gone."""
    rules: Any = Page[RuleView]
    listed = Operation(
        "listRules",
        "What you have always allowed",
        "runs",
        (SHORT_LIMIT, AFTER),
        answers={200: (Given("The rules, the oldest first.", rules),)},
    )
    removed = Operation(
        "deleteRule",
        "Remove a rule: the next such call asks first",
        "runs",
        answers={200: (Given("Gone.", deleted),)},
    )
    return (
        Endpoint("GET", "/v1/rules", api.list, listed),
        Endpoint("DELETE", "/v1/rules/{rule}", api.remove, removed),
    )
