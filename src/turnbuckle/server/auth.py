"""Who asks: a key in the request, or nobody in particular on a machine of one's own.

As soon as there is any key, in the settings or in the data folder, revoked ones included, every request needs a good
one. Without any key the server takes requests from its own machine only, and whoever comes is the owner `local`.
Which keys there are is looked up with every request, so a revoked key is worthless at once.
"""

import logging
from collections.abc import Iterable, Mapping

from turnbuckle.errors import ConfigError
from turnbuckle.server.http import Caller, Problem
from turnbuckle.server.keys import OWNER, KeyFile, hash_of
from turnbuckle.server.names import LOCAL
from turnbuckle.server.origins import is_loopback

log = logging.getLogger("turnbuckle.server")

_CHALLENGE = (("www-authenticate", "Bearer"),)


class Auth:
    """Reads the key of a request. `written` are the keys of the settings, already looked up."""

    def __init__(self, written: Iterable[str], file: KeyFile, host: str) -> None:
        self._written = {hash_of(token): Caller(OWNER, f"setting {number}") for number, token in enumerate(written)}
        self._file = file
        self._near = is_loopback(host)
        self._locked = bool(self._written)
        if not self.needs_key and not self._near:
            raise ConfigError(
                f"the server would listen on {host} for everybody, and there is no key: make one by "
                "`turnbuckle keys create NAME`, or set server.api_keys, or listen on 127.0.0.1"
            )

    @property
    def needs_key(self) -> bool:
        """Once it is true it stays true: a file of keys that is lost while the server runs must not open it."""
        self._locked = self._locked or bool(self._file.keys())
        return self._locked

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who asks. Raises Problem."""
        try:
            token = token_of(headers)
            if token and (found := self._found(token)) is not None:
                return found
            if self._near and not self.needs_key:
                return Caller(LOCAL)
        except ConfigError as error:
            log.error("%s", error)  # which keys are good is not known, so none is
            raise Problem(503, "the keys can not be read; the server's log tells more", retry_after=30.0) from None
        raise Problem(401, _wrong(token), code="invalid_api_key", headers=_CHALLENGE, should_retry=False)

    def _found(self, token: str) -> Caller | None:
        # Only hashes are compared: how long that takes says nothing about the key.
        if (written := self._written.get(hash_of(token))) is not None:
            return written
        key = self._file.find(token)
        return None if key is None else Caller(key.owner, key.id)


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
