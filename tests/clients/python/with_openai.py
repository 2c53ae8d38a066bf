"""The official Python package, sync and async, in all the ways in which it can ask."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from seen import TOOLS, Seen, Weather

CHAT_TOOLS = [{"type": "function", "function": tool} for tool in TOOLS]
RESPONSE_TOOLS = [{"type": "function", **tool, "strict": False} for tool in TOOLS]
ROUNDS = 4


class Sync:
    """The sync client behind the face of the async one, so that what is asked is written down once."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.client = openai.OpenAI(**_access(job))

    async def call(self, made: Any) -> Any:
        return made

    async def each(self, stream: Iterator[Any]) -> AsyncIterator[Any]:
        for item in stream:
            yield item

    def enter(self, manager: Any) -> Any:
        return _AsAsync(manager)

    async def close(self) -> None:
        self.client.close()


class Async:
    """The async client."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.client = openai.AsyncOpenAI(**_access(job))

    async def call(self, made: Any) -> Any:
        return await made

    async def each(self, stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for item in stream:
            yield item

    def enter(self, manager: Any) -> Any:
        return manager

    async def close(self) -> None:
        await self.client.close()


class _AsAsync:
    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __aenter__(self) -> Any:
        return self._manager.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        self._manager.__exit__(*raised)


def _access(job: dict[str, Any]) -> dict[str, Any]:
    return {"base_url": job["base_url"], "api_key": job["api_key"], "timeout": 30.0}


async def ask(job: dict[str, Any], seen: Seen) -> None:
    """One turn by the client that the job names."""
    asker = Sync(job) if job["client"] == "openai-python" else Async(job)
    try:
        await _WAYS[job["surface"], job["way"]](asker, job, seen)
    finally:
        await asker.close()


# Chat completions


async def _chat(asker: Sync | Async, job: dict[str, Any], seen: Seen) -> None:
    """Asks until the model wants no tool of ours any more, as every chat program does."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": job["prompt"]}]
    for _ in range(ROUNDS):
        before = len(seen.calls)
        await _CHAT_ROUNDS[job["way"]](
            asker, {"model": job["model"], "messages": messages, **_chat_tools(job)}, seen
        )
        fresh = seen.calls[before:]
        if not fresh:
            break
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in fresh
        ]
        messages.append({"role": "assistant", "content": seen.text or None, "tool_calls": calls})
        for call in fresh:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": _run(call, seen)})
    if job.get("then"):
        messages += [{"role": "assistant", "content": seen.text}, {"role": "user", "content": job["then"]}]
        seen.start_over()
        await _CHAT_ROUNDS[job["way"]](
            asker, {"model": job["model"], "messages": messages, **_chat_tools(job)}, seen
        )


def _chat_tools(job: dict[str, Any]) -> dict[str, Any]:
    return {"tools": CHAT_TOOLS} if job.get("tools") else {}


def _run(call: dict[str, str], seen: Seen) -> str:
    tools = {"get_weather": seen.get_weather, "keep_text": seen.keep_text}
    if call["name"] not in tools:
        seen.ran.append(call["name"])
        return "there is no such tool"
    return tools[call["name"]](**json.loads(call["arguments"]))


