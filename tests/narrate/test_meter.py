"""A line that says which route works, how full the context is, and what it has cost so far."""

import pytest

from turnbuckle.narrate.meter import Meter
from turnbuckle.narrate.told import ModelCalled, ReplyOver, RunOver, UsageCounted
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Spent

ASKED = ModelCalled(1, "main", "m", "first", expected=500, window=10_000)
SUMMARY = ModelCalled(2, "small", "s", "compact", expected=9_000, window=20_000)

CASES = {
    "nothing was asked": ((), ""),
    "asked": ((ASKED,), "main · context 500 (5 %)"),
    "no window": ((ModelCalled(1, "main", "m", "first", expected=1_500),), "main · context 1,500"),
    "counted": ((ASKED, UsageCounted(1, Usage(900, 100))), "main · context 1,000 (10 %)"),
    "priced": (
        (ASKED, UsageCounted(1, Usage(900, 100)), ReplyOver(1, cost=0.5)),
        "main · context 1,000 (10 %) · $0.5000",
    ),
    "not priced": (
        (ASKED, UsageCounted(1, Usage(900, 100)), ReplyOver(1)),
        "main · context 1,000 (10 %) · cost unknown",
    ),
    "a refused request costs nothing": ((ASKED, ReplyOver(1)), "main · context 500 (5 %)"),
    "a summary is not part of the context": (
        (ASKED, SUMMARY, UsageCounted(2, Usage(9_000, 100)), ReplyOver(2, cost=0.25)),
        "main · context 500 (5 %) · $0.2500",
    ),
    "what is left of its limits": (
        (
            ModelCalled(1, "main", "m", "first", expected=500, max_money=0.5, max_tokens=9000),
            UsageCounted(1, Usage(input=600, output=400)),
            ReplyOver(1, cost=0.25),
        ),
        "main · context 1,000 · 1,000 of 9,000 tokens · $0.2500 of $0.5000",
    ),
    "a limit of which nothing is used": (
        (ModelCalled(1, "main", "m", "first", max_money=2.0),),
        "main · $0.00 of $2.00",
    ),
    "all calls broke before anybody counted": (
        (ASKED, ReplyOver(1), RunOver("r", Outcome("failed"), spent=Spent(1))),
        "main · context 500 (5 %) · cost unknown",
    ),
    "and there is a limit": (
        (
            ModelCalled(1, "main", "m", "first", max_money=2.0),
            RunOver("r", Outcome("failed"), spent=Spent(1)),
        ),
        "main · cost unknown (limit $2.00)",
    ),
    "the end knows best": (
        (ASKED, ReplyOver(1, cost=0.5), RunOver("r", Outcome("completed"), spent=Spent(2, cost=0.75))),
        "main · context 500 (5 %) · $0.7500",
    ),
}


@pytest.mark.requirement("H8")
@pytest.mark.parametrize("told, words", CASES.values(), ids=CASES.keys())
def test_the_line_says(told, words):
    meter = Meter()
    for one in told:
        meter.take(one)
    assert meter.words == words
