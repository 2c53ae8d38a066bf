"""Keys: who may use the server, and when that ends."""

import asyncio
import itertools
import os
import stat
import threading

import pytest
from support.http.memory_server import memory_server

from turnbuckle.errors import ConfigError
from turnbuckle.server.http.auth import Auth, token_of
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.keys import FILE, KeyFile, hash_of
from turnbuckle.server.settings import ServerSettings
from turnbuckle.service.owners import Caller

TOKEN = "tb-written-in-the-settings"
LOOP = "127.0.0.1"


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("F9")
def test_without_any_key_whoever_comes_from_this_machine_is_local(tmp_path):
    auth = Auth([], KeyFile(tmp_path), LOOP)
    assert auth.caller({}) == Caller("local")
    assert auth.caller(bearer("anything")) == Caller("local")  # clients insist on sending one


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_without_any_key_nobody_listens_for_others(tmp_path, host):
    with pytest.raises(ConfigError, match="turnbuckle keys create NAME"):
        Auth([], KeyFile(tmp_path), host)
    assert Auth([TOKEN], KeyFile(tmp_path), host).needs_key
    KeyFile(tmp_path).create("one", "owner", 0.0)
    assert Auth([], KeyFile(tmp_path), host).needs_key


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "LOCALHOST.", "a.localhost"]
)
def test_this_machine_has_many_names(tmp_path, host):
    assert Auth([], KeyFile(tmp_path), host).caller({}).owner == "local"


@pytest.mark.requirement("F9")
def test_keys_of_the_settings_and_of_the_file_work_in_either_header(tmp_path):
    key, token = KeyFile(tmp_path).create("laptop", "ann", 0.0)
    auth = Auth([TOKEN], KeyFile(tmp_path), LOOP)
    assert auth.caller(bearer(TOKEN)).owner == "owner"
    assert auth.caller(bearer(token)) == Caller("ann", key.id)
    assert auth.caller({"x-api-key": token}) == Caller("ann", key.id)
    assert auth.caller({"authorization": f"bearer  {token} "}).owner == "ann"


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer(""),
        bearer("wrong"),
        bearer(TOKEN + "x"),
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
    ],
)
def test_a_wrong_key_and_none_are_refused_with_a_challenge(tmp_path, headers):
    with pytest.raises(Problem) as caught:
        Auth([TOKEN], KeyFile(tmp_path), LOOP).caller(headers)
    problem = caught.value
    assert (problem.status, problem.code) == (401, "invalid_api_key")
    assert ("www-authenticate", "Bearer") in problem.headers
    assert TOKEN not in problem.message


def test_a_key_that_can_not_be_text_is_merely_wrong(tmp_path):
    assert token_of({"authorization": "Bearer \udcff"}) == "\udcff"
    assert KeyFile(tmp_path).find(hash_of("\udcff\xe9")) is None


@pytest.mark.requirement("F9")
def test_a_key_is_nowhere_in_the_file_which_only_its_owner_may_read(tmp_path):
    _, token = KeyFile(tmp_path).create("laptop", "ann", 0.0)
    path = tmp_path / FILE
    assert token not in path.read_text()
    assert token.removeprefix("tb-") not in path.read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert len(token) >= 46
    assert [file.name for file in tmp_path.iterdir() if token in file.read_text()] == []


@pytest.mark.requirement("F9")
def test_a_key_that_is_made_or_revoked_beside_a_server_counts_at_once(tmp_path):
    serving, beside = KeyFile(tmp_path), KeyFile(tmp_path)
    auth = Auth([], serving, LOOP)
    assert auth.caller({}).owner == "local"
    key, token = beside.create("one", "ann", 0.0)
    with pytest.raises(Problem):
        auth.caller({})
    assert auth.caller(bearer(token)).owner == "ann"
    beside.revoke(key.id, 1.0)
    with pytest.raises(Problem, match="revoked"):
        auth.caller(bearer(token))


class CountedLooks(KeyFile):
    looks = 0

    def _refresh(self):
        self.looks += 1
        super()._refresh()


def test_each_request_looks_once_which_keys_there_are(tmp_path):
    file = CountedLooks(tmp_path)
    auth = Auth([], file, LOOP)
    looks = [file.looks]

    def ask(headers):
        auth.caller(headers)
        looks.append(file.looks)

    ask({})
    ask(bearer("anything"))
    _, token = file.create("one", "ann", 0.0)
    with pytest.raises(Problem):
        ask({})
    looks.append(file.looks)
    ask(bearer(token))
    with pytest.raises(Problem):
        ask(bearer("anything"))
    looks.append(file.looks)
    assert [later - sooner for sooner, later in itertools.pairwise(looks)] == [1, 1, 1, 1, 1]


