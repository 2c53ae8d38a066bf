"""The table of endpoints, the document made from it, and the names of things."""

import asyncio
import re
from typing import Annotated, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct
from support.http.memory_server import Lines, memory_service, sample_endpoints

from turnbuckle.errors import BadSessionName
from turnbuckle.server.faces.responses.ids import response_id, run_of_response
from turnbuckle.server.http.endpoints import Endpoint, Table
from turnbuckle.server.http.exchange import Problem, Query, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter, document
from turnbuckle.service.owners import public_session, run_id, session_id
from turnbuckle.vocab.ids import RunId
from turnbuckle.wire.schemas import Shape


async def nothing(exchange):
    return json_answer({})


def row(method, path):
    return Endpoint(method, path, nothing, Operation(f"{method}{path}", "A row", "tests"))


TABLE = Table(
    [
        row("GET", "/"),
        row("GET", "/runs"),
        row("POST", "/runs"),
        row("GET", "/runs/{run}"),
        row("DELETE", "/runs/{run}"),
        row("GET", "/runs/latest"),
        row("POST", "/runs/{run}/approvals/{approval}"),
        row("GET", "/models/{model*}"),
    ]
)


@pytest.mark.parametrize(
    "method, path, found, params",
    [
        ("GET", "/", "/", {}),
        ("GET", "/runs", "/runs", {}),
        ("POST", "/runs", "/runs", {}),
        ("GET", "/runs/r1", "/runs/{run}", {"run": "r1"}),
        ("HEAD", "/runs/r1", "/runs/{run}", {"run": "r1"}),
        ("GET", "/runs/latest", "/runs/latest", {}),
        ("GET", "/runs/a%2Fb", "/runs/{run}", {"run": "a/b"}),
        ("GET", "/runs/%E2%82%AC", "/runs/{run}", {"run": "€"}),
        (
            "POST",
            "/runs/r1/approvals/a1",
            "/runs/{run}/approvals/{approval}",
            {"run": "r1", "approval": "a1"},
        ),
        ("GET", "/models/a/b", "/models/{model*}", {"model": "a/b"}),
        ("GET", "/models/a%2Fb", "/models/{model*}", {"model": "a/b"}),
    ],
)
def test_a_request_finds_its_row(method, path, found, params):
    match = TABLE.find(method, path)
    assert (match.endpoint.path, match.params) == (found, params)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "runs",
        "/runs/",
        "//runs",
        "/runs//",
        "/runs/r1/",
        "/runs/r1/approvals",
        "/models",
        "/models/",
    ],
)
def test_what_is_not_in_the_table_is_not_found(path):
    with pytest.raises(Problem) as caught:
        TABLE.find("GET", path)
    assert caught.value.status == 404


@pytest.mark.parametrize(
    "method, path, allowed",
    [
        ("PUT", "/runs", "GET, POST, HEAD, OPTIONS"),
        ("POST", "/runs/r1", "DELETE, GET, HEAD, OPTIONS"),
        ("GET", "/runs/r/approvals/a", "POST, OPTIONS"),
    ],
)
def test_another_method_is_told_which_ones_are_allowed(method, path, allowed):
    with pytest.raises(Problem) as caught:
        TABLE.find(method, path)
    assert caught.value.status == 405
    assert caught.value.headers == (("allow", allowed),)
    assert ", ".join(TABLE.methods(path)) == allowed


def test_a_row_that_is_there_twice_is_a_mistake():
    with pytest.raises(ValueError, match="GET /runs is in the table twice"):
        Table([row("GET", "/runs"), row("GET", "/runs")])


@given(st.text())
def test_any_path_is_found_or_not_and_nothing_else(path):
    status = 200
    try:
        TABLE.find("GET", path)
    except Problem as problem:
        status = problem.status
    assert status in (200, 404)


class Inner(Struct, frozen=True):
    """A part."""

    number: Annotated[int, Meta(ge=0)] = 0


class Outer(Struct, frozen=True):
    """A whole."""

    kind: Literal["a", "b"]
    parts: tuple[Inner, ...] = ()


def rows():
    listed = Operation(
        "list",
        "All",
        "tests",
        (Parameter("limit", "How many.", schema=int),),
        answers={200: (Given("All.", tuple[Outer, ...]),)},
    )
    made = Operation(
        "make", "Make", "tests", body=Outer, answers={201: (Given("Made.", Outer),)}, problems=(409,)
    )
    read = Operation(
        "read",
        "Read",
        "tests",
        (Parameter("last-event-id", "From where.", "header"),),
        answers={200: (Given("Events.", None, "text/event-stream"), Given("Or whole.", Outer))},
    )
    return [
        Endpoint("GET", "/things", nothing, listed),
        Endpoint("POST", "/things", nothing, made),
        Endpoint("GET", "/things/{thing}/events/{rest*}", nothing, read, open=True),
    ]


def all_documents():
    async def sample():
        return memory_service()[0].app.table.endpoints

    yield document(rows(), version="1")
    yield document(sample_endpoints(lambda: None, Lines), version="1")  # type: ignore[return-value] # nothing runs
    yield document(asyncio.run(sample()), version="1")


DOCUMENTS = [msgspec.json.decode(msgspec.json.encode(made)) for made in all_documents()]


