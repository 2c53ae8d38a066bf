"""Every endpoint of the server and its document, without a server: rows are only looked at, never called."""

from typing import Any

import msgspec

from turnbuckle.server.api import api_endpoints
from turnbuckle.server.archives import ArchivesApi, archive_endpoints
from turnbuckle.server.catalog import Catalog
from turnbuckle.server.chat import Chat
from turnbuckle.server.console_page import SettingsView, console_endpoints, settings_endpoints
from turnbuckle.server.conversations import ConversationsApi
from turnbuckle.server.endpoints import Endpoint, with_document
from turnbuckle.server.health import Readiness, health_endpoints
from turnbuckle.server.models_list import model_endpoints
from turnbuckle.server.openapi import document
from turnbuckle.server.responses import ResponsesApi
from turnbuckle.server.runs import RunsApi
from turnbuckle.server.sessions import SessionsApi

_nobody: Any = None


def all_endpoints() -> tuple[Endpoint, ...]:
    """The table as the server has it."""
    apis = (Chat(_nobody), ResponsesApi(_nobody), ConversationsApi(_nobody), RunsApi(_nobody), SessionsApi(_nobody))
    rows = (
        *api_endpoints(*apis),
        *archive_endpoints(ArchivesApi(_nobody, _nobody)),
        *model_endpoints(Catalog([]), 0),
        *health_endpoints(Readiness(_nobody, bool), bytes),
        *settings_endpoints(SettingsView("1", "", True, (), ())),
        *console_endpoints("index.html", {}),
    )
    return with_document(rows, "1")


ENDPOINTS = all_endpoints()
DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(ENDPOINTS, version="1")))


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each."""
    return [(method, path, told) for path, all_told in DOCUMENT["paths"].items() for method, told in all_told.items()]
