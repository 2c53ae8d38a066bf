"""`/v1/usage`: what was used and what it cost, by day and by session."""

from typing import Literal

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter
from turnbuckle.service.sessions import SessionService
from turnbuckle.service.spending import DaySpending, Spending, SpendingService

USUAL_DAYS, MOST_DAYS = 7, 366
_DAYS = Parameter(
    "days",
    "How many days, today included. A day is one by UTC.",
    schema={"type": "integer", "minimum": 1, "maximum": MOST_DAYS, "default": USUAL_DAYS},
)


class UsageView(Struct, frozen=True):
    """One entry for each day on which a run began, the newest first."""

    days: list[DaySpending]
    object: Literal["usage"] = "usage"


class UsageApi:
    """The handlers."""

    def __init__(self, spending: SpendingService, sessions: SessionService) -> None:
        self._spending = spending
        self._sessions = sessions

    async def by_day(self, exchange: Exchange) -> Answer:
        days = exchange.query.integer("days", USUAL_DAYS, least=1, most=MOST_DAYS)
        return json_answer(UsageView(await self._spending.by_day(exchange.caller.owner, days)))

    async def of_session(self, exchange: Exchange) -> Answer:
        row = await self._sessions.row(exchange.params["session"], exchange.caller.owner)
        return json_answer(await self._spending.of_session(row.name))


def usage_endpoints(api: UsageApi) -> tuple[Endpoint, ...]:
    """The rows of the table."""
    days, session = "Tokens and cost by day, the newest first", "Tokens and cost of a session"
    return (
        Endpoint(
            "GET",
            "/v1/usage",
            api.by_day,
            Operation("getUsage", days, "usage", (_DAYS,), answers={200: (Given(days, UsageView),)}),
        ),
        Endpoint(
            "GET",
            "/v1/sessions/{session}/usage",
            api.of_session,
            Operation("getSessionUsage", session, "usage", answers={200: (Given(session, Spending),)}),
        ),
    )
