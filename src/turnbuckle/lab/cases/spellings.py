"""Reasoning under the many names that Chat Completions hosts give it. Elsewhere it comes by the book."""

from typing import Any

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.script import Case, Finish, Raw, Reason, Say, Script, ScriptItem, When, chat_chunk

_BY_THE_BOOK: Script = (Reason(THOUGHT), Say(ANSWER), Finish())
_HALF = 40


def _spelt(name: str, summary: str, *deltas: dict[str, Any]) -> Case:
    frames: tuple[ScriptItem, ...] = (
        *(chat_chunk(delta) for delta in deltas),
        chat_chunk({"content": ANSWER}),
        chat_chunk({}, "stop"),
        Raw("data: [DONE]\n\n"),
    )
    return Case(name, summary, ((When("openai_chat streaming", frames, _BY_THE_BOOK),),), scenarios=("P28",))


def _detail(text: str) -> dict[str, Any]:
    return {"reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]}


SPELLINGS: tuple[Case, ...] = (
    _spelt(
        "reasoning-as-reasoning",
        "thinks in the field reasoning",
        {"reasoning": THOUGHT[:_HALF]},
        {"reasoning": THOUGHT[_HALF:]},
    ),
    _spelt(
        "reasoning-as-content",
        "thinks in the field reasoning_content",
        {"reasoning_content": THOUGHT[:_HALF]},
        {"reasoning_content": THOUGHT[_HALF:]},
    ),
    _spelt(
        "reasoning-as-details",
        "thinks in the field reasoning_details",
        _detail(THOUGHT[:_HALF]),
        _detail(THOUGHT[_HALF:]),
    ),
    _spelt(
        "reasoning-twice",
        "the same thought in two fields of each chunk",
        {"reasoning": THOUGHT[:_HALF], **_detail(THOUGHT[:_HALF])},
        {"reasoning": THOUGHT[_HALF:], **_detail(THOUGHT[_HALF:])},
    ),
)
