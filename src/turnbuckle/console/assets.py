"""The console's files, as the package carries them: read once, and known by what is in them."""

import hashlib
from functools import cache
from importlib.resources import files

from msgspec import Struct

PAGE = "index.html"
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


class Asset(Struct, frozen=True):
    """One file. `tag` changes when its content does."""

    name: str
    content_type: str
    body: bytes
    tag: str


@cache
def load_assets() -> dict[str, Asset]:
    """All files of the console, by name."""
    found = {}
    for entry in files("turnbuckle.console").joinpath("static").iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if kind is not None and entry.is_file():
            body = entry.read_bytes()
            found[entry.name] = Asset(entry.name, kind, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found
