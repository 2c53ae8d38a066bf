"""Who is a stranger: another user of the machine, whoever guesses keys, and whoever had a key until a moment ago."""

import asyncio
import os
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import pytest

from turnbuckle.config import load
from turnbuckle.errors import ConfigError
from turnbuckle.hosting import open_server
from turnbuckle.server.http.auth import GUESSES, MOST_KEPT, Auth
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.http.neighbours import SameUser
from turnbuckle.server.http.serving import TOKEN, ShutdownSignal, serve
from turnbuckle.server.keys import KeyFile
from turnbuckle.server.streaming.heartbeat import Heartbeat
from turnbuckle.testing.clock import VirtualClock

LOOP = "127.0.0.1"
HERE = ("127.0.0.1", 8765)
ANN, BOB = ("10.0.0.1", 5), ("10.0.0.2", 5)


def refused(auth, headers, client=None, server=HERE):
    with pytest.raises(Problem) as problem:
        auth.caller(headers, client, server)
    return problem.value.status, problem.value.code


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("R9")
def test_without_keys_only_the_servers_own_user_is_served(tmp_path):
    users = {ANN: os.getuid(), BOB: os.getuid() + 1}
    auth = Auth([], KeyFile(tmp_path), LOOP, SameUser(os.getuid(), lambda client, server: users.get(client)))
    assert auth.caller({}, ANN, HERE).owner == "local"
    assert refused(auth, {}, BOB) == (403, "not_the_servers_user")
    assert refused(auth, bearer("guess"), BOB) == (403, "not_the_servers_user")
    assert refused(auth, {}, None) == (403, "not_the_servers_user")


@pytest.mark.requirement("R9")
def test_with_a_key_it_does_not_matter_whose_connection_it_is(tmp_path):
    _, token = KeyFile(tmp_path).create("one", "ann", 0.0)
    auth = Auth([], KeyFile(tmp_path), LOOP, SameUser(os.getuid(), lambda client, server: None))
    assert auth.caller(bearer(token), BOB, HERE).owner == "ann"


@pytest.mark.requirement("R12")
def test_guessing_is_slow_and_shuts_nobody_else_out(tmp_path):
    now = [0.0]
    _, token = KeyFile(tmp_path).create("one", "ann", 0.0)
    _, other = KeyFile(tmp_path).create("two", "bob", 0.0)
    auth = Auth([], KeyFile(tmp_path), LOOP, now=lambda: now[0])
    assert auth.caller(bearer(token), ANN).owner == "ann"
    for number in range(GUESSES):
        assert refused(auth, bearer(f"guess {number}"), ANN) == (401, "invalid_api_key")
    assert refused(auth, bearer("one more"), ANN) == (429, "too_many_wrong_keys")
    assert refused(auth, bearer(other), ANN) == (429, "too_many_wrong_keys")  # even a right guess is not told
    assert auth.caller(bearer(token), ANN).owner == "ann"
    assert auth.caller(bearer(other), BOB).owner == "bob"
    now[0] = 60.0
    assert auth.caller(bearer(other), ANN).owner == "bob"


@pytest.mark.requirement("R12")
def test_what_is_kept_about_guesses_has_a_limit(tmp_path):
    auth = Auth(["a key of the settings"], KeyFile(tmp_path), LOOP, now=lambda: 0.0)
    for number in range(MOST_KEPT + 10):
        assert refused(auth, bearer("x"), (f"10.{number}", 1))[0] == 401
        auth.caller(bearer("a key of the settings"), (f"11.{number}", 1))
    assert len(auth._guesses._wrong) <= MOST_KEPT
    assert len(auth._guesses._right) <= MOST_KEPT


@pytest.mark.requirement("R9")
def test_a_short_key_is_refused_where_others_can_reach_the_server(tmp_path):
    with pytest.raises(ConfigError, match="fewer than 16 characters"):
        Auth(["fifteen letters"], KeyFile(tmp_path), "0.0.0.0")
    assert Auth(["sixteen letters!"], KeyFile(tmp_path), "0.0.0.0").needs_key
    assert Auth(["short"], KeyFile(tmp_path), LOOP).needs_key


@asynccontextmanager
async def serving(folder, **options):
    """The real server of a folder, and the address that it announced."""
    changes = {"data": str(folder / "data"), "server.port": 0, "workspace": str(folder)}
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stopper = ShutdownSignal(lambda: None)
    loaded = load(folder=folder, changes=changes, environment={})
    async with open_server(loaded, {}, **options) as service:
        task = asyncio.create_task(serve(service, stopper, address.set_result, signals=False))
        try:
            yield await address
        finally:
            stopper.ask()
            await task


@pytest.mark.realtime
@pytest.mark.requirement("R4")
def test_a_revoked_key_ends_its_open_streams_and_leaves_those_of_others(tmp_path):
    (tmp_path / "data").mkdir()
    keys = KeyFile(tmp_path / "data")
    ann, token = keys.create("one", "ann", 0.0)
    _, other = keys.create("two", "bob", 0.0)
    wish = {
        "model": "agent",
        "stream": True,
        "messages": [{"role": "user", "content": "write a.txt with 9000 lines slowly"}],
    }

    async def scenario():
        async with serving(tmp_path) as address, aiohttp.ClientSession() as client:
            path = f"{address}/v1/chat/completions"
            async with (
                client.post(path, json=wish, headers=bearer(token)) as mine,
                client.post(path, json=wish, headers=bearer(other)) as theirs,
            ):
                await mine.content.readany()
                await theirs.content.readany()
                keys.revoke(ann.id, 1.0)
                with pytest.raises(aiohttp.ClientError):
                    await mine.content.read()
                more = await theirs.content.readany()
            async with client.get(f"{address}/v1/runs", headers=bearer(token)) as answer:
                return more, answer.status

    more, status = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert more
    assert status == 401


@pytest.mark.requirement("R4")
@pytest.mark.parametrize("keepalive, noop", [(15.0, 30.0), (3600.0, 3600.0), (0.5, 1.0)])
def test_keys_are_looked_at_so_often_that_a_revoked_one_ends_its_streams_within_a_second(keepalive, noop):
    clock = VirtualClock()
    looks: list[float] = []

    async def main() -> None:
        pulse = Heartbeat(keepalive=keepalive, noop=noop, wall=clock.now)
        beating = asyncio.create_task(pulse.run(tuple, lambda: looks.append(clock.now())))
        await clock.sleep(60)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)

    clock.run(main, quiet=0.0)
    assert max(later - earlier for earlier, later in pairwise([0.0, *looks])) < 1.0


@pytest.mark.realtime
@pytest.mark.requirement("R9")
def test_where_nobody_tells_users_apart_the_server_makes_a_key_of_its_own(tmp_path):
    async def scenario():
        async with (
            serving(tmp_path, tells_users=lambda: False) as announced,
            aiohttp.ClientSession() as client,
        ):
            address, _, token = announced.partition(TOKEN)
            async with client.get(f"{address}/v1/runs") as answer:
                without = answer.status
            async with client.get(f"{address}/v1/runs", headers=bearer(token)) as answer:
                return token, without, answer.status

    token, without, with_key = asyncio.run(scenario())
    assert len(token) >= 40
    assert (without, with_key) == (401, 200)
