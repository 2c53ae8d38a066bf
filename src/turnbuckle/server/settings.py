"""What can be set of the server. Written under `[server]`; `config.py` reads it."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

ANY = "*"

Seconds = Annotated[float, Meta(gt=0)]


class ServerSettings(Struct, frozen=True):
    """Limits that hold for one owner are for all keys of that owner together. Numbers of seconds unless said."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8765
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    keepalive: Seconds = 15.0
    noop: Seconds = 30.0
    send_timeout: Seconds = 60.0
    drain: Annotated[float, Meta(ge=0)] = 10.0
    max_body: Annotated[int, Meta(ge=1024)] = 32 << 20  # a long conversation with pictures stays below
    requests_per_minute: Annotated[int, Meta(ge=0)] = 1200
    max_runs: Annotated[int, Meta(ge=1)] = 500
    max_runs_per_owner: Annotated[int, Meta(ge=1)] = 200
    idempotency_hours: Annotated[float, Meta(gt=0)] = 24.0
    log: Literal["text", "json"] = "text"

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin != ANY and not _is_origin(origin):
                raise ValueError(f"origins: {origin!r} must be like https://host or http://host:port, without a path")

    def __repr__(self) -> str:
        return f"ServerSettings({self.host!r}, {self.port}, {len(self.api_keys)} keys)"


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and text == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        return False
