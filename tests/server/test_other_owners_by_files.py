"""What is another owner's is not readable by way of a file: a forged import, then everything one may do with it."""

import re

import msgspec
import pytest
from support.server.owners_server import MARKS, owners_server


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners")) as made:
        yield made


def forged(own: bytes, theirs: str, session: str) -> list[bytes]:
    """A session of one's own, in which everything that names a run names one of somebody else."""
    head, *lines = own.splitlines()
    runs = [run["run"] for run in msgspec.json.decode(head)["runs"]]
    made = []
    for place in ("facts", "all", "base", "compacted", "session base", "session"):
        text = [head, *lines]
        if place == "facts":  # in facts only: the streams keep their names
            text = [head, *(_replaced_in_fact(line, runs, theirs) for line in lines)]
        elif place == "all":
            text = [b"\n".join([head, *lines]).replace(runs[0].encode(), theirs.encode())]
        elif place == "session":
            text = [
                b"\n".join([head, *lines]).replace(
                    msgspec.json.decode(head)["session"].encode(), session.encode()
                )
            ]
        else:
            text = [head, *(_with_field(line, place, theirs) for line in lines)]
        made.append(b"\n".join(text))
    return made


def _replaced_in_fact(line: bytes, runs: list[str], theirs: str) -> bytes:
    told = msgspec.json.decode(line)
    fact = msgspec.json.encode(told["fact"])
    for run in runs:
        fact = fact.replace(run.encode(), theirs.encode())
    return msgspec.json.encode({**told, "fact": msgspec.Raw(fact)})


def _with_field(line: bytes, place: str, theirs: str) -> bytes:
    told = msgspec.json.decode(line)
    wanted = "session_made" if place.startswith("session") else "run_started"
    if told["fact"]["type"] == wanted:
        told["fact"][place.rpartition(" ")[2]] = theirs
    return msgspec.json.encode(told)


@pytest.mark.requirement("R2")
def test_a_forged_file_shows_nothing_of_anybody_else_however_it_is_used(built):
    ann, mark = built.at("ann"), MARKS["bob"].encode()
    own = built.call(ann.get(f"/v1/sessions/{built.things['ann'].ids['session'][0]}/export")).body
    lines = {"content-type": "application/x-ndjson", "authorization": f"Bearer {built.keys['ann']}"}
    brought = 0
    for theirs in built.things["bob"].ids["run"][:2]:
        for body in forged(own, theirs, built.things["bob"].ids["session"][0]):
            assert mark not in body

            async def sent(body: bytes = body):
                async with ann.client() as client:
                    return await client.ask("POST", "/v1/sessions/import", body=body, headers=lines)

            reply = built.call(sent())
            assert mark not in reply.body
            if reply.status != 201:
                assert reply.status in (400, 409, 422), reply.body
                continue
            brought += 1
            session = reply.headers["location"].rpartition("/")[2]
            fork = built.call(ann.post(f"/v1/sessions/{session}/fork"))
            names = [session, *([fork.json["id"]] if fork.status < 300 else [])]
            for name in names:
                run = built.call(ann.begin("hello annsmarmalade", session=name))
                built.call(ann.ended(run))
                for path in ("", "/messages", "/export", "/runs"):
                    shown = built.call(ann.get(f"/v1/sessions/{name}{path}"))
                    assert mark not in shown.body, (path, body[:200])
                assert mark not in built.call(ann.get(f"/v1/runs/{run}/events")).body
    assert brought


@pytest.mark.requirement("R2")
def test_numbers_settings_and_lists_name_nothing_of_anybody_else(built):
    kinds = built.things["bob"].ids
    theirs = [
        name.encode() for kind in kinds if kind != "session" for name in kinds[kind]
    ]  # those are chosen freely
    ann = built.at("ann")
    for path in (
        "/metrics",
        "/v1/settings",
        "/v1/runs?limit=100",
        "/v1/sessions?limit=100",
        "/v1/models",
        "/v1/processes",
    ):
        body = built.call(ann.get(path)).body
        assert MARKS["bob"].encode() not in body, path
        assert not [
            name for name in theirs if re.search(rb"(?<![\w-])" + re.escape(name) + rb"(?![\w-])", body)
        ], path
