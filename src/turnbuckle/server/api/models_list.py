"""The models that clients can choose: `agent`, which has the server's own tools, and each route as a pure
relay. Clients of Anthropic's API, known by their version header, get the list in its shape."""

from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.openapi import ERROR, MESSAGES_ERROR, Given, Operation, Parameter
from turnbuckle.server.http.problems import MESSAGES_VERSION
from turnbuckle.service.catalog import Catalog
from turnbuckle.wire.schemas import Shape, reference


class ListedModel(Struct, frozen=True):
    """One entry of the list. `kind` and `description` are ours; clients that do not know them ignore them."""

    id: str
    created: int
    kind: Literal["agent", "relay"]
    description: str
    model: str
    """The provider's model behind it; empty if the route leaves that to its provider."""
    owned_by: str = "turnbuckle"
    object: Literal["model"] = "model"


class ModelList(Struct, frozen=True):
    """All that can be chosen."""

    data: tuple[ListedModel, ...]
    object: Literal["list"] = "list"


class MessagesModel(Struct, frozen=True):
    """One entry of the list, as Anthropic's clients read it."""

    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"] = "active"
    type: Literal["model"] = "model"


class MessagesModelList(Struct, frozen=True):
    """All that can be chosen, as Anthropic's clients read it. There is one page."""

    data: tuple[MessagesModel, ...]
    first_id: str
    last_id: str
    has_more: Literal[False] = False


_ABOUT = f"With the header `{MESSAGES_VERSION}` the answer has the shape of Anthropic's API."
_ERRORS = (ERROR, MESSAGES_ERROR)
_LISTS = Shape(
    "AnyModelList",
    {"anyOf": [reference("ModelList"), reference("MessagesModelList")]},
    kinds=(ModelList, MessagesModelList),
)
_ENTRIES = Shape(
    "AnyModel",
    {"anyOf": [reference("ListedModel"), reference("MessagesModel")]},
    kinds=(ListedModel, MessagesModel),
)


def _entry(catalog: Catalog, name: str, created: int) -> ListedModel:
    model = catalog.model_behind(name)
    chosen = catalog.choose(name)
    if chosen.own_tools:
        where = f" It begins with the route {chosen.route}." if chosen.route else ""
        what = f"The server's agent, with the server's own tools.{where}"
        return ListedModel(name, created, "agent", what, model)
    what = f"A relay to the route {name}: your tools and your loop, with streams that are healed."
    return ListedModel(name, created, "relay", what, model)


def model_endpoints(catalog: Catalog, created: int) -> tuple[Endpoint, ...]:
    """The endpoints. `created` is when this server began to offer them."""
    since = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    models = {
        name: (_entry(catalog, name, created), MessagesModel(name, name, since)) for name in catalog.names
    }

    async def listed(exchange: Exchange) -> Answer:
        if exchange.headers.get(MESSAGES_VERSION):
            every = tuple(messages for _, messages in models.values())
            return json_answer(MessagesModelList(every, every[0].id, every[-1].id))
        return json_answer(ModelList(tuple(model for model, _ in models.values())))

    async def one(exchange: Exchange) -> Answer:
        name = exchange.params["model"]
        if name not in models:
            message = f"there is no model {name[:200]!r}; GET /v1/models lists them"
            raise Problem(404, message, type="invalid_request_error", code="model_not_found", param="model")
        model, messages = models[name]
        return json_answer(messages if exchange.headers.get(MESSAGES_VERSION) else model)

    return (
        Endpoint(
            "GET",
            "/v1/models",
            listed,
            Operation(
                "listModels",
                "What can be chosen",
                "models",
                answers={200: (Given("All models.", _LISTS),)},
                about=_ABOUT,
                errors=_ERRORS,
            ),
        ),
        Endpoint(
            "GET",
            "/v1/models/{model*}",
            one,
            Operation(
                "getModel",
                "One of them",
                "models",
                (Parameter("model", "Its id.", "path"),),
                answers={200: (Given("The model.", _ENTRIES),)},
                about=_ABOUT,
                errors=_ERRORS,
            ),
        ),
    )
