"""Bodies that are not replies: what proxies and load balancers send in a provider's name."""

from turnbuckle.lab.script import Garbage

_PAGE = b"""<!DOCTYPE html>
<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr><center>the lab</center></body></html>
"""
_BODIES: dict[str, tuple[str, bytes]] = {
    "html": ("text/html; charset=utf-8", _PAGE),
    "json": ("application/json", b'{"status":"ok","unexpected":[1,2,3]}'),
    "bytes": ("application/octet-stream", bytes(range(256)) * 4),
    "text": (
        "text/plain",
        b"upstream connect error or disconnect/reset before headers. reset reason: overflow",
    ),
    "empty": ("text/event-stream", b""),
}


def garbage_body(step: Garbage) -> tuple[str, bytes]:
    """Content type and body."""
    content_type, body = _BODIES[step.what]
    return step.content_type or content_type, body
