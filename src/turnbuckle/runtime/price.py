"""What tokens cost, from a maintained price table.

The table takes a third of a second to load, so it is loaded only by who asks: at the start of a program whose
turns have a limit in money, else when a run is over and something was wasted.
"""

import importlib
from typing import Any


def price_of(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Dollars for so many tokens of a model, or None if nobody knows."""
    table = load()
    try:
        usage = table.Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        return float(table.calc_price(usage, model_ref=model).total_price)
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
