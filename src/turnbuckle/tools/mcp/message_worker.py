"""The process that looks at a long message before anybody else does: is it JSON, with lists that can be read
at once? Reading millions of tiny parts would hold up the whole server. Standard library only.

Its wish has limits for time and memory, and how many parts there may be. It tells what is wrong, if anything.
"""

import contextlib
import json
import resource
import sys
from typing import Any


def looked_at(line: bytes, most: int) -> dict[str, Any]:
    """The number of the question that a message answers, and what is wrong with it; empty if nothing is."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"fault": f"not a message of JSON-RPC: {error}"}
    result = message.get("result") if isinstance(message, dict) else None
    if not isinstance(result, dict):
        return {"fault": ""}
    parts = [value for value in (result.get("content"), result.get("tools")) if isinstance(value, list)]
    fault = f"it sent a message of more than {most:,} parts" if any(len(one) > most for one in parts) else ""
    number = message.get("id")
    return {"fault": fault, "number": number if type(number) is int else None}


def main() -> None:
    wish = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_CPU, (wish["seconds"], wish["seconds"] + 1))
    with contextlib.suppress(ValueError, OSError):  # some systems cannot limit memory in this way
        resource.setrlimit(resource.RLIMIT_AS, (wish["memory"], wish["memory"]))
    json.dump(looked_at(sys.stdin.buffer.read(), wish["most"]), sys.stdout)


if __name__ == "__main__":
    main()
