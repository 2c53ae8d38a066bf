"""When a conversation starts fresh by itself: after so long a silence, at an hour of the day, or both. Pure:
the time, and the zone in which the hour counts, are handed in."""

from datetime import datetime, timedelta, tzinfo
from typing import Literal

from msgspec import Struct

from turnbuckle.session.facts import FreshWhy

Mode = Literal["none", "idle", "daily", "both"]
Surface = Literal["chat", "responses", "runs"]
"""Where people hear of a fresh start."""

_WANTED: tuple[FreshWhy, ...] = ("new", "reset", "idle", "daily")
"""Fresh starts that somebody asked for, now or in the settings. The others are news, and are told
everywhere."""


class ResetRule(Struct, frozen=True):
    """The settings."""

    mode: Mode = "none"
    idle_minutes: float = 1440.0
    daily_hour: int = 4


def reason(rule: ResetRule, spoken_at: float, now: float, zone: tzinfo) -> FreshWhy | None:
    """Why a message that comes now starts the conversation fresh, if something was last said at `spoken_at`.
    Of two reasons the silence is told: it says more."""
    if rule.mode in ("idle", "both") and now - spoken_at >= rule.idle_minutes * 60:
        return "idle"
    if rule.mode in ("daily", "both") and spoken_at < last_time(rule.daily_hour, now, zone):
        return "daily"
    return None


def last_time(hour: int, now: float, zone: tzinfo) -> float:
    """When the clock last showed this hour, at or before now."""
    here = datetime.fromtimestamp(now, zone)
    today = here.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    then = (
        today
        if today.timestamp() <= now
        else (here - timedelta(days=1)).replace(hour=hour, minute=0, second=0, microsecond=0, fold=0)
    )
    return then.timestamp()


_WORDS: dict[FreshWhy, tuple[str, str]] = {
    "new": ("the user began a new conversation", "New conversation."),
    "reset": ("the user reset the conversation", "The conversation was reset."),
    "idle": ("the conversation had been silent for long", "Fresh start after a long silence."),
    "daily": (
        "conversations start fresh at an hour of the day",
        "Fresh start: conversations start fresh each day.",
    ),
    "stopped": ("the user stopped the last run", "Fresh start: the last run was stopped."),
    "crashed": (
        "the last run could not be brought to an end",
        "Fresh start: the last run could not be brought to an end.",
    ),
    "stale": (
        "the last run was interrupted long ago",
        "Fresh start: the last run was interrupted long ago.",
    ),
}
"""Why, for the model and for the user."""


def note_for(why: FreshWhy, detail: str = "") -> str:
    """What the model is told, once."""
    because = _WORDS[why][0]
    return (
        f"[Runtime] This is a fresh start: {because}{f' ({detail})' if detail else ''}. Earlier "
        "messages are not shown."
    )


def is_told(why: FreshWhy, surface: str, quiet: tuple[Surface, ...]) -> bool:
    """Whether the user is told of this fresh start where some surfaces are to be quiet."""
    return why not in _WANTED or surface not in quiet


def notice_for(why: FreshWhy, detail: str = "") -> str:
    """What the user is told, once."""
    more = f" ({detail})" if detail else ""
    return f"{_WORDS[why][1]}{more} What was said before is kept, but the model does not see it."
