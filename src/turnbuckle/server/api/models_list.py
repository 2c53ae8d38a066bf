"""The models that clients can choose: `agent`, which has the server's own tools, and each route as a pure
relay."""

from typing import Literal

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter
from turnbuckle.service.catalog import Catalog


class ListedModel(Struct, frozen=True):
    """One entry of the list."""

    id: str
    created: int
    owned_by: str = "turnbuckle"
    object: Literal["model"] = "model"


class ModelList(Struct, frozen=True):
    """All that can be chosen."""

    data: tuple[ListedModel, ...]
    object: Literal["list"] = "list"


def model_endpoints(catalog: Catalog, created: int) -> tuple[Endpoint, ...]:
    """The endpoints. `created` is when this server began to offer them."""
    models = {name: ListedModel(name, created) for name in catalog.names}

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
