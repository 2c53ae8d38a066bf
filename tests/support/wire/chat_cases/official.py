"""What the official package makes of Chat Completions bytes, and our own reply, as the same plain values."""

from typing import Any

from support.wire.official_clients import openai_client

from turnbuckle.vocab.reply import Reply
from turnbuckle.wire.usage import usage_from_openai

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def by_helper(data: bytes) -> dict[str, Any]:
    """Read a stream by the package's own accumulator."""
    with openai_client(data).chat.completions.stream(**ASKED) as stream:
        for _ in stream:
            pass
        return _facts(stream.current_completion_snapshot)


def by_chunks(data: bytes) -> list[Any]:
    """The chunks that the package yields."""
    return list(openai_client(data).chat.completions.create(**ASKED, stream=True))


def by_answer(data: bytes) -> dict[str, Any]:
    """Read a plain answer."""
    return _facts(openai_client(data, "application/json").chat.completions.create(**ASKED))


def _facts(completion: Any) -> dict[str, Any]:
    (choice,) = completion.choices
    message = choice.message
    return {
        "id": completion.id,
        "model": completion.model,
        "text": message.content or "",
        "refusal": message.refusal or "",
        "reasoning": getattr(message, "reasoning_content", None) or "",
        "calls": [
            (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()
        ],
        "finish": choice.finish_reason,
        "usage": None if completion.usage is None else usage_from_openai(completion.usage.to_dict()),
    }


def by_us(reply: Reply) -> dict[str, Any]:
    """Our reply as the same values."""
    return {
        "id": reply.id,
        "model": reply.model,
        "text": reply.text,
        "refusal": reply.refusal,
        "reasoning": reply.reasoning,
        "calls": [(call.id, call.name, call.arguments) for call in reply.calls],
        "finish": reply.finish_said,
        "usage": reply.usage,
    }
