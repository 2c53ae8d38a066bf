"""The models that clients can choose: `agent`, which has the server's own tools, and each route as a pure
relay."""

from typing import Literal

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter
from turnbuckle.service.catalog import Catalog


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


def _entry(catalog: Catalog, name: str, created: int) -> ListedModel:
    model = catalog.model_behind(name)
    if catalog.choose(name).own_tools:
        return ListedModel(name, created, "agent", "The server's agent, with the server's own tools.", model)
    what = f"A relay to the route {name}: your tools and your loop, with streams that are healed."
    return ListedModel(name, created, "relay", what, model)


def model_endpoints(catalog: Catalog, created: int) -> tuple[Endpoint, ...]:
    """The endpoints. `created` is when this server began to offer them."""
    models = {name: _entry(catalog, name, created) for name in catalog.names}

    async def listed(exchange: Exchange) -> Answer:
        return json_answer(ModelList(tuple(models.values())))

    async def one(exchange: Exchange) -> Answer:
        name = exchange.params["model"]
        if name not in models:
            message = f"there is no model {name[:200]!r}; GET /v1/models lists them"
            raise Problem(404, message, type="invalid_request_error", code="model_not_found", param="model")
        return json_answer(models[name])

    return (
        Endpoint(
            "GET",
            "/v1/models",
            listed,
            Operation(
                "listModels",
                "What can be chosen",
                "models",
                answers={200: (Given("All models.", ModelList),)},
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
                answers={200: (Given("The model.", ListedModel),)},
            ),
        ),
    )
