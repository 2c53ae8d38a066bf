"""Which web pages may use the server. A page of another origin cannot, unless the settings name that origin.

A browser sends requests for any page to any address, this machine's own included, so being reachable from
here alone protects nobody who also visits web pages. Four rules, for every endpoint and every method:

1. `Origin` must be the server's own or a named one. Browsers add it to everything that could change
   something, and to every request whose answer a script may read.
2. What a browser marks as coming from another site needs such an `Origin`, too.
3. While the server listens on this machine only, `Host` must name this machine: a page whose own name was
   made to point here would otherwise be of "the same origin".
4. Only named origins get the headers that let their scripts read answers.

One exception: a link of any page may lead to one of our own pages, without a query. The browser then leaves
the other page, which reads nothing of ours; what is marked as loaded into another page is refused.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from turnbuckle.errors import ConfigError
from turnbuckle.server.http.exchange import Headers, Problem
from turnbuckle.server.settings import ANY

_PORTS = {"http": 80, "https": 443}
EXPOSED = (
    "x-request-id, x-turnbuckle-run, x-turnbuckle-session, x-turnbuckle-outcome, x-should-retry, retry-after"
)
_LONGEST_HOST = 260  # characters of the longest name, with brackets or a point
_PREFLIGHT_SECONDS = "600"
_MOST_ASKED = 4000  # characters of the list of headers that a page wants to send


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host by that name or address."""
    return _is_loopback(host) if len(host) <= _LONGEST_HOST else False


@lru_cache(256)
def _is_loopback(host: str) -> bool:
    name = host.strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Origins:
    """The rules for one server. `host` is where it listens. Raises ConfigError if every page could use a
    server that asks for no key."""

    def __init__(self, allowed: Iterable[str], host: str, *, needs_key: bool) -> None:
        named = tuple(allowed)
        if ANY in named and not needs_key:
            raise ConfigError(
                "server.origins allows every page, and there is no key: any page that is open in a "
                "browser here could "
                "use the server; make a key by `turnbuckle keys create NAME`, or name the origins"
            )
        self._any = ANY in named
        self._allowed = {_normal(origin) for origin in named if origin != ANY}
        # A proxy on this machine passes on the name under which people know the server.
        self._hosts = {(urlsplit(origin).hostname or "").lower() for origin in named} | {host.lower()}
        self._near = is_loopback(host)

    def check(self, headers: Mapping[str, str], *, to_page: bool = False) -> Headers:
        """What the answer must carry for the page that asks. `to_page`: one of our own pages is asked for.
        Raises Problem."""
        host = headers.get("host", "")
        self._check_host(host)
        origin = headers.get("origin", "")
        if not origin:
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not (
                to_page
                and headers.get("sec-fetch-mode") == "navigate"
                and headers.get("sec-fetch-dest") == "document"
            ):
                raise _refused("a page of another site")
            return ()
        if self._any or _normal(origin) in self._allowed:
            return (("access-control-allow-origin", origin), ("vary", "origin"), _EXPOSE)
        if _is_same(origin, host):
            return ()
        raise _refused(f"a page of {origin[:200]}")

    def preflight(self, headers: Mapping[str, str], methods: Iterable[str]) -> Headers:
        """What a browser wants to know before it sends the real request."""
        made = [
            ("access-control-allow-methods", ", ".join(methods)),
            ("access-control-max-age", _PREFLIGHT_SECONDS),
        ]
        asked = headers.get("access-control-request-headers", "")
        if asked and len(asked) <= _MOST_ASKED and asked.isascii() and asked.isprintable():
            made.append(("access-control-allow-headers", asked))
        if headers.get("access-control-request-private-network") == "true":
            made.append(("access-control-allow-private-network", "true"))
        return tuple(made)

    def _check_host(self, host: str) -> None:
        if "," in host:  # values of a header that came twice are joined by commas, and no name has one
            raise Problem(421, "there must be one Host header, not several", code="wrong_host")
        if not (self._near and host):  # every browser sends it
            return
        name = _host_name(host)
        if not (is_loopback(name) or name in self._hosts):
            raise Problem(
                421,
                (
                    f"this server is not called {name[:200]!r}; behind a proxy, name its address in "
                    "server.origins"
                ),
                code="wrong_host",
            )


_EXPOSE = ("access-control-expose-headers", EXPOSED)


def _refused(who: str) -> Problem:
    message = f"{who} may not use this server; server.origins can allow it"
    return Problem(403, message, code="origin_not_allowed", should_retry=False)


def _normal(origin: str) -> str:
    return origin.lower().rstrip("/")


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    """Whether a page's origin is the host that it asks. Behind a proxy the scheme is not known, so it is left
    out."""
    try:
        page = urlsplit(origin)
        asked = urlsplit(f"{page.scheme}://{host}")
        usual = _PORTS.get(page.scheme)
        return (
            usual is not None
            and bool(page.hostname)
            and (page.hostname, page.port or usual) == (asked.hostname, asked.port or usual)
        )
    except ValueError:
        return False
