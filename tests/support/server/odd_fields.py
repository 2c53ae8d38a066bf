"""Fields that nobody has heard of, each with a mark by which it is found again."""

import json
import re
from typing import Any

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
}


class Odds:
    """A field that nobody knows, for each place by its name."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def __call__(self, place: str) -> dict[str, Any]:
        self.places.append(place)
        name = f"odd_{place}"
        return {name: {"is": [f"<{place}>"]}}


def found_in(value: Any) -> list[str]:
    return sorted(set(re.findall(r"<([a-z_0-9]+)>", json.dumps(value))))
