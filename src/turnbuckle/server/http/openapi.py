"""The OpenAPI document, made from the table of endpoints, so that it cannot be about another server.

A row says what its handler reads and gives: types that msgspec knows, shapes with a name, or JSON schemas as
dicts. What holds for every endpoint is added here: the errors, the key, the headers of every answer.

A stream has the schema of one event, with the fields `event`, `id` and `data` as the standard of server-sent
events names them. Answers are told more strictly than bodies: a field that we always write is required.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_origin

import msgspec
from msgspec import Struct, field

from turnbuckle.wire.schemas import Shape, reference

if TYPE_CHECKING:
    from turnbuckle.server.http.endpoints import Endpoint

VERSION = "3.1.0"
STREAM = "text/event-stream"
_ABOUT = (
    "Every answer has an `x-request-id`, also in the server's log. Errors have the shape of "
    "OpenAI's, or of Anthropic's where its clients ask, and "
    "`x-should-retry: false` wherever the same request could do something twice. `HEAD` works wherever "
    "`GET` does. "
    "Null is the same as nothing, and so is an empty header or parameter of a query, except an "
    "`Idempotency-Key`. Unknown fields are ignored, except in requests to a model: there they go to "
    "the provider."
)
_TAGS = {
    "chat": (
        "Chat completions: an agent's turn, or a relay to a model, for every client that speaks "
        "OpenAI's protocol."
    ),
    "responses": (
        "Responses and conversations, in OpenAI's protocol. A response is a run, a conversation is a session."
    ),
    "messages": "Messages, in Anthropic's protocol: an agent's turn, or a relay to a model of any provider.",
    "runs": "A run as what it is: begin it, follow it from any event, stop it, answer it, read what it left.",
    "sessions": "What belongs together: one conversation, with one run at a time.",
    "usage": "Tokens and money, by day and by session.",
    "models": "What can be asked for as `model`.",
    "console": "The page for people, and the settings that it shows.",
    "health": "For balancers, supervisors and Prometheus.",
}


Schema = Any
"""A type that msgspec can describe, a shape, or a JSON schema as a dict."""


class Parameter(Struct, frozen=True):
    """Something beside the body that an endpoint reads."""

    name: str
    about: str
    where: Literal["query", "header", "path"] = "query"
    schema: Schema = str
    required: bool = False


class Given(Struct, frozen=True):
    """What an endpoint answers under one status. No schema: no body that has one."""

    about: str
    schema: Schema = None
    content_type: str = "application/json"
    headers: tuple[str, ...] = ()


class Operation(Struct, frozen=True):
    """What the document says of one endpoint. `problems` are the statuses it may answer besides those that
    any may."""

    name: str
    summary: str
    tag: str
    parameters: tuple[Parameter, ...] = ()
    body: Schema = None
    body_required: bool = True
    answers: Mapping[int, tuple[Given, ...]] = field(default_factory=lambda: {200: (Given("It worked."),)})
    problems: tuple[int, ...] = ()
    about: str = ""
    body_type: str = "application/json"
    errors: tuple[Shape, ...] = ()
    """The shapes that its errors may have, where it is not the one that all others have."""

    @property
    def needs_body(self) -> bool:
        return self.body is not None and self.body_required


def event(data: dict[str, Any], about: str, *, name: Any = None, number: str = "") -> dict[str, Any]:
    """One event of a stream. `data` is the schema of its JSON, `number` says what its id is."""
    fields: dict[str, Any] = {
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    }
    if name is not None:
        fields["event"] = name
    if number:
        fields["id"] = {"type": "string", "description": number}
    return {"type": "object", "description": about, "required": ["data"], "properties": fields}


# What any endpoint may answer

_TEXT = {"type": "string"}
_HEADERS: dict[str, dict[str, Any]] = {
    "x-request-id": {
        "description": "The id of the request, also in the server's log.",
        "required": True,
        "schema": _TEXT,
    },
    "x-should-retry": {
        "description": "false: do not send the same again by yourself, since it could do something twice.",
        "schema": {"enum": ["true", "false"]},
    },
    "retry-after": {"description": "Seconds to wait.", "schema": {"type": "string", "pattern": "^[0-9]+$"}},
    "www-authenticate": {"description": "What is missing.", "schema": {"const": "Bearer"}},
    "location": {"description": "Where the new thing is.", "schema": _TEXT},
    "x-turnbuckle-run": {"description": "The id of the run behind the answer.", "schema": _TEXT},
    "x-turnbuckle-session": {"description": "The id of its session.", "schema": _TEXT},
    "x-turnbuckle-outcome": {
        "description": "How the run ended.",
        "schema": {"enum": ["completed", "partial", "cancelled", "failed"]},
    },
    "x-turnbuckle-left-out": {
        "description": "What of the request was not passed on, by name.",
        "schema": _TEXT,
    },
    "x-turnbuckle-route": {
        "description": "The route that answers. Another may stand in for one that fails.",
        "schema": _TEXT,
    },
    "x-turnbuckle-estimated": {
        "description": "Nobody counted: the number follows from the letters.",
        "schema": {"const": "true"},
    },
    "request-id": {
        "description": "The provider's id of the request, or ours, as Anthropic's clients know it.",
        "schema": _TEXT,
    },
    "idempotency-replayed": {
        "description": "The same request began this run before.",
        "schema": {"const": "true"},
    },
}
_PROBLEMS = {
    400: "The request is wrong; `param` says where.",
    401: "A key is missing, unknown or revoked.",
    403: "A page of another origin may not do this.",
    404: "There is no such thing, or it is somebody else's.",
    409: "It is in the way of something else.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The Host header names another server.",
    426: "This is for a WebSocket, and the request is not one, or there is none.",
    422: "The request can be read but not carried out.",
    429: "Too much at once; `Retry-After` says when to come back.",
    431: "The head of the request is too large.",
    500: "The server made a mistake, or the run failed by itself.",
    502: "The model's provider failed.",
    503: "The server is stopping, or cannot work; `Retry-After` says when to come back.",
    504: "The model's provider took too long.",
    529: "The model's provider is overloaded.",
}
_MORE_HEADERS = {401: ("www-authenticate",), 429: ("retry-after",), 503: ("retry-after",)}
_ALWAYS = (400, 403, 421, 431, 500)
_WITH_KEY = (401, 429, 503)
ERROR = Shape(
    "Error",
    {
        "type": "object",
        "description": (
            "`message` is for people, `code` for programs. A run that failed tells of itself besides."
        ),
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {
                        "type": ["string", "null"],
                        "description": "Which part of the request is meant.",
                    },
                    "code": {"type": ["string", "null"]},
                },
            },
        },
    },
)


MESSAGES_ERROR = Shape(
    "MessagesError",
    {
        "type": "object",
        "description": "An error as Anthropic's clients read it. A run that failed tells of itself besides.",
        "required": ["type", "error"],
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {
                    "type": {"type": "string"},
                    "message": {"type": "string"},
                    "details": {"type": "object", "properties": {"error_code": {"type": "string"}}},
                },
            },
            "request_id": {"type": ["string", "null"]},
        },
    },
)


# The document


def document(endpoints: Iterable["Endpoint"], *, version: str, title: str = "Turnbuckle") -> dict[str, Any]:
    """The whole document."""
    rows = tuple(endpoints)
    schemas = _Schemas(rows)
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        path = re.sub(r"\{(\w+)\*\}", r"{\1}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(row, schemas)
    tags = dict.fromkeys(row.doc.tag for row in rows)
    return {
        "openapi": VERSION,
        "info": {
            "title": title,
            "version": version,
            "summary": "An LLM agent runtime for streams that break.",
            "description": _ABOUT,
        },
        "tags": [{"name": tag, **({"description": _TAGS[tag]} if tag in _TAGS else {})} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {
                _problem_name(status, _errors_of(row.doc)): _problem(status, _errors_of(row.doc))
                for row in rows
                for status in sorted(_statuses(row) - set(row.doc.answers))
            },
            "headers": _HEADERS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """All schemas of a document. Call it with whatever stands in a row to get what stands in the document."""

    def __init__(self, rows: Iterable["Endpoint"]) -> None:
        bodies: list[Any] = []
        answers: list[Any] = []
        shapes = {ERROR.name: ERROR}
        for row in rows:
            shapes |= {shape.name: shape for shape in row.doc.errors}
            for schema in _given(row.doc):
                if isinstance(schema, Shape):
                    for shape in schema.all():
                        shapes[shape.name] = shape
                        answers += shape.kinds
                elif _is_type(schema):
                    answers.append(schema)
            bodies += [schema for schema in _read(row.doc) if _is_type(schema)]
            for shape in row.doc.body.all() if isinstance(row.doc.body, Shape) else ():
                shapes[shape.name] = shape
        schemas, components = _described(answers)
        read, others = _described(bodies)
        _require_all({name: schema for name, schema in components.items() if name not in others}, answers)
        self._found = {
            id(kind): schema for kind, schema in zip((*answers, *bodies), (*schemas, *read), strict=True)
        }
        components = {**others, **components}
        if twice := shapes.keys() & components.keys():
            raise ValueError(f"a shape has the name of a type: {', '.join(twice)}")
        self.components = {**{name: shape.schema for name, shape in shapes.items()}, **components}

    def __call__(self, schema: Schema) -> dict[str, Any]:
        if isinstance(schema, Shape):
            return schema.ref
        return schema if isinstance(schema, dict) else self._found[id(schema)]


def _given(doc: Operation) -> list[Schema]:
    return [given.schema for all_given in doc.answers.values() for given in all_given]


def _read(doc: Operation) -> list[Schema]:
    return [doc.body, *(parameter.schema for parameter in doc.parameters)]


def _is_type(schema: Schema) -> bool:
    return schema is not None and not isinstance(schema, (dict, Shape))


def _described(kinds: list[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(kinds, ref_template=reference("{name}")["$ref"])


def _require_all(components: dict[str, Any], kinds: Iterable[Any]) -> None:
    """A field is always written, unless its type leaves out what is as usual, or it may be unset."""
    structs = {kind.__name__: kind for kind in _structs(kinds)}
    for name, schema in components.items():
        kind = structs.get(name)
        if "properties" not in schema or (kind is not None and kind.__struct_config__.omit_defaults):
            continue
        fields = () if kind is None else msgspec.structs.fields(kind)
        unset = {field.encode_name for field in fields if field.default is msgspec.UNSET}
        schema["required"] = [field for field in schema["properties"] if field not in unset]


def _structs(kinds: Iterable[Any]) -> set[Any]:
    """Every struct that is reached from some types."""
    structs: set[Any] = set()
    seen: set[Any] = set()
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            kind = get_origin(info.cls) or info.cls
            if info.cls in seen:
                continue
            seen.add(info.cls)
            structs.add(kind)
            waiting += [each.type for each in info.fields]
        for name in ("types", "item_types"):
            waiting += getattr(info, name, ())
        for name in ("item_type", "key_type", "value_type", "type"):
            inner = getattr(info, name, None)
            if isinstance(inner, msgspec.inspect.Type):
                waiting.append(inner)
    return structs


def _operation(row: "Endpoint", schemas: _Schemas) -> dict[str, Any]:
    doc = row.doc
    operation: dict[str, Any] = {"operationId": doc.name, "summary": doc.summary, "tags": [doc.tag]}
    if doc.about:
        operation["description"] = doc.about
    declared = {parameter.name for parameter in doc.parameters if parameter.where == "path"}
    implied = [name.strip("{*}") for name in re.findall(r"\{\w+\*?\}", row.path)]
    parameters = [Parameter(name, "Its id.", "path") for name in implied if name not in declared]
    operation["parameters"] = [_parameter(each, schemas) for each in (*parameters, *doc.parameters)]
    if doc.body is not None:
        content = {doc.body_type: {"schema": schemas(doc.body)}}
        operation["requestBody"] = {"required": doc.body_required, "content": content}
    operation["responses"] = {
        str(status): _answer(all_given, schemas) for status, all_given in sorted(doc.answers.items())
    } | {
        str(status): {"$ref": f"#/components/responses/{_problem_name(status, _errors_of(doc))}"}
        for status in sorted(_statuses(row) - set(doc.answers))
    }
    operation["security"] = [{}] if row.open else [{"key": []}]
    return operation


def _parameter(each: Parameter, schemas: _Schemas) -> dict[str, Any]:
    plain = {"type": "string", "minLength": 1} if each.where == "path" else {"type": "string"}
    return {
        "name": each.name,
        "in": each.where,
        "required": each.required or each.where == "path",
        "description": each.about,
        "schema": plain if each.schema is str else schemas(each.schema),
    }


def _answer(all_given: tuple[Given, ...], schemas: _Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": " ".join(given.about for given in all_given)}
    content = {
        given.content_type: {
            "schema": schemas(given.schema) if given.schema is not None else {"type": "string"}
        }
        for given in all_given
        if given.schema is not None or given.content_type != "application/json"
    }
    if content:
        answer["content"] = content
    answer["headers"] = _headers(*(name for given in all_given for name in given.headers))
    return answer


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("x-request-id", *names)}


def _statuses(row: "Endpoint") -> set[int]:
    """All that can go wrong at one endpoint."""
    may = {*_ALWAYS, *row.doc.problems}
    if not row.open:
        may.update(_WITH_KEY)
    if "{" in row.path:
        may.add(404)
    if row.method != "GET":
        may.add(415)
    if row.doc.body is not None:
        may.add(413)
    return may


def _errors_of(doc: Operation) -> tuple[str, ...]:
    return tuple(shape.name for shape in doc.errors or (ERROR,))


def _problem_name(status: int, errors: tuple[str, ...]) -> str:
    own = "Any" if len(errors) > 1 else errors[0].removesuffix(ERROR.name)
    return f"{own}Problem{status}"


def _problem(status: int, errors: tuple[str, ...]) -> dict[str, Any]:
    shapes = [reference(name) for name in errors]
    return {
        "description": _PROBLEMS[status],
        "headers": _headers("x-should-retry", *_MORE_HEADERS.get(status, ())),
        "content": {"application/json": {"schema": shapes[0] if len(shapes) == 1 else {"anyOf": shapes}}},
    }
