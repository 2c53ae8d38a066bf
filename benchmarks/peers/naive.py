"""The obvious pass-through: FastAPI and the official package, chunk by chunk, nothing kept.

python benchmarks/peers/naive.py PORT PROVIDER_PORT
"""

import sys
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import fastapi.responses
import openai
import uvicorn

client = openai.AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{sys.argv[2]}/v1", max_retries=0)


async def chat(body: dict[str, Any]) -> Any:
    if not body.pop("stream", False):
        return await client.chat.completions.create(**body)
    stream = await client.chat.completions.create(stream=True, **body)

    async def lines() -> AsyncIterator[str]:
        async for chunk in stream:
            yield f"data: {chunk.model_dump_json()}\n\n"
        yield "data: [DONE]\n\n"

    return fastapi.responses.StreamingResponse(lines(), media_type="text/event-stream")


app = fastapi.FastAPI()
app.post("/v1/chat/completions")(chat)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