@pytest.mark.requirement("F9")
def test_neither_revoking_the_last_key_nor_losing_the_file_opens_a_server(tmp_path):
    file = KeyFile(tmp_path)
    key, token = file.create("one", "ann", 0.0)
    auth = Auth([], KeyFile(tmp_path), LOOP)
    file.revoke(key.id, 1.0)
    with pytest.raises(Problem):
        auth.caller({})
    assert auth.needs_key
    (tmp_path / FILE).unlink()
    nothing: dict[str, str] = {}
    for headers in (nothing, bearer(token)):
        with pytest.raises(Problem):
            auth.caller(headers)


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"version": 2, "keys": []}', b'{"keys": [{"id": 1}]}', b"\xff"]
)
def test_a_file_of_keys_that_can_not_be_read_lets_nobody_in(tmp_path, damage):
    _, token = KeyFile(tmp_path).create("one", "ann", 0.0)
    auth = Auth([], KeyFile(tmp_path), LOOP)
    (tmp_path / FILE).write_bytes(damage)
    for headers, status in (({}, 401), (bearer(token), 503)):
        with pytest.raises(Problem) as caught:
            auth.caller(headers)
        assert caught.value.status == status
    with pytest.raises(ConfigError, match=r"keys\.json cannot be used"):
        KeyFile(tmp_path).create("two", "ann", 0.0)


def test_keys_that_are_made_at_the_same_time_are_all_there(tmp_path):
    def make(number):
        KeyFile(tmp_path).create(f"key {number}", "ann", float(number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = KeyFile(tmp_path).keys()
    assert sorted(key.name for key in keys) == sorted(f"key {number}" for number in range(12))
    assert len({key.id for key in keys}) == 12


def test_revoking_twice_changes_nothing_and_an_unknown_key_is_told(tmp_path):
    file = KeyFile(tmp_path)
    key, _ = file.create("one", "ann", 0.0)
    assert file.revoke(key.id, 1.0).revoked == 1.0
    assert file.revoke(key.id, 2.0).revoked == 1.0
    with pytest.raises(ConfigError, match="turnbuckle keys list"):
        file.revoke("key_none", 1.0)


@pytest.mark.parametrize(
    "name, owner", [("", "ann"), ("a\nb", "ann"), ("x" * 101, "ann"), ("a", ""), ("a", "x/y"), ("a", "ü")]
)
def test_names_that_would_confuse_are_refused(tmp_path, name, owner):
    with pytest.raises(ConfigError):
        KeyFile(tmp_path).create(name, owner, 0.0)
    assert KeyFile(tmp_path).keys() == ()


@pytest.mark.requirement("F9")
def test_over_http_only_health_is_open_and_a_revoked_key_ends_also_for_who_comes_back(tmp_path):
    file = KeyFile(tmp_path)
    key, token = file.create("one", "ann", 0.0)

    async def main():
        async with memory_server(folder=tmp_path) as built:
            opened = [(await built.ask("GET", path)).status for path in ("/healthz", "/readyz")]
            shut = [await built.ask("GET", path) for path in ("/metrics", "/v1/models", "/runs/r1/events")]
            good = [
                (await built.ask("GET", path, headers=bearer(token))).status
                for path in ("/metrics", "/v1/models")
            ]
            async with built.client() as client:
                first = await client.stream("/runs/r1/events", headers=bearer(token))
                await client.chunk()
                file.revoke(key.id, 1.0)
                await built.say(b"on")  # what is open stays open
                more = await client.chunk()
            back = await built.ask("GET", "/runs/r1/events?after=1", headers=bearer(token))
            return opened, shut, good, first.status, more, back

    opened, shut, good, first, more, back = asyncio.run(main())
    assert opened == [200, 200]
    assert [reply.status for reply in shut] == [401, 401, 401]
    assert all(reply.headers["www-authenticate"] == "Bearer" for reply in shut)
    assert good == [200, 200]
    assert (first, more, back.status) == (200, b"data: on\n\n", 401)


@pytest.mark.requirement("F9")
def test_the_handler_is_told_whose_key_it_was(tmp_path):
    _, token = KeyFile(tmp_path).create("one", "ann", 0.0)

    async def main():
        async with memory_server(ServerSettings(port=0), folder=tmp_path, keys=[TOKEN]) as built:
            body = b'{"text": "x"}'
            asked = [
                await built.ask("POST", "/echo", body=body, headers=bearer(each)) for each in (TOKEN, token)
            ]
            return [reply.json["owner"] for reply in asked]

    assert asyncio.run(main()) == ["owner", "ann"]
