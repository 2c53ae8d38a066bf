"""The console's files over HTTP, and the settings that it shows.

The page holds nothing of anybody's, so it needs no key: whoever has none is asked for one by the page itself.
It may load only what this server has, talk to nobody else, and stand in no other page's frame. A browser
keeps the files and asks each time whether they are still the same.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Headers, Problem, json_answer
from turnbuckle.server.http.openapi import Given, Operation

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Headers = (
    ("cache-control", "no-cache"),
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


class File(Protocol):
    """One file that the page is made of."""

    @property
    def content_type(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def tag(self) -> str: ...


class SettingView(Struct, frozen=True):
    """One setting in effect, and where it comes from."""

    key: str
    value: str
    source: str


class SandboxView(Struct, frozen=True):
    """Where commands run, which restrictions are missing, and both in words."""

    mechanism: Literal["bubblewrap", "landlock", "none"]
    missing: tuple[str, ...]
    words: str


class SettingsView(Struct, frozen=True):
    """All settings in effect, secrets left out. `rehearsal`: a built-in fake model answers."""

    version: str
    file: str
    rehearsal: bool
    models: tuple[str, ...]
    """What a chat may choose: the agent, and the agent on each route."""
    relays: tuple[str, ...]
    """Models without the server's own tools, for other programs."""
    values: tuple[SettingView, ...]
    sandbox: SandboxView
    object: Literal["settings"] = "settings"


def console_endpoints(page: str, files: Mapping[str, File]) -> tuple[Endpoint, ...]:
    """The page itself at `/`, and what it loads under `/console/`."""

    async def show(exchange: Exchange) -> Answer:
        return _answer(exchange, files[page])

    async def one(exchange: Exchange) -> Answer:
        name = exchange.params["file"]
        found = files.get(name)
        if found is None or name == page:
            raise Problem(404, f"the console has no file {name[:200]!r}", code="unknown_url")
        return _answer(exchange, found)

    unchanged = (Given("What the browser has is still the same."),)
    shown = {200: (Given("The page.", None, "text/html"),), 304: unchanged}
    loaded = {
        200: (Given("A module.", None, "text/javascript"), Given("A style sheet.", None, "text/css")),
        304: unchanged,
    }
    return (
        Endpoint(
            "GET", "/", show, Operation("console", "The console", "console", answers=shown), True, page=True
        ),
        Endpoint(
            "GET",
            "/console/{file}",
            one,
            Operation("consoleFile", "A file of the console", "console", answers=loaded, problems=(404,)),
            True,
        ),
    )


def settings_endpoints(view: Callable[[], SettingsView]) -> Iterable[Endpoint]:
    """What is set, for people who wonder why the server does what it does."""

    async def tell(exchange: Exchange) -> Answer:
        return json_answer(view())

    given = {200: (Given("The settings.", SettingsView),)}
    doc = Operation("getSettings", "The settings in effect, with their sources", "console", answers=given)
    return (Endpoint("GET", "/v1/settings", tell, doc),)


def _answer(exchange: Exchange, file: File) -> Answer:
    headers = (*_HEADERS, ("etag", file.tag))
    known = {tag.strip().removeprefix("W/") for tag in exchange.headers.get("if-none-match", "").split(",")}
    if file.tag in known:
        return Answer(304, b"", headers, "")
    return Answer(200, file.body, headers, file.content_type)
