"""OpenAI's own agents package, with its model classes for both surfaces."""

from typing import Any

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    ToolCallItem,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from seen import Seen, Weather

set_tracing_disabled(True)  # it would send what happens here to somebody

_MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


async def ask(job: dict[str, Any], seen: Seen) -> None:
    """One turn of an agent, in one piece or event by event."""
    tools = [function_tool(seen.get_weather), function_tool(seen.keep_text)]
    async with AsyncOpenAI(base_url=job["base_url"], api_key=job["api_key"]) as client:
        form = job["way"] == "form"
        agent = Agent(
            name="Tester",
            model=_MODELS[job["surface"]](model=job["model"], openai_client=client),
            tools=tools if job.get("tools") else [],
            output_type=Weather if form else None,
        )
        if form:
            seen.text = (await Runner.run(agent, job["prompt"])).final_output.model_dump_json()
            return
        history = await _turn(agent, job["way"], job["prompt"], seen)
        if job.get("then"):
            seen.start_over()
            await _turn(agent, job["way"], [*history, {"role": "user", "content": job["then"]}], seen)


async def _turn(agent: Agent, way: str, asked: Any, seen: Seen) -> list[Any]:
    if way == "plain":
        result: Any = await Runner.run(agent, asked, run_config=RunConfig(tracing_disabled=True))
        seen.text = result.final_output
    else:
        result = Runner.run_streamed(agent, asked, run_config=RunConfig(tracing_disabled=True))
        async for event in result.stream_events():
            _take_event(event, seen)
        seen.final = result.final_output
    for item in result.new_items:
        if isinstance(item, ToolCallItem):
            raw = item.raw_item
            if raw.type == "function_call":
                seen.calls.append({"id": raw.call_id, "name": raw.name, "arguments": raw.arguments})
            else:
                seen.shown.append(f"{raw.name} {raw.status}")
    used = result.context_wrapper.usage
    seen.used(used.input_tokens, used.output_tokens)
    return list(result.to_input_list())


def _take_event(event: Any, seen: Seen) -> None:
    if event.type != "raw_response_event":
        return
    seen.chunks += 1
    match event.data.type:
        case "response.output_text.delta":
            seen.text += event.data.delta
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            seen.reasoning += event.data.delta
        case "response.completed":
            seen.finish = event.data.response.status
