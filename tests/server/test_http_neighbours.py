"""Who is at the other end of a connection within this machine."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from turnbuckle.server.http import neighbours
from turnbuckle.server.http.neighbours import SameUser, can_tell, peer_uid

HOSTS = ["127.0.0.1", "::1"]
CONNECTS = """
import os, socket, sys
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with socket.socket() as ours:
    ours.connect((sys.argv[1], int(sys.argv[2])))
    print(os.getuid(), flush=True)
    sys.stdin.read()
"""


@contextmanager
def connection(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as ours,
    ):
        theirs, _ = listening.accept()
        with theirs:
            yield ours.getsockname()[:2], ours.getpeername()[:2]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.requirement("R9")
def test_a_connection_of_ones_own_is_known_as_such_by_both_ways(host):
    with connection(host) as (client, server):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        ours, theirs = neighbours._packed(family, client), neighbours._packed(family, server)
        assert peer_uid(client, server) == os.getuid()
        assert neighbours._by_table(family, ours, theirs) == os.getuid()
        assert SameUser(os.getuid()).allows(client, server)
        assert not SameUser(os.getuid() + 1).allows(client, server)


@pytest.mark.process
@pytest.mark.requirement("R9")
def test_a_process_of_another_user_is_told_from_ones_own():
    """As root the child becomes somebody else; without that right it stays who it is, and is known as that."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        command = [sys.executable, "-c", CONNECTS, host, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            theirs, client = listening.accept()
            with theirs:
                assert child.stdout is not None
                uid = int(child.stdout.readline())
                assert peer_uid(client, (host, port)) == uid
                assert SameUser(os.getuid()).allows(client, (host, port)) == (uid == os.getuid())
                assert (uid == os.getuid()) == (os.getuid() != 0)
            child.communicate("")


@pytest.mark.parametrize(
    "client, server",
    [
        (None, ("127.0.0.1", 1)),
        (("127.0.0.1", 1), None),
        (("", 0), ("", 0)),
        (("/run/x.sock", 0), ("127.0.0.1", 1)),
        (("127.0.0.1", 1), ("127.0.0.1", 2)),
    ],
    ids=["no client", "no server", "nothing", "a socket of the file system", "nobody is connected"],
)
@pytest.mark.requirement("R9")
def test_whoever_cannot_be_known_is_not_let_in(client, server):
    assert not SameUser(os.getuid()).allows(client, server)


@pytest.mark.requirement("R9")
def test_this_machine_says_whether_it_can_tell():
    assert can_tell() == (peer_uid_of_ourselves() == os.getuid())


def peer_uid_of_ourselves():
    with connection("127.0.0.1") as (client, server):
        return peer_uid(client, server)


class Connection:
    """Our end of one."""


def test_who_is_at_the_other_end_is_asked_once_for_each_connection():
    asked: list[int] = []

    def look(client, server):
        asked.append(client[1])
        return 1000

    user, one, other = SameUser(1000, look), Connection(), Connection()
    allowed = [
        user.allows(("127.0.0.1", 1), ("127.0.0.1", 2), mine) for mine in (one, one, other, None, None)
    ]
    assert (all(allowed), len(asked)) == (True, 4)
    assert not SameUser(1, look).allows(("127.0.0.1", 1), ("127.0.0.1", 2), one)