def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("made", DOCUMENTS)
def test_the_document_is_whole(made):
    assert made["openapi"] == "3.1.0"
    names = [operation["operationId"] for path in made["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) > 0
    for reference in references(made):
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in made["components"][kind]
    for schema in made["components"]["schemas"].values():
        assert jsonschema_rs.meta.is_valid(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        )


@pytest.mark.parametrize("made", DOCUMENTS)
def test_every_operation_says_what_it_takes_and_gives(made):
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert in_path == re.findall(r"\{(\w+)\}", path)
            assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")
            statuses = set(operation["responses"])
            assert {"400", "403", "421", "431", "500"} <= statuses
            assert ({"401", "429", "503"} <= statuses) == (operation["security"] != [{}])
            assert ("404" in statuses) == ("{" in path)
            assert ("415" in statuses) == (method != "get")
            assert ("413" in statuses) == ("requestBody" in operation)
            for status, response in operation["responses"].items():
                if status >= "400" and (path, status) != ("/readyz", "503"):
                    assert re.fullmatch(
                        rf"#/components/responses/(Any|Messages)?Problem{status}", response["$ref"]
                    )
                else:
                    assert response["description"]


@pytest.mark.parametrize("made", DOCUMENTS)
def test_every_problem_has_the_known_shape_and_an_id(made):
    for response in made["components"]["responses"].values():
        assert response["description"]
        assert "x-request-id" in response["headers"]
        schema = response["content"]["application/json"]["schema"]
        known = [{"$ref": f"#/components/schemas/{name}"} for name in ("Error", "MessagesError")]
        assert schema in (*known, {"anyOf": known})
    assert made["components"]["headers"]["x-request-id"]["required"]


def test_a_shape_can_not_have_the_name_of_a_type():
    named = Operation(
        "n", "N", "tests", answers={200: (Given("One.", Outer), Given("Other.", Shape("Outer", {})))}
    )
    with pytest.raises(ValueError, match="a shape has the name of a type: Outer"):
        document([Endpoint("GET", "/things", nothing, named)], version="1")


def test_what_is_always_written_is_required_in_answers_and_not_in_bodies():
    given = Operation("n", "N", "tests", answers={200: (Given("One.", Outer),)})
    schemas = document([Endpoint("GET", "/things", nothing, given)], version="1")["components"]["schemas"]
    assert schemas["Outer"]["required"] == ["kind", "parts"]
    assert DOCUMENTS[0]["components"]["schemas"]["Outer"]["required"] == ["kind"]  # there it is a body, too


def test_the_document_has_the_types_that_the_handlers_use():
    made = DOCUMENTS[0]
    outer = made["components"]["schemas"]["Outer"]
    assert outer["properties"]["kind"]["enum"] == ["a", "b"]
    post = made["paths"]["/things"]["post"]
    assert post["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Outer"
    }
    assert "409" in post["responses"]
    read = made["paths"]["/things/{thing}/events/{rest}"]["get"]
    assert set(read["responses"]["200"]["content"]) == {"text/event-stream", "application/json"}
    assert (read["security"], post["security"]) == ([{}], [{"key": []}])
    assert made["paths"]["/things"]["get"]["parameters"][0]["schema"] == {"type": "integer"}


@pytest.mark.requirement("F9")
def test_an_owner_can_not_name_the_session_of_another():
    assert session_id("local", "a") == "a"
    assert session_id("ann", "a") == "ann/a"
    assert public_session("ann", "ann/a") == "a"
    assert public_session("local", "a") == "a"
    assert session_id("ann", "a") != session_id("anna", "a")


@pytest.mark.parametrize("public", ["", "a/b", "a b", "ü", "x" * 129, "a\n", "../a", ".", "..", "import"])
def test_what_is_no_id_of_a_session_is_refused(public):
    with pytest.raises(BadSessionName, match="X-Turnbuckle-Session must have 1 to 128"):
        session_id("ann", public)


def test_ids_of_answers_lead_back_to_their_run():
    run = RunId("r20260101-000000-abc")
    assert run_of_response(response_id(run)) == run
    for wrong in ("", "resp_", "r1", "resp_a/b", "resp_" + "x" * 101, "chatcmpl-r1"):
        assert run_of_response(wrong) is None
    assert run_id("once:abc") is None


@pytest.mark.parametrize(
    "raw, name, value",
    [(b"a=1&a=2", "a", "2"), (b"a=", "a", ""), (b"a=%20x+y", "a", " x y"), (b"a=%ff", "a", "\ufffd")],
)
def test_a_query_is_read_as_forms_are(raw, name, value):
    assert Query(raw)[name] == value


def test_a_query_has_lists_numbers_flags_and_words():
    query = Query(b"include[]=a&include=b&limit=20&stream=true&order=asc&bad=x&minus=-1")
    assert query.all("include") == ["a", "b"]
    assert query.integer("limit", 5, least=1, most=100) == 20
    assert query.integer("none", 5) == 5
    assert query.flag("stream") is True
    assert query.flag("none") is False
    assert query.word("order", ("asc", "desc"), "desc") == "asc"
    assert query.word("none", ("asc", "desc"), "desc") == "desc"
    assert (len(query), set(query)) == (
        7,
        {"include[]", "include", "limit", "stream", "order", "bad", "minus"},
    )
    for call in (
        lambda: query.integer("bad", 1),
        lambda: query.integer("minus", 1),
        lambda: query.integer("limit", 1, most=10),
        lambda: query.flag("bad"),
        lambda: query.word("bad", ("asc", "desc"), "desc"),
    ):
        with pytest.raises(Problem) as caught:
            call()
        assert caught.value.status == 400
        assert caught.value.param in ("bad", "minus", "limit")


@given(st.binary())
def test_any_query_is_read(raw):
    query = Query(raw)
    assert len(query) == len(list(query))
