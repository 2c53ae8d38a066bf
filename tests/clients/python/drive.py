"""Runs Python clients by jobs: one JSON object for each line of input, and one line for each answer.

A process of its own keeps what these packages do to logging, warnings and threads away from the tests. A job names the
client, the surface (`chat` or `responses`) and the way to ask; the answer is what a user of that client would see.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict
from typing import Any

import with_agents
import with_openai
import with_pydantic_ai
from seen import Seen

_ASK = {
    "openai-python": with_openai.ask,
    "openai-python-async": with_openai.ask,
    "pydantic-ai": with_pydantic_ai.ask,
    "openai-agents": with_agents.ask,
}
PATIENCE = 90.0


async def carry_out(job: dict[str, Any]) -> dict[str, Any]:
    """What was seen of one job. What the client raises is seen too."""
    seen = Seen()
    began = time.monotonic()
    try:
        await asyncio.wait_for(_ASK[job["client"]](job, seen), PATIENCE)
    except Exception as error:
        seen.failed(error)
    return {**asdict(seen), "seconds": round(time.monotonic() - began, 3)}


def main() -> None:
    """Until the input ends."""
    print(json.dumps({"ready": sorted(_ASK)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(asyncio.run(carry_out(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
