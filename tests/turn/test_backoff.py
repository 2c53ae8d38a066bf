"""How long is waited before the same route is asked again in silence."""

import pytest
from msgspec.structs import replace
from support.turns.turn_facts import POLICY

from turnbuckle.turn.facts import Retry
from turnbuckle.turn.recover import Broken, decide
from turnbuckle.turn.state import Tally
from turnbuckle.vocab.failure import failure

BLANK = Broken(
    "cut_by_transport",
    failure("reset", "gone"),
    False,
    False,
    "",
    None,
    0,
    Tally(),
    (),
    False,
    False,
    True,
    1e6,
    0.0,
)


@pytest.mark.requirement("A9")
def test_the_wait_doubles_up_to_eight_seconds_and_never_beyond():
    patient = replace(POLICY, stream_retries=20)
    waits = []
    for retries in range(1, 12):
        choice = decide(replace(BLANK, tally=Tally(retries=retries)), patient)
        assert isinstance(choice, Retry)
        waits.append(choice.after)
    assert waits == [0.5, 1.0, 2.0, 4.0, *[8.0] * 7]
