"""pydantic-ai, with its model classes for both of OpenAI's surfaces."""

from typing import Any

from pydantic_ai import Agent, NativeOutput
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    ModelMessage,
    ModelResponse,
    NativeToolCallPart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from seen import TOOLS, Seen, Weather

_OWN = {tool["name"] for tool in TOOLS}
_MODELS = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}


async def ask(job: dict[str, Any], seen: Seen) -> None:
    """One turn of an agent, in one piece or event by event."""
    provider = OpenAIProvider(base_url=job["base_url"], api_key=job["api_key"])
    if job["way"] == "form":
        agent = Agent(
            _MODELS[job["surface"]](job["model"], provider=provider), output_type=NativeOutput(Weather)
        )
        seen.text = (await agent.run(job["prompt"])).output.model_dump_json()
        return
    tools = [seen.get_weather, seen.keep_text] if job.get("tools") else []
    agent = Agent(_MODELS[job["surface"]](job["model"], provider=provider), tools=tools)
    history = await _turn(agent, job["way"], job["prompt"], [], seen)
    if job.get("then"):
        seen.start_over()
        await _turn(agent, job["way"], job["then"], history, seen)


async def _turn(
    agent: Agent[None, str], way: str, prompt: str, history: list[ModelMessage], seen: Seen
) -> list[ModelMessage]:
    if way == "plain":
        result = await agent.run(prompt, message_history=history)
        seen.text = result.output
    else:
        async with agent.run_stream_events(prompt, message_history=history) as events:
            async for event in events:
                _take_event(event, seen)
            result = events.result
        seen.final = result.output
    _take_messages(result.new_messages(), seen)
    seen.used(result.usage.input_tokens, result.usage.output_tokens)
    return result.all_messages()


def _take_event(event: Any, seen: Seen) -> None:
    seen.chunks += 1
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            seen.text += text
        case PartStartEvent(part=ThinkingPart(content=text)):
            seen.reasoning += text
        case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
            seen.reasoning += text or ""
        case FunctionToolCallEvent(part=part) if part.tool_name not in _OWN:
            seen.ran.append(part.tool_name)
        case _:
            pass


def _take_messages(messages: list[ModelMessage], seen: Seen) -> None:
    for message in messages:
        if not isinstance(message, ModelResponse):
            continue
        seen.finish = message.finish_reason
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                called = {
                    "id": part.tool_call_id,
                    "name": part.tool_name,
                    "arguments": part.args_as_json_str(),
                }
                seen.calls.append(called)
            elif isinstance(part, NativeToolCallPart):
                seen.shown.append(f"{part.args_as_dict()['tool_name']} completed")
