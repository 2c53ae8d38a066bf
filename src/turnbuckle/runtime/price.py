"""What tokens cost, from a maintained price table.

The table takes a third of a second to load, so it is loaded only by who asks: at the start of a program whose
turns have a limit in money, else when a run is over and something was wasted.
"""

import importlib
from typing import Any

from turnbuckle.vocab.events import Usage


def price_of(model: str, usage: Usage) -> float | None:
    """Dollars for what a model has used, or None if nobody knows. What came from a cache, or went to one, has
    a price of its own."""
    table = load()
    counts = {"input_tokens": usage.input or 0, "output_tokens": usage.output or 0}
    if usage.cached:
        counts["cache_read_tokens"] = min(usage.cached, counts["input_tokens"])
    if usage.cache_written:
        left = counts["input_tokens"] - counts.get("cache_read_tokens", 0)
        counts["cache_write_tokens"] = min(usage.cache_written, left)
    try:
        return float(table.calc_price(table.Usage(**counts), model_ref=model).total_price)
    except (LookupError, ValueError):
        return None


def window_of(model: str) -> int | None:
    """How many tokens a model takes in all, or None if the table does not know."""
    snapshots = importlib.import_module("genai_prices.data_snapshot")
    try:
        _, found = snapshots.get_snapshot().find_provider_model(model, None, None, None)
    except (LookupError, ValueError):
        return None
    return found.context_window or None


def load() -> Any:
    """The table, read once."""
    return importlib.import_module("genai_prices")
