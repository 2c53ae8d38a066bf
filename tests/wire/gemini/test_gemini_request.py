"""What is asked of Gemini."""

from typing import Any

import pytest

from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    ProviderState,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS

GEMINI = PROTOCOLS["gemini"]
HI = Message("user", (TextPart("hi"),))
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


def state(**data: Any) -> ProviderState:
    return ProviderState("gemini", "m", data)


def contents(*messages: Message, quirks: Quirks = Quirks()) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = GEMINI.build(ModelRequest("m", messages), quirks)["contents"]
    return made


def test_the_model_and_the_stream_are_in_the_path() -> None:
    asked = ModelRequest("models/gemini-3", ())
    assert GEMINI.endpoint(asked) == "/models/gemini-3:streamGenerateContent?alt=sse"
    assert GEMINI.endpoint(ModelRequest("gemini-3", (), stream=False)) == "/models/gemini-3:generateContent"
    assert GEMINI.headers("k", Quirks())["x-goog-api-key"] == "k"
    assert "x-goog-api-key" not in GEMINI.headers("", Quirks())


def test_a_request_says_nothing_that_was_not_asked() -> None:
    body = GEMINI.build(ModelRequest("m", (Message("system", (TextPart("be kind"),)), HI)), Quirks())
    assert body == {
        "systemInstruction": {"parts": [{"text": "be kind"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


@pytest.mark.requirement("I8")
def test_texts_of_instructions_and_of_results_are_not_glued() -> None:
    told = Message("system", (TextPart("A."), TextPart("B.")))
    call = Message("assistant", (CallPart("c1", "look", "{}"),))
    result = Message("tool", (ResultPart("c1", (TextPart("one"), TextPart("two"))),))
    made = GEMINI.build(ModelRequest("m", (told, HI, call, result)), Quirks())

    assert made["systemInstruction"] == {"parts": [{"text": "A.\n\nB."}]}
    (answer,) = made["contents"][-1]["parts"]
    assert answer["functionResponse"]["response"] == {"output": "one\n\ntwo"}


def test_every_wish_has_its_field() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    asked = ModelRequest(
        "gemini-2.5-flash",
        (HI,),
        (LOOK,),
        NamedTool("look"),
        100,
        0.5,
        0.9,
        ("END",),
        "low",
        wanted,
        extra={"generationConfig": {"seed": 3}, "safetySettings": []},
    )
    body = GEMINI.build(asked, Quirks())
    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
        "seed": 3,
    }
    declared = {"name": "look", "description": "Looks.", "parametersJsonSchema": LOOK.parameters}
    assert body["tools"] == [{"functionDeclarations": [declared]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}
    assert body["safetySettings"] == []


@pytest.mark.parametrize("choice, mode", [("auto", "AUTO"), ("required", "ANY"), ("none", "NONE")])
def test_a_choice_of_tools_is_a_mode(choice: Any, mode: str) -> None:
    body = GEMINI.build(ModelRequest("m", (HI,), (LOOK,), choice), Quirks())
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}


@pytest.mark.parametrize(
    "model, effort, config",
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 24_576, "includeThoughts": True}),
        ("gemini-3-pro", "none", {"thinkingLevel": "minimal"}),
        ("gemini-3-pro", "medium", {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-3-pro", "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
    ],
)
def test_how_hard_it_thinks_is_a_budget_or_a_level(model: str, effort: str, config: dict[str, Any]) -> None:
    body = GEMINI.build(ModelRequest(model, (HI,), effort=effort), Quirks())
    assert body["generationConfig"] == {"thinkingConfig": config}


def test_results_of_a_turn_stand_alone_in_one_content_by_name_and_by_the_providers_own_ids() -> None:
    made = contents(
        HI,
        Message("assistant", (CallPart("a", "look", '{"at":1}', state(id="a")), CallPart("b", "find", "{}"))),
        Message(
            "tool",
            (
                ResultPart(
                    "a",
                    (TextPart("seen"), ImagePart(data="iVBO")),
                ),
            ),
        ),
        Message("tool", (ResultPart("b", (TextPart("no"),), failed=True),)),
        Message("user", (TextPart("and?"),)),
    )
    assert made[1]["parts"] == [
        {"functionCall": {"name": "look", "args": {"at": 1}, "id": "a"}},
        {"functionCall": {"name": "find", "args": {}}},
    ]
    answered = [content for content in made if "functionResponse" in content["parts"][0]]
    assert [content["role"] for content in made] == ["user", "model", "user", "user", "user"]
    assert answered == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "seen"}, "id": "a"}},
                {"functionResponse": {"name": "find", "response": {"error": "no"}}},
            ],
        }
    ]
    assert made[3]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]
    assert made[4]["parts"] == [{"text": "and?"}]


def test_a_call_of_another_model_gets_a_stand_in_signature_where_that_is_wanted() -> None:
    said = Message("assistant", (CallPart("a", "look", "{}"), CallPart("b", "look", "{}")))
    signed, bare = contents(HI, said, quirks=Quirks(signature_fallback=True))[1]["parts"]
    assert signed["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in bare
    assert all("thoughtSignature" not in part for part in contents(HI, said)[1]["parts"])


def test_a_thought_goes_back_only_with_its_signature() -> None:
    said = Message(
        "assistant",
        (ReasoningPart("hm"), ReasoningPart("so", state(thoughtSignature="s")), TextPart("yes")),
    )
    assert contents(HI, said)[1]["parts"] == [
        {"text": "so", "thought": True, "thoughtSignature": "s"},
        {"text": "yes"},
    ]
