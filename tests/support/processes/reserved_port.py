"""A port that is a test's own before a server has it, and while the server is away.

A port that was found free and let go may be anybody's a moment later, and other tests take ports all the time. This one is
bound and not listened on: nobody else gets it, connections to it are refused, and a server that is told to have it can.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Nobody else's until the block ends."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
