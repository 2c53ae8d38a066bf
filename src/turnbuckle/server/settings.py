"""What can be set of the server. Written under `[server]`; `config.py` reads it."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

ANY = "*"


class ServerSettings(Struct, frozen=True):
    """What `turnbuckle serve` listens on, and how much it takes. A limit of one owner is for all keys of that
    owner."""

    host: Annotated[
        str, Meta(description="The address to listen on; any other than this machine's own needs a key.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port; 0 takes any free one.")] = 8765
    api_keys: Annotated[
        tuple[str, ...],
        Meta(description="Keys of the owner `owner`, best as `env:NAME`, beside those of `turnbuckle keys`."),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(
            description="Origins of web pages that may use the server: scheme, host and port; "
            "`*` for all, which needs a key."
        ),
    ] = ()
    keepalive: Annotated[
        float, Meta(gt=0, description="Seconds of silence after which a stream gets a comment.")
    ] = 15.0
    noop: Annotated[
        float, Meta(gt=0, description="Seconds without a frame after which it gets one that says nothing.")
    ] = 30.0
    websocket: Annotated[
        bool,
        Meta(description="Offer a WebSocket at /v1/responses; if not, clients that try one get 426."),
    ] = True
    hold_status: Annotated[
        float,
        Meta(
            ge=0,
            le=30,
            description="Seconds for which a chat or response stream waits for its first word before its "
            "status goes "
            "out, so that an early failure is a real status code.",
        ),
    ] = 1.0
    send_timeout: Annotated[
        float, Meta(gt=0, description="Seconds after which a client that takes nothing is dropped.")
    ] = 60.0
    drain: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "Seconds that runs get to end when the server stops; the others go on after the next start."
            ),
        ),
    ] = 10.0
    max_connections: Annotated[
        int, Meta(ge=1, description="Connections at once; one more is refused with 503.")
    ] = 2000
    # a long conversation with pictures stays below
    max_body: Annotated[int, Meta(ge=1024, description="Bytes of a request's body.")] = 32 << 20
    requests_per_minute: Annotated[
        int, Meta(ge=0, description="Requests of one owner; 0 for any number.")
    ] = 1200
    max_runs: Annotated[int, Meta(ge=1, description="Runs at once.")] = 500
    max_runs_per_owner: Annotated[int, Meta(ge=1, description="Runs of one owner at once.")] = 200
    idempotency_hours: Annotated[
        float, Meta(gt=0, description="Hours for which an `Idempotency-Key` is remembered.")
    ] = 24.0
    strict_relay: Annotated[
        bool,
        Meta(
            description="Refuse a request if something in it cannot be passed on to the provider, instead of "
            "naming it in `X-Turnbuckle-Left-Out`."
        ),
    ] = False
    log: Annotated[Literal["text", "json"], Meta(description="How the log is written.")] = "text"

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
