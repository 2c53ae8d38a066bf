"""Every endpoint of the server and its document, without a server: rows are only looked at, never called."""

from typing import Any

import msgspec

from turnbuckle.server.api.archives import ArchivesApi, archive_endpoints
from turnbuckle.server.api.changes import ChangesApi, change_endpoints
from turnbuckle.server.api.console_page import (
    SandboxView,
    SettingsView,
    console_endpoints,
    settings_endpoints,
)
from turnbuckle.server.api.conversations import ConversationsApi
from turnbuckle.server.api.health import Readiness, health_endpoints
from turnbuckle.server.api.models_list import model_endpoints
from turnbuckle.server.api.nodes import NodesApi, node_endpoints
from turnbuckle.server.api.overview import OverviewApi, overview_endpoints
from turnbuckle.server.api.rules import RulesApi, rule_endpoints
from turnbuckle.server.api.runs import RunsApi
from turnbuckle.server.api.sessions import SessionsApi
from turnbuckle.server.api.table import DELETED, api_endpoints
from turnbuckle.server.api.usage import UsageApi, usage_endpoints
from turnbuckle.server.faces.chat.handler import Chat
from turnbuckle.server.faces.messages.handler import MessagesApi
from turnbuckle.server.faces.responses.handler import ResponsesApi
from turnbuckle.server.http.endpoints import Endpoint, with_document
from turnbuckle.server.http.openapi import document
from turnbuckle.service.catalog import Catalog

_nobody: Any = None


def all_endpoints() -> tuple[Endpoint, ...]:
    """The table as the server has it."""
    apis = (
        Chat(_nobody, _nobody),
        ResponsesApi(_nobody, _nobody),
        MessagesApi(_nobody, _nobody, _nobody),
        ConversationsApi(_nobody),
        RunsApi(_nobody, _nobody),
        SessionsApi(_nobody),
    )
    rows = (
        *api_endpoints(*apis),
        *change_endpoints(ChangesApi(_nobody)),
        *rule_endpoints(RulesApi(_nobody), DELETED),
        *archive_endpoints(ArchivesApi(_nobody)),
        *usage_endpoints(UsageApi(_nobody, _nobody)),
        *node_endpoints(NodesApi(_nobody)),
        *overview_endpoints(OverviewApi(_nobody, _nobody, _nobody, _nobody, _nobody)),
        *model_endpoints(Catalog([]), 0),
        *health_endpoints(Readiness(_nobody, bool), _nobody),
        *settings_endpoints(lambda: SettingsView("1", "", True, (), (), (), SandboxView("none", (), ""))),
        *console_endpoints("index.html", {}),
    )
    return with_document(rows, "1")


ENDPOINTS = all_endpoints()
DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(ENDPOINTS, version="1")))


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each."""
    return [
        (method, path, told)
        for path, all_told in DOCUMENT["paths"].items()
        for method, told in all_told.items()
    ]
