"""Bodies are counted before they are decoded, and held within a budget."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.server.http.bodies import BODY_SECONDS, Body, BodyBudget
from turnbuckle.server.http.body_values import SMALL, TooManyValues, counted
from turnbuckle.server.http.client_connection import ClientGone
from turnbuckle.server.http.exchange import Problem
from turnbuckle.testing.clock import VirtualClock

PIECE = 256 * 1024
MOST = 10_000_000


def values_in(body):
    """Counted by hand: commas and opening brackets outside of strings."""
    count, inside, escaped = 0, False, False
    for sign in body:
        if escaped:
            escaped = False
        elif inside and sign == ord("\\"):
            escaped = True
        elif sign == ord('"'):
            inside = not inside
        elif not inside and sign in b"[{,":
            count += 1
    return count


def fits(body, most):
    try:
        for _ in counted(body, most):
            pass
    except TooManyValues:
        return False
    return True


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
@pytest.mark.requirement("R1")
def test_values_are_counted_outside_of_strings(value):
    body = msgspec.json.encode(value)
    assert fits(body, values_in(body))
    assert not values_in(body) or not fits(body, values_in(body) - 1)


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("sign", [b"\n", b"1", b'"', b"\\"])
def test_whatever_a_body_is_made_of_its_count_pauses_again_and_again(sign):
    begin = b'"' if sign == b"\\" else b""
    pauses = sum(1 for _ in counted(begin + sign * (2 << 20), 1 << 30))
    assert pauses >= 7


@given(st.binary() | st.text(alphabet='"\\[{,a').map(str.encode))
@pytest.mark.requirement("R1")
def test_what_is_not_json_is_counted_all_the_same(body):
    assert fits(body, values_in(body))


@pytest.mark.parametrize(
    "mark", [b'\\"', b"\\\\", b"\\u0041", b"a"], ids=["quote", "backslash", "code", "letter"]
)
@pytest.mark.requirement("R1")
def test_a_string_longer_than_a_piece_hides_what_it_holds_wherever_it_is_torn(mark):
    for before in range(PIECE - 8, PIECE + 3):
        body = b'["' + b"a" * before + mark + b'[{,", 1]'
        assert fits(body, 2)
        assert not fits(body, 1)


@pytest.mark.requirement("R1")
def test_the_count_stops_at_its_limit_and_pauses_on_the_way():
    bomb = b"[" + b"{}," * 2_000_000 + b"{}]"
    pauses: list[None] = []
    with pytest.raises(TooManyValues):
        pauses.extend(counted(bomb))
    assert len(pauses) >= 500_000 // 20_000 - 1


def received(*pieces, then="end"):
    """Messages of a server: the pieces of a body, and then its end, silence or the client's leaving."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if then == "end":
        messages[-1]["more_body"] = False
    if then == "leave":
        messages.append({"type": "http.disconnect"})

    async def receive():
        if messages:
            return messages.pop(0)
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    return receive


def body_of(receive, *, budget=None, limit=1 << 25, owner="ann", **headers):
    return Body(receive, headers, limit, budget or BodyBudget(1 << 26, 1 << 27), owner)


def refused(body, clock=None):
    with pytest.raises(Problem) as problem:
        (clock or VirtualClock()).run(body.read)
    return problem.value.status, problem.value.code


@pytest.mark.requirement("R12")
def test_a_body_counts_until_it_is_let_go_of_and_others_are_read_meanwhile():
    budget = BodyBudget(100, 150)
    first = body_of(received(b"x" * 60, b"y" * 30), budget=budget)
    assert VirtualClock().run(first.read) == b"x" * 60 + b"y" * 30
    assert budget.held == 90
    assert refused(body_of(received(b"z" * 20), budget=budget)) == (503, "too_many_bytes")
    assert VirtualClock().run(body_of(received(b"z" * 60), budget=budget, owner="bob").read) == b"z" * 60
    assert refused(body_of(received(b"z"), budget=budget, owner="cid")) == (503, "too_many_bytes")
    first.let_go()
    first.let_go()
    assert budget.held == 60
    assert VirtualClock().run(body_of(received(b"z" * 80), budget=budget).read) == b"z" * 80


@pytest.mark.requirement("R12")
def test_a_body_that_breaks_off_gives_back_what_it_held():
    budget = BodyBudget(100, 100)
    body = body_of(received(b"x" * 60, then="leave"), budget=budget)
    with pytest.raises(ClientGone):
        VirtualClock().run(body.read)
    body.let_go()
    assert budget.held == 0


@pytest.mark.requirement("R12")
def test_a_body_that_never_ends_is_given_up():
    clock = VirtualClock()
    assert refused(body_of(received(b"{", then="silence")), clock) == (408, "request_timeout")
    assert clock.now() == BODY_SECONDS


def test_a_body_that_is_here_is_read_without_a_clock():
    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    body = Body(receive, {}, 100, BodyBudget(100, 100), "ann", is_here=True)
    with pytest.raises(StopIteration) as read:
        body.read().send(None)  # without a loop, and so without a wait
    assert read.value.value == b"{}"


@pytest.mark.requirement("R1")
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded():
    bomb = b"[" + b"{}," * (SMALL // 2) + b"{}]"
    assert refused(body_of(received(bomb))) == (413, "too_many_values")