async def _chat_plain(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> None:
    _take_completion(await asker.call(asker.client.chat.completions.create(**asked)), seen)


async def _chat_stream(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> None:
    stream = asker.client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    )
    calls: dict[int, dict[str, str]] = {}
    async for chunk in asker.each(await asker.call(stream)):
        _take_chunk(chunk, calls, seen)
    seen.calls += [calls[index] for index in sorted(calls)]


async def _chat_helper(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> None:
    async with asker.enter(asker.client.chat.completions.stream(**asked)) as stream:
        async for event in asker.each(stream):
            seen.chunks += event.type == "chunk"
            if event.type == "content.delta":
                seen.text += event.delta
        final = await asker.call(stream.get_final_completion())
    whole = Seen()
    _take_completion(final, whole)
    seen.final = (seen.final or "") + whole.text
    seen.calls += whole.calls
    seen.finish, seen.reasoning = whole.finish, seen.reasoning + whole.reasoning


async def _chat_form(asker: Sync | Async, job: dict[str, Any], seen: Seen) -> None:
    asked = {"model": job["model"], "messages": [{"role": "user", "content": job["prompt"]}]}
    whole = await asker.call(asker.client.chat.completions.parse(**asked, response_format=Weather))
    seen.text = whole.choices[0].message.parsed.model_dump_json()
    seen.finish = whole.choices[0].finish_reason


def _take_completion(whole: ChatCompletion, seen: Seen) -> None:
    choice = whole.choices[0]
    seen.text += choice.message.content or ""
    seen.reasoning += getattr(choice.message, "reasoning_content", None) or ""
    seen.finish = choice.finish_reason
    for call in choice.message.tool_calls or []:
        seen.calls.append({"id": call.id, "name": call.function.name, "arguments": call.function.arguments})
    if whole.usage is not None:
        seen.used(whole.usage.prompt_tokens, whole.usage.completion_tokens)
    _take_extra(whole, seen)


def _take_chunk(chunk: ChatCompletionChunk, calls: dict[int, dict[str, str]], seen: Seen) -> None:
    seen.chunks += 1
    for choice in chunk.choices:
        seen.text += choice.delta.content or ""
        seen.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        for piece in choice.delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
            call["id"] += piece.id or ""
            if piece.function is not None:
                call["name"] += piece.function.name or ""
                call["arguments"] += piece.function.arguments or ""
        seen.finish = choice.finish_reason or seen.finish
    if chunk.usage is not None:
        seen.used(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
    _take_extra(chunk, seen)


def _take_extra(said: Any, seen: Seen) -> None:
    extra = (said.model_extra or {}).get("turnbuckle") or {}
    seen.outcome = extra.get("outcome", seen.outcome)
    if tool := extra.get("tool"):
        seen.shown.append(f"{tool['tool']} {tool['status']}")


_CHAT_ROUNDS = {"plain": _chat_plain, "stream": _chat_stream, "helper": _chat_helper}


# Responses


async def _response(asker: Sync | Async, job: dict[str, Any], seen: Seen) -> None:
    asked: dict[str, Any] = {"model": job["model"], "input": job["prompt"]}
    if job.get("tools"):
        asked["tools"] = RESPONSE_TOOLS
    made = ""
    for _ in range(ROUNDS):
        before = len(seen.calls)
        made = await _RESPONSE_ROUNDS[job["way"]](asker, asked, seen)
        fresh = seen.calls[before:]
        if not fresh:
            break
        results = [
            {"type": "function_call_output", "call_id": call["id"], "output": _run(call, seen)}
            for call in fresh
        ]
        asked = {**asked, "input": results, "previous_response_id": made}
    if job.get("then"):
        seen.start_over()
        await _RESPONSE_ROUNDS[job["way"]](
            asker, {**asked, "input": job["then"], "previous_response_id": made}, seen
        )


async def _response_plain(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> str:
    whole = await asker.call(asker.client.responses.create(**asked))
    seen.text += whole.output_text
    return _take_response(whole, seen)


async def _response_stream(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> str:
    made = ""
    async for event in asker.each(await asker.call(asker.client.responses.create(**asked, stream=True))):
        made = _take_event(event, seen) or made
    return made


async def _response_helper(asker: Sync | Async, asked: dict[str, Any], seen: Seen) -> str:
    made = ""
    async with asker.enter(asker.client.responses.stream(**asked)) as stream:
        async for event in asker.each(stream):
            made = _take_event(event, seen) or made
        final = await asker.call(stream.get_final_response())
    seen.final = (seen.final or "") + final.output_text
    return made


async def _response_form(asker: Sync | Async, job: dict[str, Any], seen: Seen) -> None:
    asked = {"model": job["model"], "input": job["prompt"]}
    whole = await asker.call(asker.client.responses.parse(**asked, text_format=Weather))
    seen.text = whole.output_parsed.model_dump_json()
    seen.finish = whole.status


async def _resumed(asker: Sync | Async, job: dict[str, Any], seen: Seen) -> None:
    """Leaves the stream of a background response behind its nth event, and reads the rest by its number."""
    made, last = "", -1
    stream = await asker.call(
        asker.client.responses.create(model=job["model"], input=job["prompt"], background=True, stream=True)
    )
    async for event in asker.each(stream):
        made = _take_event(event, seen) or made
        last = event.sequence_number
        if len(seen.numbers) >= job["leave_after"]:
            break
    await asker.call(stream.close())
    if job["way"] == "resume-helper":
        # The helper reads all of it again to know what came before, and shows only what is new.
        async with asker.enter(asker.client.responses.stream(response_id=made, starting_after=last)) as rest:
            async for event in asker.each(rest):
                _take_event(event, seen)
            final = await asker.call(rest.get_final_response())
    else:
        rest = await asker.call(asker.client.responses.retrieve(made, stream=True, starting_after=last))
        async for event in asker.each(rest):
            _take_event(event, seen)
        final = await asker.call(asker.client.responses.retrieve(made))
    seen.final = final.output_text


def _take_event(event: Any, seen: Seen) -> str:
    seen.chunks += 1
    if event.type != "response.in_progress" or event.sequence_number != (seen.numbers or [-1])[-1]:
        seen.numbers.append(event.sequence_number)  # a sign of life repeats the last number
    match event.type:
        case "response.created":
            return str(event.response.id)
        case "response.output_text.delta":
            seen.text += event.delta
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            seen.reasoning += event.delta
        case "response.completed" | "response.incomplete" | "response.failed":
            _take_response(event.response, seen)
    return ""


def _take_response(whole: Response, seen: Seen) -> str:
    seen.finish = whole.status
    answered = {item.call_id for item in whole.output if item.type == "function_call_output"}
    for item in whole.output:
        if item.type == "function_call" and item.call_id not in answered:
            seen.calls.append({"id": item.call_id, "name": item.name, "arguments": item.arguments})
        elif item.type in ("function_call", "mcp_call"):
            seen.shown.append(f"{item.name} {item.status}")
    if whole.usage is not None:
        seen.used(whole.usage.input_tokens, whole.usage.output_tokens)
    if whole.error is not None:
        seen.error = {
            "kind": "response.error",
            "message": whole.error.message,
            "status": None,
            "code": whole.error.code,
        }
    seen.outcome = ((whole.model_extra or {}).get("turnbuckle") or {}).get("outcome", seen.outcome)
    return whole.id


_RESPONSE_ROUNDS = {"plain": _response_plain, "stream": _response_stream, "helper": _response_helper}
_WAYS = {
    **{("chat", way): _chat for way in _CHAT_ROUNDS},
    **{("responses", way): _response for way in _RESPONSE_ROUNDS},
    ("chat", "form"): _chat_form,
    ("responses", "form"): _response_form,
    ("responses", "resume"): _resumed,
    ("responses", "resume-helper"): _resumed,
}
