"""Who asks: a key in the request, or nobody in particular on a machine of one's own.

As soon as there is any key, in the settings or in the data folder, revoked ones included, every request needs
a good one. Without any key the server takes requests of its own user on its own machine only, and whoever
comes is the owner `local`. Which keys there are is looked up with every request, so a revoked key is
worthless at once, and the streams that it opened end with it.

Wrong keys are counted by the address that they come from. Where there were too many in a minute, only a key
that has been right from there before is still looked at, so that guessing is slow and nobody else is shut
out.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from turnbuckle.errors import ConfigError
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.http.neighbours import Address, SameUser
from turnbuckle.server.http.origins import is_loopback
from turnbuckle.server.keys import OWNER, KnownKeys, hash_of
from turnbuckle.service.owners import LOCAL, Caller

log = logging.getLogger("turnbuckle.server")

SHORTEST = 16
"""Characters of a key in the settings of a server that others can reach."""
GUESSES = 20
"""Wrong keys that one address may send in a minute."""
MOST_KEPT = 10_000  # addresses, and keys that were right
STRANGER = (
    "this server has no keys, so it serves only the user that runs it, and this connection is another "
    "user's; whoever runs it makes a key by `turnbuckle keys create NAME`"
)
_MINUTE = 60.0
_CHALLENGE = (("www-authenticate", "Bearer"),)


class Auth:
    """Reads the key of a request. `written` are the keys of the settings, already looked up. `neighbours`
    tells whose connection it is, where no key does; without it everybody on this machine is served."""

    def __init__(
        self,
        written: Iterable[str],
        file: KnownKeys,
        host: str,
        neighbours: SameUser | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        written = tuple(written)
        self._neighbours = neighbours
        self._guesses = _Guesses(now)
        self._written = {
            hash_of(token): Caller(OWNER, f"setting {number}") for number, token in enumerate(written)
        }
        self._file = file
        self._near = is_loopback(host)
        self._locked = bool(self._written)
        if not self.needs_key and not self._near:
            raise ConfigError(
                f"the server would listen on {host} for everybody, and there is no key: create one with "
                "`turnbuckle keys create NAME`, or set server.api_keys, or listen on 127.0.0.1"
            )
        if not self._near and any(len(token) < SHORTEST for token in written):
            raise ConfigError(
                f"a key in server.api_keys has fewer than {SHORTEST} characters, which can be guessed, and "
                f"the server would listen on {host} for everybody: use a longer one, or "
                "`turnbuckle keys create NAME`"
            )

    @property
    def needs_key(self) -> bool:
        """Once it is true it stays true: a file of keys that is lost while the server runs must not open
        it."""
        self._locked = self._locked or bool(self._file.keys())
        return self._locked

    def caller(
        self,
        headers: Mapping[str, str],
        client: Address | None = None,
        server: Address | None = None,
        connection: object = None,
    ) -> Caller:
        """Who asks, over the connection between these two addresses, of which `connection` is our end. Raises
        Problem."""
        token = token_of(headers)
        host = "" if client is None else client[0]
        try:
            if self._near and not self.needs_key:  # without any key there is none to be looked up
                if self._neighbours is None or self._neighbours.allows(client, server, connection):
                    return Caller(LOCAL)
                raise Problem(403, STRANGER, code="not_the_servers_user", should_retry=False)
            if token and (known := self._looked_up(token, host)) is not None:
                return known
        except ConfigError as error:
            log.error("%s", error)  # which keys are good is not known, so none is
            raise Problem(503, "the keys cannot be read; see the server's log", retry_after=30.0) from None
        self._guesses.count(host)
        raise Problem(401, _wrong(token), code="invalid_api_key", headers=_CHALLENGE, should_retry=False)

    def revoked(self) -> frozenset[str]:
        """The ids of all keys that are worthless by now; none if they cannot be read, which is told to
        whoever asks for anything."""
        try:
            every = self._file.keys()
        except ConfigError:
            return frozenset()
        return frozenset(key.id for key in every if key.revoked is not None)

    def _looked_up(self, token: str, host: str) -> Caller | None:
        hashed = hash_of(token)
        known = (host, hashed)
        self._guesses.check(known)
        caller = self._found(hashed)
        if caller is not None:
            self._guesses.trust(known)
        return caller

    def _found(self, hashed: str) -> Caller | None:
        # Only hashes are compared: how long that takes says nothing about the key.
        if (written := self._written.get(hashed)) is not None:
            return written
        key = self._file.find(hashed)
        return None if key is None else Caller(key.owner, key.id)


class _Guesses:
    """Wrong keys of this minute, by where they come from, and the keys that were right from there."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since = now()
        self._wrong: dict[str, int] = {}
        self._right: dict[tuple[str, str], None] = {}

    def check(self, known: tuple[str, str]) -> None:
        """Raises Problem if a key from there is not to be looked at."""
        self._pass_time()
        if self._wrong.get(known[0], 0) >= GUESSES and known not in self._right:
            message = "too many wrong keys came from this address; try again in a minute"
            raise Problem(429, message, code="too_many_wrong_keys", retry_after=_MINUTE, should_retry=True)

    def count(self, host: str) -> None:
        self._pass_time()
        self._wrong[host] = self._wrong.get(host, 0) + 1
        if len(self._wrong) > MOST_KEPT:
            del self._wrong[next(iter(self._wrong))]

    def trust(self, known: tuple[str, str]) -> None:
        self._right[known] = None
        if len(self._right) > MOST_KEPT:
            del self._right[next(iter(self._right))]

    def _pass_time(self) -> None:
        if self._now() - self._since >= _MINUTE:
            self._since = self._now()
            self._wrong.clear()


def token_of(headers: Mapping[str, str]) -> str:
    """The key that a request shows, in either of the usual headers."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get("x-api-key", "").strip()


def _wrong(token: str) -> str:
    if not token:
        return "a key is needed: send the header `Authorization: Bearer KEY`"
    return "this key is not known, or was revoked"
