"""Headers that several endpoints read, as the document tells of them."""

from turnbuckle.server.api.run_shapes import ON_DISCONNECT, SESSION_ID
from turnbuckle.server.http.openapi import Parameter

ON_DISCONNECT_HEADER = Parameter(
    "X-Turnbuckle-On-Disconnect",
    "What becomes of the run when this client leaves: cancel, detach, or so many seconds to come back.",
    "header",
    {"type": "string", "pattern": ON_DISCONNECT},
)
KEY = Parameter(
    "Idempotency-Key",
    "The same key with the same request gives the same run, however often it is sent.",
    "header",
    {"type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$"},
)
SESSION_HEADER = Parameter(
    "X-Turnbuckle-Session",
    "The session to continue; a new one is made. Without it the client's own history is the conversation.",
    "header",
    {"type": "string", "pattern": SESSION_ID},
)
EVENTS_HEADER = Parameter(
    "X-Turnbuckle-Events",
    "How tools are reported: as named events (tools, hermes), or not at all (none).",
    "header",
    {"enum": ["tools", "hermes", "none"]},
)
BUSY_HEADER = Parameter(
    "X-Turnbuckle-Busy",
    "What happens to this message if a run is active in the session.",
    "header",
    {"enum": ["queue", "steer", "interrupt", "refuse"]},
)
STRICT_HEADER = Parameter(
    "X-Turnbuckle-Strict",
    "true: refuse the request if something in it cannot be passed on to the provider.",
    "header",
    {"enum": ["true", "false"]},
)
