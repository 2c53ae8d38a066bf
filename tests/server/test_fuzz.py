"""Every endpoint gets what its own document allows, and what it forbids, in shapes that nobody would write."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from support.http.all_endpoints import DOCUMENT
from support.http.fuzzer import Fuzzer, at_home, examples
from support.server.owners_server import MARKS, owners_server
from websockets.sync.client import connect

pytestmark = pytest.mark.waits  # until streams are silent
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
HANGS = 100.0


def operations(document):
    config = schemathesis.Config()
    config.projects.default.generation.update(with_security_parameters=False)  # keys have tests of their own
    schema = schemathesis.openapi.from_dict(document, config=config)
    every = [each.ok() for each in schema.get_all_operations()]
    return {each.label: each for each in every}


def with_short_lists(value):
    """The document, for good requests of a handy size: no list is longer than it needs to be."""
    if isinstance(value, dict):
        made = {key: with_short_lists(inner) for key, inner in value.items()}
        return (
            {**made, "maxItems": min(made["maxItems"], 3)} if isinstance(made.get("maxItems"), int) else made
        )
    return [with_short_lists(inner) for inner in value] if isinstance(value, list) else value


OPERATIONS = {
    GenerationMode.POSITIVE: operations(with_short_lists(DOCUMENT)),
    GenerationMode.NEGATIVE: operations(DOCUMENT),
}
EVERY = [
    (label, mode)
    for mode, all_known in OPERATIONS.items()
    for label, operation in all_known.items()
    if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.headers
]
LARGE = (
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /v1/messages",
    "POST /v1/runs",
    "POST /v1/sessions/{session}/messages",
)
"""To make a bad body of these takes half a second."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners")) as made:
        yield made


@dataclass
class Known:
    """What one test leaves to the next: what the other owner has, and whether one's own things were only looked at."""

    others: dict[str, Any]
    is_whole: bool = False


@pytest.fixture(scope="module")
def known(built):
    return Known(built.snapshot("bob"))


@pytest.mark.requirement("F1", "F9")
@pytest.mark.parametrize("label, mode", EVERY, ids=str)
def test_whatever_is_sent_gets_an_answer_of_the_document_and_nothing_of_others(
    built, known, label, mode, record_property
):
    """X1, X9: no error of ours, no hang, nothing undocumented, and no leak between owners."""
    only_looks = label.startswith("GET ")
    own = built.things["ann"] if only_looks and known.is_whole else built.populate("ann")
    known.is_whole = only_looks
    other = built.things["bob"]
    fuzzer, operation = Fuzzer(built, "ann", "bob"), OPERATIONS[mode][label]

    @examples(5 if operation.label in LARGE and mode is GenerationMode.NEGATIVE else 12)
    @given(operation.as_strategy(generation_mode=mode), st.data())
    def play(case, data):
        at_home(case, data.draw, own, other)
        fuzzer.send(case)

    play()
    before, known.others = known.others, built.snapshot("bob")
    assert known.others == before
    record_property("requests fuzzed", fuzzer.sent)


@pytest.mark.requirement("J3", "F9")
@pytest.mark.parametrize("mode", OPERATIONS, ids=str)
def test_whatever_is_sent_over_a_websocket_is_answered_with_events_and_nothing_of_others(built, mode):
    """The bodies of `POST /v1/responses`, each as one message of one connection."""
    operation = OPERATIONS[mode]["POST /v1/responses"]
    headers = {"authorization": f"Bearer {built.keys['ann']}"}
    address = built.url.replace("http://", "ws://") + "/v1/responses"
    with connect(address, additional_headers=headers, proxy=None) as line:

        def end_of(body):
            line.send(json.dumps({**body, "type": "response.create", "model": "lab"}, default=str))
            while True:
                raw = line.recv(timeout=HANGS)
                assert MARKS["bob"] not in raw
                if (told := json.loads(raw))["type"] in ENDS:
                    return told

        @examples(5)
        @given(operation.as_strategy(generation_mode=mode))
        def play(case):
            end_of(case.body if isinstance(case.body, dict) else {"input": None})

        play()
        assert end_of({"input": "hello"})["type"] == "response.completed"
