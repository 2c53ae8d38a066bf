"""What can be set of the server. Written under `[server]`; `config.py` reads it."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

ANY = "*"


class ServerSettings(Struct, frozen=True):
    """What `turnbuckle serve` listens on, and how much it takes. A limit of one owner is for all keys of that
    owner."""

    host: Annotated[
        str, Meta(description=("The address to listen on. Any address other than loopback needs a key."))
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="The port to listen on. 0 takes any free port.")
    ] = 8765
    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description=(
                "Processes that share the port, each of which can use one core. More than one needs a "
                "journal in Postgres ([more than one core](scale.md#more-than-one-core))."
            ),
        ),
    ] = 1
    api_keys: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "API keys of the owner `owner`, in addition to those of `turnbuckle "
                "keys`. Best written as `env:NAME`."
            )
        ),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "Origins (scheme, host and port) of web pages that may call the "
                "server. `*` allows all, and needs a key."
            )
        ),
    ] = ()
    keepalive: Annotated[
        float, Meta(gt=0, description="Send an SSE comment after this many idle seconds.")
    ] = 15.0
    noop: Annotated[
        float,
        Meta(
            gt=0,
            description=(
                "Send an empty chunk after this many seconds without one, for clients that ignore comments. "
                "A request without a stream waits this long for a store that fails."
            ),
        ),
    ] = 30.0
    websocket: Annotated[
        bool,
        Meta(description=("Offer a WebSocket at /v1/responses. If off, clients that try one get 426.")),
    ] = True
    hold_status: Annotated[
        float,
        Meta(
            ge=0,
            le=30,
            description=(
                "Hold the status line of a chat or response stream for up to this "
                "many seconds until the first output, so that an early failure gets "
                "a real status code."
            ),
        ),
    ] = 1.0
    send_timeout: Annotated[
        float, Meta(gt=0, description="Disconnect a client that has read nothing for this many seconds.")
    ] = 60.0
    drain: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Seconds that runs have to finish when the server stops. The others "
                "go on after the next start."
            ),
        ),
    ] = 10.0
    max_connections: Annotated[
        int, Meta(ge=1, description="Maximum open connections. More are refused with 503.")
    ] = 2000
    # a long conversation with pictures stays below
    max_body: Annotated[int, Meta(ge=1024, description="Maximum size of a request body in bytes.")] = 32 << 20
    requests_per_minute: Annotated[
        int, Meta(ge=0, description="Maximum requests per minute and owner. 0 = no limit.")
    ] = 1200
    max_runs: Annotated[int, Meta(ge=1, description="Maximum runs at the same time.")] = 500
    max_runs_per_owner: Annotated[
        int, Meta(ge=1, description="Maximum runs of one owner at the same time.")
    ] = 200
    max_money_per_day: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "US dollars that the runs of one owner may cost on one day, by UTC. Once they have, no new "
                "run begins; those under way go on. Calls of unknown price are not counted. 0 = no limit."
            ),
        ),
    ] = 0.0
    idempotency_hours: Annotated[
        float, Meta(gt=0, description="Remember an `Idempotency-Key` for this many hours.")
    ] = 24.0
    strict_relay: Annotated[
        bool,
        Meta(
            description="Refuse a request if something in it cannot be passed on to the provider, instead of "
            "naming it in `X-Turnbuckle-Left-Out`."
        ),
    ] = False
    log: Annotated[Literal["text", "json"], Meta(description="The format of the log.")] = "text"

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin != ANY and not _is_origin(origin):
                raise ValueError(
                    f"origins: {origin!r} must be like https://host or http://host:port, without a path"
                )

    def __repr__(self) -> str:
        return f"ServerSettings({self.host!r}, {self.port}, {len(self.api_keys)} keys)"


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and text == f"{parts.scheme}://{parts.netloc}"
        )
    except ValueError:
        return False
